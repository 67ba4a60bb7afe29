"""`erasure request`."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated

from pydantic import Field

from lakewarden.display import Shown
from lakewarden.engine.rows.keys import canonical, is_of_kind
from lakewarden.engine.storage.erasure_mark import leave_mark, refuse_foreign_mark
from lakewarden.errors import BadValue, LakewardenError
from lakewarden.features.erasure.requests.occurrences import Look, Occurrence, look
from lakewarden.features.erasure.requests.request_keys import keys_of, uncovered
from lakewarden.features.erasure.requests.spelling import TEXT, spellings_of
from lakewarden.lifecycle.desk import ControlDesk
from lakewarden.lifecycle.request import Completes, Control, Positional, ReadsInput, ReadValues, TakesInput
from lakewarden.quantities import Deadline, deadline_from
from lakewarden.records.erasure import ErasureRequest, Folding, KeyAsked

_SPELLINGS = (
    "Other spellings that are stored stay visible until erasure hide or purge: with --no-look nobody looked for them."
)
_WITHHELD = "(withheld: it names a value of the request)"
_OTHERS = "Other engines still see these rows until erasure hide; only reads through Lakewarden leave them out at once."


@dataclass(frozen=True)
class Registered(Shown):
    """A request as it was registered. It never shows a value."""

    id: str
    values: int
    tables: list[str]
    occurrences: list[Occurrence]
    """In which tables how many of the values occur; empty with --no-look."""
    grace_until: datetime | None
    deadline: datetime | None
    notes: list[str]


class Request(TakesInput, Control[Registered]):
    """Register that the rows of some key values are to be forgotten. At once no read through Lakewarden shows them.

    The key is a column of one table, or a subject that the configuration maps to keys in many tables. Values may come
    by stdin (--value -) or from a file, since arguments show in lists of processes. All are registered, or none.
    Then it looks in which tables how many of them occur, from metadata and key columns.
    """

    table: Annotated[str | None, Positional(), Completes("tables")] = Field(
        None, description="[lake.]namespace.table, unless a subject is named."
    )
    key: str | None = Field(None, description="The key column; within a struct as in user.email.")
    subject: str | None = Field(None, description="Instead: a subject of the configuration.")
    value: Annotated[list[str], ReadsInput()] = Field([], repr=False, description="A key value; repeat it for more.")
    reason: str = Field("", max_length=1000, description="Why, for the record. Name nobody here.")
    requester: str = Field("", max_length=200, description="Who asks; else who runs this command.")
    deadline: Deadline | None = Field(
        None,
        description="By when it must be done: a duration as 30d, or a date as 2026-12-31, to the end of that day, UTC.",
    )
    ignore_case: bool = Field(False, description="In keys of text, include values that differ in letter case only.")
    trim: bool = Field(False, description="In keys of text, include values that differ in spaces around them only.")
    look: bool = Field(True, description="Look at once which values occur in which tables.")

    def act(self, desk: ControlDesk) -> Registered:
        lake = desk.lake
        keys = keys_of(lake, self.table, self.key, self.subject)
        given = self._given(keys)
        if not given.values:
            raise BadValue("no values were given", "Say --value V, --value - for stdin, or --from-file FILE.")
        request = self._asked(desk, keys)
        _refuse_marked(desk, keys)
        notes = [*given.notes, _OTHERS, *uncovered(lake, keys)]  # before it is registered: after that nothing may fail
        values = {place: _values(key, given, request.folding) for place, key in enumerate(keys)}
        tables = list(dict.fromkeys(key.table for key in keys))
        with desk.state.together():
            count = desk.state.erasure.add(request, values)
            self._record(desk, request, count, tables, given)
        notes += _marked(desk, keys)
        notes += [_SPELLINGS] if request.folding and not self.look else []
        found = look(lake, desk.state.erasure, request, count) if self.look else Look()
        return Registered(
            id=request.id,
            values=count,
            tables=tables,
            occurrences=found.occurrences,
            grace_until=request.grace_until if request.grace_until > request.created_at else None,
            deadline=request.deadline,
            notes=[*notes, *found.notes],
        )

    def _record(
        self, desk: ControlDesk, request: ErasureRequest, count: int, tables: list[str], given: ReadValues
    ) -> None:
        """Record who registered the request, and for whom. What a person may have been named in is left out."""
        asked = self.model_dump_json(exclude={"value", "reason", "requester"})
        by = _WITHHELD if _names_a_value(request.requester, given.values) else request.requester
        result = {"request": request.id, "requester": by, "values": count}
        says = f"registered {request.id}"
        desk.record(self.subject or ", ".join(tables), says, asked, result, tables)

    def _asked(self, desk: ControlDesk, keys: tuple[KeyAsked, ...]) -> ErasureRequest:
        now, folding = desk.lake.clock(), Folding.said(self.ignore_case, self.trim)
        if folding and not any(key.kind == TEXT for key in keys):
            raise BadValue("--ignore-case and --trim are for keys of text", "Nothing was registered. Leave them out.")
        deadline = deadline_from(now, self.deadline) if self.deadline is not None else None
        if deadline is not None and deadline < now:
            raise BadValue(f"deadline: {self.deadline} is over", "Nothing was registered. Name a day to come.")
        return ErasureRequest(
            id=f"er-{now:%Y%m%d-%H%M%S}-{secrets.token_hex(3)}",
            created_at=now,
            requester=self.requester or desk.actor,
            reason=self.reason,
            subject=self.subject or "",
            deadline=deadline,
            grace_until=now + self._grace(desk, keys),
            keys=keys,
            values=0,
            folding=folding,
        )

    def _given(self, keys: tuple[KeyAsked, ...]) -> ReadValues:
        """The values that were given: as they are, or as a door reads them once it is known what they are of."""
        if self._input is None:
            return ReadValues(self.value)
        names = {name for key in keys for name in (key.path, key.path.split(".")[-1])}
        return self._input.read(names, lambda text: all(is_of_kind(key.kind, text) for key in keys))

    def _grace(self, desk: ControlDesk, keys: tuple[KeyAsked, ...]) -> timedelta:
        """The longest grace that is declared for one of the tables."""
        names = [desk.lake.tables.name(key.table) for key in keys]
        settings = desk.lake.settings
        return max(settings.erasure(name.lake, name.within_lake).grace for name in names)


def _names_a_value(text: str, values: Sequence[str]) -> bool:
    """Whether a text names one of some values, as where people ask for themselves: as a word of it, in any case."""
    folded = text.casefold()
    found = {value for given in values if (value := given.strip().casefold()) and value in folded}
    return any(re.search(rf"(?<!\w){re.escape(value)}(?!\w)", folded) for value in found)


def _refuse_marked(desk: ControlDesk, keys: tuple[KeyAsked, ...]) -> None:
    """Refuse where a table has requests in another control database: the configuration names the wrong one."""
    lake, control = desk.lake, desk.state.erasure.identity()
    for name in dict.fromkeys(key.table for key in keys):
        refuse_foreign_mark(lake.storage(lake.tables.name(name).lake), name, lake.tables.load(name), control)


def _marked(desk: ControlDesk, keys: tuple[KeyAsked, ...]) -> Iterator[str]:
    """Leave a mark with each table, by which a wrong `state` is noticed; one that cannot be left is a note."""
    tables = desk.lake.tables
    for name in dict.fromkeys(key.table for key in keys):
        try:
            leave_mark(desk.storage(tables.name(name).lake), tables.load(name), desk.state.erasure.identity())
        except LakewardenError as error:
            yield f"{name} could not be marked, so a wrong `state` in the configuration would show hidden rows: {error}"


def _values(key: KeyAsked, given: ReadValues, folding: Folding) -> Iterator[str]:
    texts = list(canonical(key.kind, given.values, f"{key.table}, {key.path}", given.place))
    for number, text in enumerate(texts if key.kind == TEXT else (), start=1):
        if not folding.of(text):
            raise BadValue(
                f"{given.place(number)} is empty",
                "Nothing was registered. It would name every row whose key is empty.",
            )
    return iter(spellings_of(key, texts, folding))
