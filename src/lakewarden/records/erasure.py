"""Erasure requests and their tombstones: whose rows are hidden and to be erased, by key column and value.

This module defines the protocols of the store; `state/` implements it. Plain values are kept only as long as they are
needed to find rows. After that a keyed digest remains, which recognises the same value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

from lakewarden.errors import NotFound

if TYPE_CHECKING:
    from lakewarden.erased_values import ErasedValues


class ErasureState(StrEnum):
    """Open until a clean proof closes it, or until it is withdrawn."""

    OPEN = "open"
    CLOSED = "closed"
    WITHDRAWN = "withdrawn"


class Folding(StrEnum):
    """Which differences in spelling a request ignores in text keys: none, letter case, surrounding spaces, or both."""

    NONE = ""
    CASE = "case"
    TRIM = "trim"
    BOTH = "case,trim"

    @staticmethod
    def from_flags(ignore_case: bool, trim: bool) -> Folding:
        return Folding(",".join(word for word, is_set in (("case", ignore_case), ("trim", trim)) if is_set))

    def of(self, text: str) -> str:
        """The common form of all spellings that count as equal."""
        text = text.strip() if "trim" in self else text
        return text.casefold() if "case" in self else text


@dataclass(frozen=True)
class KeyAsked:
    """A key column of a table in a request, identified by permanent ids."""

    table: str
    uuid: str
    path: str
    field_id: int
    kind: str


@dataclass(frozen=True)
class ErasureRequest:
    """A request to erase the rows with some key values."""

    id: str
    created_at: datetime
    requester: str
    reason: str
    subject: str
    deadline: datetime | None
    grace_until: datetime
    keys: tuple[KeyAsked, ...]
    values: int
    state: ErasureState = ErasureState.OPEN
    closed_at: datetime | None = None
    folding: Folding = Folding.NONE

    def waits(self, now: datetime) -> bool:
        """Whether it is within its grace period, in which nothing is erased."""
        return self.state is ErasureState.OPEN and now < self.grace_until

    def is_overdue(self, now: datetime) -> bool:
        """Whether it is open past its deadline."""
        return self.state is ErasureState.OPEN and self.deadline is not None and self.deadline < now


@dataclass(frozen=True)
class HiddenKey:
    """A column of a table, and the values whose rows are hidden."""

    field_id: int
    kind: str
    values: Sequence[str]


class EvidenceKind(StrEnum):
    """What was done, or found."""

    HIDDEN = "hidden"
    INTENT = "intent"
    """What a purge is about to remove, recorded before it commits, so that it can continue after a crash.

    Paths in it may contain a value, so it is deleted together with the values.
    """
    RESTORED = "restored"
    """The files with which hidden rows are about to be added again, recorded before they are published."""
    PURGED = "purged"
    PROVED = "proved"
    WATCHED = "watched"


@dataclass(frozen=True)
class Evidence:
    """What an action did or found for some requests in one table: the basis of certificates. Contains no values."""

    kind: EvidenceKind
    table: str
    uuid: str
    operation: str
    action: str
    at: datetime
    requests: tuple[str, ...]
    document: Mapping[str, Any]


class Recognizer(Protocol):
    """Recognises the values of closed requests for a table by their digests."""

    @property
    def keys(self) -> Sequence[tuple[int, str]]:
        """The columns, by field id, with their types at the time of the request."""
        ...

    def find(self, field_id: int, kind: str, values: Iterable[str]) -> Mapping[str, Sequence[str]]:
        """Which of these values, given as canonical texts, belong to closed requests, by request id."""
        ...


class TombstoneReader(Protocol):
    def get(self, id: str) -> ErasureRequest:
        """One request; raises NotFound."""
        ...

    def many(self, ids: Sequence[str]) -> list[ErasureRequest]:
        """Requests, in the given order; raises NotFound. Costs hardly more than one request."""
        ...

    def hidden(self, uuid: str, requests: Sequence[str] = ()) -> list[HiddenKey]:
        """What all open requests, or some, hide in a table, one entry per column."""
        ...

    def list(
        self, states: Sequence[ErasureState] = (), uuid: str = "", ended_since: datetime | None = None
    ) -> list[ErasureRequest]:
        """Requests, newest first; optionally of one table, and only those that ended since a time."""
        ...

    def evidence(
        self,
        kinds: Sequence[EvidenceKind] = (),
        *,
        request: str = "",
        uuid: str = "",
        operation: str = "",
        documents: bool = True,
    ) -> Sequence[Evidence]:
        """What was done or found, oldest first; without `documents`, which can be large, these are empty."""
        ...

    def at_work(self, request: str) -> Sequence[str]:
        """Operations that recorded an intent to erase rows of a request, and still hold the lease of the table."""
        ...

    def identity(self) -> str:
        """Identifies this control database in the marks of tables; empty before the first request."""
        ...

    def digested(self, kind: str, texts: Sequence[str]) -> Sequence[bytes]:
        """The keyed digest of each of these values of a type, given as canonical texts."""
        ...

    def digests(self, request: str) -> Mapping[int, Sequence[bytes]]:
        """The keyed digests of a request's values, sorted, by the position of their key. They outlive the values."""
        ...

    def recognizer(self, uuid: str) -> Recognizer:
        """What recognises the values of closed requests for a table."""
        ...


class Tombstones(TombstoneReader, Protocol):
    """Registers, withdraws and closes requests."""

    def add(self, request: ErasureRequest, values: Mapping[int, Iterator[str]]) -> int:
        """Register a request with the values of each of its keys, by position, atomically.

        Returns the number of distinct values: equal spellings count once, and so does a value in several keys.
        """
        ...

    def extend(self, id: str, values: Mapping[int, Sequence[str]]) -> None:
        """Add spellings to the values of an open request's keys; existing ones are skipped."""
        ...

    def cover(self, id: str, values: Mapping[KeyAsked, Sequence[str]]) -> None:
        """Add keys with their values to an open request, atomically; what it has already is skipped."""
        ...

    def move(self, id: str, state: ErasureState, at: datetime, harmless: Sequence[Evidence] = ()) -> ErasureRequest:
        """Withdraw or close an open request and permanently delete its plain values, atomically; digests stay.

        Withdrawing is refused if a purge was about to erase its rows or did, except for evidence that was found to be
        harmless. Evidence recorded since counts.
        """
        ...

    def close(self, ids: Sequence[str], at: datetime, values: ErasedValues) -> int:
        """Close several open requests, all or none, and permanently delete their values, wherever they are stored here.

        Returns how many rows of other records had a value.
        """
        ...

    def record(self, evidence: Evidence) -> None:
        """Record evidence, replacing the same action's; an intent is stale if one of its requests is not open."""
        ...


def not_found(id: str) -> NotFound:
    return NotFound(f"no erasure request {id}", "lakewarden erasure list shows them.")
