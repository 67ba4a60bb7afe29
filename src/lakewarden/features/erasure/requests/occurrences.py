"""Searches tables for the values of a new request: how many occur, and how many only in another spelling.

Uses metadata and key columns, without Spark. Answers hold counts, never values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from lakewarden.engine.base.table_name import TableName
from lakewarden.engine.rows.search import search
from lakewarden.engine.rows.shares import Share, shares
from lakewarden.errors import LakewardenError
from lakewarden.features.erasure.requests.current_names import tables_of
from lakewarden.features.erasure.requests.spelling import TEXT, new_spellings, stored_texts
from lakewarden.lifecycle.ground import Reader
from lakewarden.records.erasure import ErasureRequest, Folding, KeyAsked, Tombstones

_OPTIONS = {Folding.CASE: "--ignore-case", Folding.TRIM: "--trim", Folding.BOTH: "--ignore-case --trim"}


@dataclass(frozen=True)
class Occurrence:
    """How many of a request's values occur in any version of a table."""

    table: str
    values: int


@dataclass
class Look:
    """The result of the search: counts, and notes for the user."""

    occurrences: list[Occurrence] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def look(lake: Reader, tombstones: Tombstones, request: ErasureRequest, values: int) -> Look:
    """Search for a request's values, and register other spellings that it includes.

    The request is already registered, so a table that cannot be read is a note and not a failure.
    """
    result, occurring = Look(), set[str]()
    tables = tables_of(request)
    unread = 0
    for table, uuid in tables:
        name = lake.tables.name(table)
        try:
            result.notes += _add_spellings(lake, tombstones, name, request)
            found = {request.folding.of(text) for text in _occurring(lake, name, uuid, request.id)}
        except LakewardenError as error:
            unread += 1
            result.notes.append(f"{table} could not be searched for the values: {error.message}")
            continue
        result.occurrences.append(Occurrence(table, min(len(found), values)))
        occurring |= found
    missing = values - len(occurring)
    if missing > 0 and not unread:
        result.notes.append(
            f"{_of(missing, values)} in no version of {'this table' if len(tables) == 1 else 'these tables'}"
        )
        result.notes += _near_misses(lake, request, occurring)
    return result


def _occurring(lake: Reader, name: TableName, uuid: str, request: str) -> set[str]:
    """The values that occur in any version, as canonical texts."""
    table, storage = lake.tables.load(name), lake.storage(name.lake)
    keys = lake.state.erasure.hidden(uuid, [request])
    matches = search(table, keys, lake.files, storage).matches.values()
    files = [match.file for match in matches if match.content == "data"]
    return shares(table, {request: keys}, files, storage).get(request, Share()).values


def _add_spellings(lake: Reader, tombstones: Tombstones, name: TableName, request: ErasureRequest) -> Iterator[str]:
    found = new_spellings(lake, name, lake.tables.load(name), [request.id]).get(request.id, {})
    if found:
        tombstones.extend(request.id, {place: sorted(texts) for place, texts in found.items()})
        count = len(set[str]().union(*found.values()))
        yield f"{name}: {count:,} other {'spelling is' if count == 1 else 'spellings are'} stored there and included"


def _near_misses(lake: Reader, request: ErasureRequest, occurring: set[str]) -> Iterator[str]:
    """A note on values that would occur if letter case or surrounding spaces were ignored."""
    by_folding: dict[Folding, set[str]] = {}
    for table, uuid in dict.fromkeys((key.table, key.uuid) for key in request.keys if key.kind == TEXT):
        name = lake.tables.name(table)
        hidden = lake.state.erasure.hidden(uuid, [request.id])
        missing = {text for key in hidden if key.kind == TEXT for text in key.values} - occurring
        wanted = {folding: {folding.of(text): text for text in missing} for folding in _OPTIONS}
        try:
            for _, texts in stored_texts(lake, name, lake.tables.load(name), _fields(request.keys, uuid)):
                for folding, folded in wanted.items():
                    near = {folded[found] for text in texts if (found := folding.of(text)) in folded}
                    by_folding.setdefault(folding, set()).update(near)
        except LakewardenError:
            return
    best = max(by_folding, key=lambda folding: len(by_folding[folding]), default=Folding.NONE)
    count = len(by_folding.get(best, ()))
    if count:
        yield (
            f"{count:,} of them {'occurs' if count == 1 else 'occur'} in another spelling: withdraw {request.id} and "
            f"register the values again with {_OPTIONS[best]}"
        )


def _fields(keys: Sequence[KeyAsked], uuid: str) -> set[int]:
    return {key.field_id for key in keys if key.uuid == uuid and key.kind == TEXT}


def _of(part: int, whole: int) -> str:
    if whole == 1:
        return "the value occurs"
    return f"{part:,} of {whole:,} values {'occurs' if part == 1 else 'occur'}"
