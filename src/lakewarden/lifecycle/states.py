"""The states of an operation, and the only ways between them."""

from __future__ import annotations

from enum import StrEnum

from lakewarden.errors import IllegalTransition


class State(StrEnum):
    PLANNED = "planned"
    RUNNING = "running"
    VERIFYING = "verifying"
    DONE = "done"
    PAUSED = "paused"
    FAILED = "failed"
    CANCELLED = "cancelled"


ALLOWED: dict[State, frozenset[State]] = {
    State.PLANNED: frozenset({State.RUNNING, State.CANCELLED}),
    # running → running and verifying → running: taken up again after its holder died
    State.RUNNING: frozenset({State.RUNNING, State.VERIFYING, State.PAUSED, State.FAILED, State.CANCELLED}),
    State.VERIFYING: frozenset({State.RUNNING, State.DONE, State.PAUSED, State.FAILED, State.CANCELLED}),
    State.PAUSED: frozenset({State.RUNNING, State.CANCELLED}),
    State.FAILED: frozenset({State.RUNNING, State.CANCELLED}),
    State.DONE: frozenset(),
    State.CANCELLED: frozenset(),
}

UNFINISHED = frozenset({State.RUNNING, State.VERIFYING, State.PAUSED})
"""States that a crash or a pause leaves behind, and that `operation resume` takes up."""


def check_move(operation: str, old: State, new: State) -> None:
    """Refuse a transition that no operation may make."""
    if new not in ALLOWED[old]:
        raise IllegalTransition(
            f"operation {operation} is {old} and cannot become {new}",
            hint=f"lakewarden operation show {operation} tells how it got there.",
        )
