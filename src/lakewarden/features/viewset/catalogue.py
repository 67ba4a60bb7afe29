"""The partitions of a view set. The manifests of its table are their catalogue: nothing else has to be kept in step.

A partition without rows has no file; it is a row of the table beside.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar

from lakewarden.engine.base.collector import paused
from lakewarden.engine.base.faults import translating
from lakewarden.engine.base.table_name import parse_time
from lakewarden.engine.files.manifests import holds_data, listed_files, manifests_of
from lakewarden.errors import BadValue, TableNotFound
from lakewarden.features.viewset.definition import BEGIN, END, HASH, IDENTITY, INSTANCE, SOURCE_HASH, UPDATED
from lakewarden.features.viewset.stored_times import NONE, identity_places
from lakewarden.quantities import Bytes, from_micros

if TYPE_CHECKING:
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table.snapshots import Snapshot

    from lakewarden.engine.files.manifests import ListedFile
    from lakewarden.features.viewset.definition import ViewSet
    from lakewarden.lifecycle.ground import Reader

FORMAT_VERSION = 1
_moment = lru_cache(1 << 18)(from_micros)  # one partition begins where another ends
Identity = tuple[str, datetime, datetime, str]
"""Instance, begin, end and schema hash."""


@dataclass(frozen=True)
class PartitionRow:
    """A partition, or one of its files if it has several."""

    dispensable: ClassVar = ("file_path", "partition_format_version", "source_data_hash", "updated", "view_set_name")

    view_set_name: str
    view_instance_id: str
    begin_insert_time: datetime
    end_insert_time: datetime
    min_event_time: datetime | None
    max_event_time: datetime | None
    updated: datetime | None
    file_path: str | None
    file_size: Bytes
    file_schema_hash: str
    source_data_hash: str
    num_rows: int
    partition_format_version: int = FORMAT_VERSION
    sort_order: str | None = None
    max_sort_key_time: datetime | None = None

    @property
    def identity(self) -> Identity:
        return self.view_instance_id, self.begin_insert_time, self.end_insert_time, self.file_schema_hash

    @property
    def identity_text(self) -> str:
        return identity_text(vars(self))


def identity_text(row: Mapping[str, Any]) -> str:
    """The identity of a partition as one text."""
    return json.dumps([row[INSTANCE], row[BEGIN].isoformat(), row[END].isoformat(), row[HASH]])


def parse_identity(text: str) -> Identity:
    """The identity that `identity_text` wrote, or a person."""
    try:
        instance, begin, end, schema_hash = (str(part) for part in json.loads(text))
        bounds = parse_time(begin), parse_time(end)
    except (ValueError, TypeError):
        bounds = None, None
    if bounds[0] is None or bounds[1] is None:
        raise BadValue(
            f"{text} is not the identity of a partition", 'It is ["INSTANCE", "BEGIN", "END", "SCHEMA_HASH"] as JSON.'
        )
    return instance, bounds[0], bounds[1], schema_hash


@dataclass(frozen=True)
class Near:
    """A time of one instance: only its partitions are looked for."""

    instance: str
    begin: datetime
    end: datetime

    def has(self, row: PartitionRow) -> bool:
        overlaps = row.begin_insert_time < self.end and row.end_insert_time > self.begin
        return overlaps and row.view_instance_id == self.instance


def partitions(lake: Reader, view: ViewSet, near: Near | None = None, at: Snapshot | None = None) -> list[PartitionRow]:
    """The partitions of a view set, by instance and time: all, or those that overlap with a time.

    Of an earlier snapshot, `at`, only partitions with rows are known.
    """
    with translating(f"table {view.table_name}"), paused():
        found = list(_with_files(view, near, at))
        if at is not None:
            return found
        empty = list(_empty(lake, view, near))
        if empty:
            known = {row.identity for row in found}
            found += [row for row in empty if row.identity not in known]
    return sorted(found, key=lambda row: (row.identity, row.file_path or ""))


def outdated(lake: Reader, view: ViewSet) -> list[PartitionRow]:
    """The partitions that are older than a view set keeps them, whatever their schema."""
    keep = view.definition.keep
    if keep is None:
        return []
    before = lake.clock() - keep
    return [row for row in partitions(lake, view) if row.end_insert_time <= before]


def has_instance(lake: Reader, view: ViewSet, instance: str) -> bool:
    """Whether a view set has a partition of an instance."""
    always = Near(instance, datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC))
    with translating(f"table {view.table_name}"):
        return any(True for some in (_with_files(view, always), _empty(lake, view, always)) for _ in some)


def _with_files(view: ViewSet, near: Near | None, at: Snapshot | None = None) -> Iterator[PartitionRow]:
    table = view.table
    snapshot = at or table.current_snapshot()
    if snapshot is None:
        return
    reading = _Reading(view)
    for manifest in manifests_of(table.io, snapshot):
        if holds_data(manifest) and (near is None or reading.may_have(manifest, near)):
            for file in listed_files(table.io, manifest):
                row = reading.row(file, manifest.partition_spec_id)
                if row is not None and (near is None or near.has(row)):
                    yield row


class _Reading:
    """Decodes partition values and bounds."""

    def __init__(self, view: ViewSet) -> None:
        metadata = view.table.metadata
        ids = {field.name: field.field_id for field in metadata.schema().fields}
        self._name, self._counts_as = view.name, view.counts_as
        self._source_hash, self._updated = ids.get(SOURCE_HASH, NONE), ids.get(UPDATED, NONE)
        event = ids.get(view.definition.event_time or "", NONE)
        is_time = event != NONE and str(metadata.schema().find_type(event)).startswith("timestamp")
        self._event = event if is_time else NONE
        self._places = {spec.spec_id: identity_places(spec, ids, IDENTITY) for spec in metadata.partition_specs}

    def may_have(self, manifest: ManifestFile, near: Near) -> bool:
        """Whether a manifest may list partitions of a time, by the bounds of its partition values."""
        places = self._places[manifest.partition_spec_id]
        if places is None:
            return False
        if not manifest.partitions:
            return True
        instance, begin, end, _ = (manifest.partitions[place] for place in places)
        low, high = instance.lower_bound or b"\xff", instance.upper_bound or b"\xff"
        is_comparable = low.isascii() and high.isascii()  # else the order depends on the writer
        if is_comparable and not low <= near.instance.encode() <= high:
            return False
        first, last = _time(begin.lower_bound), _time(end.upper_bound)
        return (first is None or first < near.end) and (last is None or last > near.begin)

    def row(self, file: ListedFile, spec_id: int) -> PartitionRow | None:
        places = self._places[spec_id]
        if places is None:
            return None  # written by others, under another partition spec
        values = file.partition
        instance, begin, end, schema_hash = itemgetter(*places)(values)
        if instance is None or begin is None or end is None or schema_hash is None:
            return None
        lower, upper = file.lower_bounds, file.upper_bounds
        return PartitionRow(
            view_set_name=self._name,
            view_instance_id=instance,
            begin_insert_time=_moment(begin),
            end_insert_time=_moment(end),
            min_event_time=_time(lower.get(self._event)),
            max_event_time=_time(upper.get(self._event)),
            updated=_time(upper.get(self._updated)),
            file_path=file.path,
            file_size=file.size,
            file_schema_hash=self._counts_as(schema_hash),
            source_data_hash=lower.get(self._source_hash, b"").decode(),
            num_rows=file.rows,
        )


def _time(bound: bytes | None) -> datetime | None:
    return None if bound is None else _moment(int.from_bytes(bound, "little", signed=True))


def _empty(lake: Reader, view: ViewSet, near: Near | None) -> Iterator[PartitionRow]:
    """The partitions without rows; `partitions` leaves out those that have files, which count."""
    try:
        table = lake.tables.load(view.empty_table)
    except TableNotFound:
        return
    if table.current_snapshot() is None:
        return
    for row in table.scan().to_arrow().to_pylist():
        found = PartitionRow(
            view_set_name=view.name,
            view_instance_id=row[INSTANCE],
            begin_insert_time=row[BEGIN].astimezone(UTC),
            end_insert_time=row[END].astimezone(UTC),
            min_event_time=None,
            max_event_time=None,
            updated=row[UPDATED].astimezone(UTC),
            file_path=None,
            file_size=0,
            file_schema_hash=view.counts_as(row[HASH]),
            source_data_hash=row[SOURCE_HASH],
            num_rows=0,
        )
        if near is None or near.has(found):
            yield found
