"""What a running operation tells whoever watches it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Phase = Literal["started", "waiting", "applying", "working", "applied", "verifying", "skipped", "failed", "finished"]


@dataclass(frozen=True)
class Event:
    """One thing that happened, with how far the whole operation is: `done` of `total` actions.

    While an action works, it may tell how far it is itself: `part` of it is done, from 0 to 1. Where subjects are
    worked on side by side, events of several of them come mixed, one at a time.
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
    """Nobody looks."""
