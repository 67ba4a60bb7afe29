"""Rows that an erasure request hid while a backfill ran, and that are seen again since: they count as late.

A withdrawn request has no values any more, but their keyed digests stay. With these, its values are found again in the
version that was read, and its rows there count as not read. That is exact if the request was open during everything
that the backfill has read so far. If it was open for a part of it only, it is not known which of its rows are missing.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING

from lakewarden.engine.rows.column_texts import column_names, column_texts
from lakewarden.engine.rows.new_since import Arrival
from lakewarden.engine.sql.batches import NoVersion
from lakewarden.errors import Conflict
from lakewarden.records.erasure import ErasureRequest, ErasureState, Folding, HiddenKey, KeyAsked

if TYPE_CHECKING:
    from pyiceberg.partitioning import PartitionSpec

    from lakewarden.engine.catalog.tables import Resolved
    from lakewarden.engine.files.live_files import LiveFile
    from lakewarden.features.backfill.position import Found
    from lakewarden.lifecycle.ground import Reader

_AT_ONCE = 10_000


def missed(lake: Reader, read: Resolved, last: Found) -> tuple[tuple[str, ...], tuple[HiddenKey, ...]]:
    """The requests whose rows a complete backfill has left out and that were withdrawn since, with their values.

    Refused if a request was open for a part of what was read only, unless that version has no rows of it.
    """
    whole, partly = _withdrawn(lake, read, last)
    keys = _looked_up(lake, read, [*whole, *partly])
    for request in (each for each in partly if each.id in keys.requests):
        raise Conflict(
            f"erasure request {request.id} was withdrawn and hid rows of {read.name} while a part of the backfill "
            "was written, so which of them are missing is not known",
            "Undo the backfill and run it again, or write the rest by a new version of its files with "
            "initial_checkpoint.",
        )
    return tuple(request.id for request in whole), keys.found


def _withdrawn(lake: Reader, read: Resolved, last: Found) -> tuple[list[ErasureRequest], list[ErasureRequest]]:
    """Withdrawn requests that were open during all that was read, and others that were open while it was read."""
    at = last.position
    if not at.began:
        return [], []
    began, known = datetime.fromisoformat(at.began), {*at.shown.split(), *at.settled.split()}
    uuid = str(read.table.metadata.table_uuid)
    ended = lake.state.erasure.list((ErasureState.WITHDRAWN,), uuid, ended_since=began)
    some = [request for request in ended if request.id not in known and request.created_at < last.at]
    whole = [each for each in some if each.created_at <= began and each.closed_at and each.closed_at >= last.at]
    return whole, [each for each in some if each not in whole]


def between_runs(lake: Reader, source: Resolved | NoVersion, last: Found, until: datetime) -> tuple[str, ...]:
    """Requests that came after a complete run and were withdrawn before the next one was planned: they hid nothing."""
    if isinstance(source, NoVersion):
        return ()
    uuid = str(source.table.metadata.table_uuid)
    ended = lake.state.erasure.list((ErasureState.WITHDRAWN,), uuid, ended_since=last.at)
    return tuple(each.id for each in ended if each.created_at >= last.at and each.closed_at and each.closed_at <= until)


def keys_of(lake: Reader, version: Resolved, requests: Iterable[str]) -> tuple[HiddenKey, ...]:
    """The values of withdrawn requests that a version has rows of."""
    return _looked_up(lake, version, lake.state.erasure.many(list(requests))).found


def _looked_up(lake: Reader, version: Resolved, requests: Iterable[ErasureRequest]) -> _Keys:
    """The keys of requests, once all files of a version were read for them."""
    keys = _Keys(lake, version, requests)
    if not keys.known:
        return keys
    table, specs = version.table, version.table.metadata.specs()
    kinds = {field: kind for field, kind, _ in keys.known}
    names = column_names(table.metadata, kinds)
    storage = lake.storage(version.name.lake)
    for file in lake.files.of(table, version.snapshot).data:
        if file.format.lower() != "parquet":
            raise Conflict(
                f"{file.path} may have rows of withdrawn erasure requests, and is no Parquet file",
                "Undo the backfill and run it again.",
            )
        for field, counts in column_texts(storage, _arrival(file, specs), kinds, names):
            keys.look(field, list(counts))
    return keys


class _Keys:
    """The keys of requests in a table, and their values as far as they were found."""

    def __init__(self, lake: Reader, version: Resolved, requests: Iterable[ErasureRequest]) -> None:
        self._store = lake.state.erasure
        self.known: dict[tuple[int, str, Folding], dict[str, set[bytes]]] = {}
        """The digests of each request, by what they are digests of."""
        self.requests: set[str] = set()
        """Those of which values were found."""
        self._values: dict[tuple[int, str], set[str]] = {}
        uuid = str(version.table.metadata.table_uuid)
        for request in requests:
            digests = self._store.digests(request.id)
            for place, key in enumerate(request.keys):
                if key.uuid == uuid:
                    of_kind = self.known.setdefault(_kind(key, request), {})
                    of_kind.setdefault(request.id, set()).update(digests.get(place, ()))

    def look(self, field: int, texts: list[str]) -> None:
        """Keep those of the texts that are values of a request."""
        for (id, kind, folding), requests in self.known.items():
            for start in range(0, len(texts) if id == field else 0, _AT_ONCE):
                some = texts[start : start + _AT_ONCE]
                made = self._store.digested(kind, [folding.of(text) for text in some])
                for request, digests in requests.items():
                    found = {text for text, digest in zip(some, made, strict=True) if digest in digests}
                    self._values.setdefault((id, kind), set()).update(found)
                    self.requests.update([request] if found else [])

    @property
    def found(self) -> tuple[HiddenKey, ...]:
        return tuple(HiddenKey(*key, sorted(values)) for key, values in sorted(self._values.items()) if values)


def _kind(key: KeyAsked, request: ErasureRequest) -> tuple[int, str, Folding]:
    return key.field_id, key.kind, request.folding if key.kind == "string" else Folding.NONE


def _arrival(file: LiveFile, specs: dict[int, PartitionSpec]) -> Arrival:
    spec, values = file.partition
    partition = {
        field.source_id: value
        for field, value in zip(specs[spec].fields, values, strict=True)
        if str(field.transform) == "identity" and value is not None
    }
    return Arrival(file.path, file.bytes, file.rows, "data", "parquet", file.added_by or 0, partition)
