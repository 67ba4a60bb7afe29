"""Progress events of a running operation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Phase = Literal["started", "waiting", "applying", "working", "applied", "verifying", "skipped", "failed", "finished"]


@dataclass(frozen=True)
class Event:
    """One event, with the progress of the whole operation: `done` of `total` actions.

    A running action may report its own progress: `part`, from 0 to 1. If subjects run in parallel, their events are
    interleaved.
    """

    operation: str
    kind: str
    phase: Phase
    done: int
    total: int
    subject: str = ""
    says: str = ""
    part: float = 0.0


Watcher = Callable[[Event], None]


def unwatched(event: Event) -> None:
    """Ignores events."""
