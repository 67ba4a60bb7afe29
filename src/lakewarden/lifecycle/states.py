"""The states of an operation, the transitions between them, and which states allow to apply, pause or resume it."""

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


class Stop(StrEnum):
    """Why a run ends before all its actions are done."""

    BUDGET = "budget"
    """It reached its limit: the rest is left, and the operation is done."""
    PAUSE = "pause"
    """A person or the operation itself paused it: it continues when it is resumed by its id."""
    CANCEL = "cancel"
    INTERRUPT = "interrupt"


ALLOWED: dict[State, frozenset[State]] = {
    State.PLANNED: frozenset({State.RUNNING, State.CANCELLED}),
    # running → running and verifying → running: resumed after its holder died
    State.RUNNING: frozenset({State.RUNNING, State.VERIFYING, State.PAUSED, State.FAILED, State.CANCELLED}),
    State.VERIFYING: frozenset({State.RUNNING, State.DONE, State.PAUSED, State.FAILED, State.CANCELLED}),
    State.PAUSED: frozenset({State.RUNNING, State.CANCELLED}),
    State.FAILED: frozenset({State.RUNNING, State.CANCELLED}),
    State.DONE: frozenset(),
    State.CANCELLED: frozenset(),
}

UNFINISHED = frozenset({State.RUNNING, State.VERIFYING, State.PAUSED})
"""States after a crash or a pause, which `operation resume` continues from."""


def check_move(operation: str, old: State, new: State) -> None:
    """Refuse an invalid transition."""
    if new not in ALLOWED[old]:
        raise IllegalTransition(
            f"operation {operation} is {old} and cannot become {new}",
            hint=f"lakewarden operation show {operation} shows its history.",
        )


def check_apply(operation: str, state: State) -> None:
    """Refuse to apply anything but a plan that was not applied yet."""
    if state is not State.PLANNED:
        resumable = state in UNFINISHED or state is State.FAILED
        hint = f"Resume it with: lakewarden operation resume {operation}" if resumable else "Plan again."
        raise IllegalTransition(f"operation {operation} is {state}, not planned", hint)


def check_pause(operation: str, state: State) -> None:
    """Refuse to pause what has not started, or has ended."""
    if state not in UNFINISHED:
        cancel = f"Discard the plan with: lakewarden operation cancel {operation}" if state is State.PLANNED else ""
        raise IllegalTransition(f"operation {operation} is {state}: there is nothing to pause", cancel)


def check_resume(operation: str, state: State) -> None:
    """Refuse to resume what has not started, or has ended."""
    if state not in UNFINISHED and state is not State.FAILED:
        hint = f"Apply it with: lakewarden operation apply {operation}" if state is State.PLANNED else ""
        raise IllegalTransition(f"operation {operation} is {state}: there is nothing to resume", hint)
