"""Requests for erasure and their tombstones: whose rows are hidden now and to be erased, by key column and value.

What a store of them must be able to do is said here; the lasting one is in `state/`. Values are kept in plain only as
long as they are needed to find rows. After that a keyed digest stays, by which the same value is known again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

from lakewarden.errors import NotFound


class ErasureState(StrEnum):
    """How far a request came: open until a clean proof closes it, unless it is withdrawn."""

    OPEN = "open"
    CLOSED = "closed"
    WITHDRAWN = "withdrawn"


class Folding(StrEnum):
    """Which differences in spelling a request ignores in keys of text: none, letter case, spaces around it, or both."""

    NONE = ""
    CASE = "case"
    TRIM = "trim"
    BOTH = "case,trim"

    @staticmethod
    def said(ignore_case: bool, trim: bool) -> Folding:
        return Folding(",".join(word for word, is_said in (("case", ignore_case), ("trim", trim)) if is_said))

    def of(self, text: str) -> str:
        """The one text that all spellings have in common which it does not tell apart."""
        text = text.strip() if "trim" in self else text
        return text.casefold() if "case" in self else text


@dataclass(frozen=True)
class KeyAsked:
    """One key column of one table that a request is about; the table and the column are what they are for good."""

    table: str
    uuid: str
    path: str
    field_id: int
    kind: str


@dataclass(frozen=True)
class ErasureRequest:
    """Somebody's wish that the rows of some key values be gone."""

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
        """Whether it is within its grace, in which nothing is erased yet."""
        return self.state is ErasureState.OPEN and now < self.grace_until

    def is_overdue(self, now: datetime) -> bool:
        """Whether its deadline has passed and it is still open."""
        return self.state is ErasureState.OPEN and self.deadline is not None and self.deadline < now


@dataclass(frozen=True)
class HiddenKey:
    """A column of a table, and the values whose rows nobody sees."""

    field_id: int
    kind: str
    values: Sequence[str]


class EvidenceKind(StrEnum):
    """What was done, or found."""

    HIDDEN = "hidden"
    INTENT = "intent"
    """What a purge is about to remove, written down before it commits: after a kill it is how to go on.

    It may hold paths that tell of a value, so it goes together with the values.
    """
    PURGED = "purged"
    PROVED = "proved"
    WATCHED = "watched"


@dataclass(frozen=True)
class Evidence:
    """What an action did or found about some requests in one table: what a certificate tells. It holds no value."""

    kind: EvidenceKind
    table: str
    uuid: str
    operation: str
    action: str
    at: datetime
    requests: tuple[str, ...]
    document: Mapping[str, Any]


class Recognizer(Protocol):
    """Knows the values that closed requests of a table were about, by their digests alone."""

    @property
    def keys(self) -> Sequence[tuple[int, str]]:
        """The columns, by field id, and the types that they had when they were asked for."""
        ...

    def find(self, field_id: int, kind: str, values: Iterable[str]) -> Mapping[str, Sequence[str]]:
        """Which of these values, given as canonical texts, closed requests were about: by the request's id."""
        ...


class TombstoneReader(Protocol):
    def get(self, id: str) -> ErasureRequest:
        """One request, or NotFound."""
        ...

    def many(self, ids: Sequence[str]) -> list[ErasureRequest]:
        """Requests, each where it was named, or NotFound: however many, with hardly more effort than for one."""
        ...

    def hidden(self, uuid: str, requests: Sequence[str] = ()) -> list[HiddenKey]:
        """What is hidden of a table by all open requests, or by some of them, one entry a column."""
        ...

    def list(
        self, states: Sequence[ErasureState] = (), uuid: str = "", ended_since: datetime | None = None
    ) -> list[ErasureRequest]:
        """Requests, newest first; of one table if it is given, and only those that ended since a moment."""
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
        """What was done or found, oldest first: about a request, in a table, by an operation.

        Documents can be large. Where nobody looks into them they can be left unread: then each is empty.
        """
        ...

    def at_work(self, request: str) -> Sequence[str]:
        """The operations that are about to erase rows of a request at this moment, or have just done so.

        Each has written down that it would, and still holds the lease of the table.
        """
        ...

    def identity(self) -> str:
        """What this control database is known by where a table is marked; nothing before the first request."""
        ...

    def digested(self, kind: str, texts: Sequence[str]) -> Sequence[bytes]:
        """The keyed digest of each of some values of a type, given as canonical texts."""
        ...

    def digests(self, request: str) -> Mapping[int, Sequence[bytes]]:
        """The keyed digests of a request's values, sorted, by the place of their key: they outlive the values."""
        ...

    def recognizer(self, uuid: str) -> Recognizer:
        """What knows the values again that closed requests of a table were about."""
        ...


class Tombstones(TombstoneReader, Protocol):
    """What registers, withdraws and closes requests."""

    def add(self, request: ErasureRequest, values: Mapping[int, Iterator[str]]) -> int:
        """Register a request with the values of each of its keys, by their place: all of it or nothing.

        Answers with how many different values were asked for: spellings that the request does not tell apart are one,
        and so is the same value in several keys.
        """
        ...

    def extend(self, id: str, values: Mapping[int, Sequence[str]]) -> None:
        """Add spellings to the values of an open request's keys; those it has are left out."""
        ...

    def move(self, id: str, state: ErasureState, at: datetime, harmless: Sequence[Evidence] = ()) -> ErasureRequest:
        """Withdraw or close an open request, and remove its plain values for good, both or neither; digests stay.

        It is not withdrawn where a purge was about to erase its rows or did, but for evidence that was looked into and
        is harmless: what was told since nobody has looked into.
        """
        ...

    def move_all(self, ids: Sequence[str], state: ErasureState, at: datetime) -> Sequence[ErasureRequest]:
        """Withdraw or close several open requests at once, all of them or none."""
        ...

    def veil(self, table: str, uuid: str, marks: Sequence[str], told: Callable[[str], str]) -> None:
        """Tell otherwise what the journal tells of somebody, in rows that hold one of the marks and in the lists of
        files of operations on a table, whatever it was called then."""
        ...

    def record(self, evidence: Evidence) -> None:
        """Write down what was done or found; what the same action had told of the same kind is replaced.

        What is about to be removed is a stale plan where one of its requests is not open any more.
        """
        ...


def not_found(id: str) -> NotFound:
    return NotFound(f"no request for erasure {id}", "lakewarden erasure list shows them.")
