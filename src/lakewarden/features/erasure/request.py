"""`erasure request`."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated

from pydantic import Field

from lakewarden.display import Shown
from lakewarden.engine.base.support import refuse_unsupported
from lakewarden.engine.rows.keys import canonical, is_of_kind
from lakewarden.engine.storage.erasure_mark import leave_mark, refuse_foreign_mark
from lakewarden.errors import BadValue, LakewardenError
from lakewarden.features.erasure.requests.asked_values import names_of
from lakewarden.features.erasure.requests.keys_beside import Beside, Found
from lakewarden.features.erasure.requests.occurrences import Look, Occurrence, look
from lakewarden.features.erasure.requests.request_keys import former, grace_of, keys_of, namesakes, uncovered
from lakewarden.features.erasure.requests.spelling import TEXT, spellings_of
from lakewarden.lifecycle.desk import ControlDesk
from lakewarden.lifecycle.ground import Reader
from lakewarden.lifecycle.request import Completes, Control, Positional, ReadsInput, ReadValues, TakesInput
from lakewarden.quantities import Deadline, deadline_from
from lakewarden.records.erasure import ErasureRequest, Folding, KeyAsked

_SPELLINGS = "Other stored spellings stay visible until erasure hide or purge: --no-look does not search for them."
_WITHHELD = "(withheld: it contains a value of the request)"
_OTHERS = "Other engines still see these rows until erasure hide; only reads through Lakewarden hide them immediately."


@dataclass(frozen=True)
class Registered(Shown):
    """A registered request, without its values."""

    id: str
    values: int
    tables: list[str]
    occurrences: list[Occurrence]
    """How many of the values occur in each table; empty with --no-look."""
    grace_until: datetime | None
    deadline: datetime | None
    notes: list[str]


class Request(TakesInput, Control[Registered]):
    """Register a request to erase the rows with some key values. Reads through Lakewarden hide them immediately.

    The key is a column of one table, or a subject that the configuration maps to keys in many tables. Values can be
    read from stdin (--value -) or a file, since arguments are visible in process lists. All values are registered, or
    none. Then the tables are searched for the values, using metadata and key columns.
    """

    table: Annotated[str | None, Positional(), Completes("tables")] = Field(
        None, description="[lake.]namespace.table, unless --subject is given."
    )
    key: str | None = Field(None, description="The key column; within a struct as in user.email.")
    subject: str | None = Field(None, description="A subject of the configuration, instead of TABLE and --key.")
    value: Annotated[list[str], ReadsInput()] = Field([], repr=False, description="A key value; repeatable.")
    reason: str = Field("", max_length=1000, description="The reason, for the record. Do not name a person here.")
    requester: str = Field("", max_length=200, description="The requester; by default the user who runs the command.")
    deadline: Deadline | None = Field(
        None,
        description="When it must be done: a duration such as 30d, or a date such as 2026-12-31 (end of day, UTC).",
    )
    ignore_case: bool = Field(False, description="For text keys, include values that differ only in letter case.")
    trim: bool = Field(False, description="For text keys, include values that differ only in surrounding spaces.")
    look: bool = Field(True, description="Search immediately which values occur in which tables.")

    def act(self, desk: ControlDesk) -> Registered:
        lake = desk.lake
        keys = keys_of(lake, self.table, self.key, self.subject)
        given = self._given(keys)
        if not given.values:
            raise BadValue("no values were given", "Add --value V, --value - for stdin, or --from-file FILE.")
        folding = self._folding(keys)
        values = {place: list(_values(key, namesakes(keys, key), given, folding)) for place, key in enumerate(keys)}
        beside, unknown = _beside(lake, keys, values, folding)
        values |= dict(enumerate(beside.values(), start=len(keys)))
        keys = (*keys, *beside)
        request = self._asked(desk, keys, folding)
        _refuse_tables(desk, keys)
        notes = [
            *given.notes,
            *unknown,
            _OTHERS,
            *former(keys),
            *uncovered(lake, keys),
        ]  # nothing may fail once it is registered
        tables = list(dict.fromkeys(key.table for key in keys))
        with desk.state.together():
            count = desk.state.erasure.add(request, {place: iter(texts) for place, texts in values.items()})
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
        """Record in the journal who registered the request, without fields that may name a person."""
        asked = self.model_dump_json(exclude={"value", "reason", "requester"})
        by = _WITHHELD if _names_a_value(request.requester, given.values) else request.requester
        result = {"request": request.id, "requester": by, "values": count}
        says = f"registered {request.id}"
        desk.record(self.subject or ", ".join(tables), says, asked, result, tables)

    def _folding(self, keys: tuple[KeyAsked, ...]) -> Folding:
        folding = Folding.from_flags(self.ignore_case, self.trim)
        if folding and not any(key.kind == TEXT for key in keys):
            raise BadValue("--ignore-case and --trim require a text key", "Nothing was registered. Remove them.")
        return folding

    def _asked(self, desk: ControlDesk, keys: tuple[KeyAsked, ...], folding: Folding) -> ErasureRequest:
        now = desk.lake.clock()
        deadline = deadline_from(now, self.deadline) if self.deadline is not None else None
        if deadline is not None and deadline < now:
            raise BadValue(f"deadline: {self.deadline} is in the past", "Nothing was registered. Give a later date.")
        return ErasureRequest(
            id=f"er-{now:%Y%m%d-%H%M%S}-{secrets.token_hex(3)}",
            created_at=now,
            requester=self.requester or desk.actor,
            reason=self.reason,
            subject=self.subject or "",
            deadline=deadline,
            grace_until=now + grace_of(desk.lake, keys),
            keys=keys,
            values=0,
            folding=folding,
        )

    def _given(self, keys: tuple[KeyAsked, ...]) -> ReadValues:
        """The given values; a door that reads them from a file needs the key's names and type for that."""
        if self._input is None:
            return ReadValues(self.value)
        names = {name for key in keys for name in (key.path, key.path.split(".")[-1])}
        return self._input.read(names, lambda text: all(_is_of_any(namesakes(keys, key), text) for key in keys))


