"""The result of a proof of erasure: what remains, what could not be read, and how the search was done."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True)
class Place:
    """Something that still contains a value."""

    object: str
    version: str
    where: str
    kind: str
    live: bool


@dataclass(frozen=True)
class NotRead:
    """An object that could not be examined."""

    object: str
    version: str
    why: str


@dataclass
class Proof:
    """The result of searching everything stored of a table."""

    metadata: str
    snapshots: int
    places: list[Place] = field(default_factory=list)
    young: list[Place] = field(default_factory=list)
    """In unreferenced objects so new that a writer may be about to commit them."""
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
