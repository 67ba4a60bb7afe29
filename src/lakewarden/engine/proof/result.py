"""What a proof of erasure came to, as values: where something is left, what was not read, and how it was looked."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True)
class Place:
    """Something that still holds a value."""

    object: str
    version: str
    where: str
    kind: str
    live: bool


@dataclass(frozen=True)
class NotRead:
    """An object that nothing can be said of."""

    object: str
    version: str
    why: str


@dataclass
class Proof:
    """What looking through all that is stored of a table came to."""

    metadata: str
    snapshots: int
    places: list[Place] = field(default_factory=list)
    young: list[Place] = field(default_factory=list)
    """In objects that nothing leads to, and that are so new that somebody may be about to commit them."""
    youngest: datetime | None = None
    """When the newest of these was written."""
    not_read: list[NotRead] = field(default_factory=list)
    objects: int = 0
    bytes: int = 0
    by_kind: dict[str, int] = field(default_factory=dict)
    method: list[str] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        return not (self.places or self.young or self.not_read)
