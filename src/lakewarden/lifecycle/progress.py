"""What a running operation tells whoever watches it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Event:
    """One thing that happened, with how far the whole operation is: `done` of `total` actions."""

    operation: str
    kind: str
    phase: Literal["started", "waiting", "applying", "applied", "verifying", "failed", "finished"]
    done: int
    total: int
    table: str = ""
    says: str = ""


Watcher = Callable[[Event], None]


def unwatched(event: Event) -> None:
    """Nobody looks."""