def _beside(
    lake: Reader, keys: Sequence[KeyAsked], values: Mapping[int, Sequence[str]], folding: Folding
) -> tuple[dict[KeyAsked, list[str]], list[str]]:
    """The keys where Lakewarden keeps values of these tables, and notes on what is not covered or not known."""
    try:
        given = {key: frozenset(values[at]) for at, key in enumerate(keys)}
        asked = [replace(one, values=given[one.key]) for one in names_of(lake, keys)]
        found = Beside(lake, asked).found(asked, folding)
    except LakewardenError as error:
        found = Found(unread=[error.message])
    known = {(key.uuid, key.field_id) for key in keys}
    texts = {key: some for key, some in found.texts.items() if (key.uuid, key.field_id) not in known}
    if not found.unread:
        return texts, found.notes
    note = "what Lakewarden keeps of these tables elsewhere could not be searched for the values"
    return texts, [*found.notes, f"{note}: {'; '.join(found.unread)}. Fix that: the request is not closed before."]


def _names_a_value(text: str, values: Sequence[str]) -> bool:
    """Whether a text contains one of the values as a word, in any case, such as when people file their own request."""
    folded = text.casefold()
    found = {value for given in values if (value := given.strip().casefold()) and value in folded}
    return any(re.search(rf"(?<!\w){re.escape(value)}(?!\w)", folded) for value in found)


def _refuse_tables(desk: ControlDesk, keys: tuple[KeyAsked, ...]) -> None:
    """Refuse a table that cannot be purged, or with requests in another control database: `state` is wrong then."""
    lake, control = desk.lake, desk.state.erasure.identity()
    for name in dict.fromkeys(key.table for key in keys):
        table = lake.tables.load(name)
        refuse_unsupported(table, name)
        refuse_foreign_mark(lake.storage(lake.tables.name(name).lake), name, table, control)


def _marked(desk: ControlDesk, keys: tuple[KeyAsked, ...]) -> Iterator[str]:
    """Mark each table, so that a wrong `state` is detected later; yields a note for each that cannot be marked."""
    tables = desk.lake.tables
    for name in dict.fromkeys(key.table for key in keys):
        try:
            leave_mark(desk.storage(tables.name(name).lake), tables.load(name), desk.state.erasure.identity())
        except LakewardenError as error:
            yield f"{name} could not be marked, so a wrong `state` in the configuration would show hidden rows: {error}"


def _is_of_any(keys: Sequence[KeyAsked], text: str) -> bool:
    return any(is_of_kind(key.kind, text) for key in keys)


def _values(key: KeyAsked, same: Sequence[KeyAsked], given: ReadValues, folding: Folding) -> Iterator[str]:
    """The values of a key, canonical. One that is only of the type of a former column, or only not, is left out."""
    others = [each for each in same if each is not key]
    fitting = [
        (number, text)
        for number, text in enumerate(given.values, start=1)
        if is_of_kind(key.kind, text) or not _is_of_any(others, text)
    ]

    def place(number: int) -> str:
        return given.place(fitting[number - 1][0])

    texts = list(canonical(key.kind, (text for _, text in fitting), f"{key.table}, {key.path}", place))
    for number, text in enumerate(texts if key.kind == TEXT else (), start=1):
        if not folding.of(text):
            raise BadValue(
                f"{place(number)} is empty",
                "Nothing was registered. It would match every row with an empty key.",
            )
    return iter(spellings_of(key, texts, folding))
