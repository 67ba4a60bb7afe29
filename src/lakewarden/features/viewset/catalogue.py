"""The partitions of a view set. The manifests of its table are their catalogue: nothing else has to be kept in step.

A partition without rows has no file; it is a row of the table beside.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from lakewarden.engine.base.faults import translating
from lakewarden.engine.files.manifests import manifests_of, stream_entries
from lakewarden.errors import TableNotFound
from lakewarden.features.viewset.definition import BEGIN, END, HASH, IDENTITY, INSTANCE, SOURCE_HASH, UPDATED
from lakewarden.quantities import Bytes, from_micros

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile

    from lakewarden.features.viewset.definition import ViewSet
    from lakewarden.lifecycle.ground import Reader

FORMAT_VERSION = 1
Identity = tuple[str, datetime, datetime, str]
"""Instance, begin, end and schema hash."""


@dataclass(frozen=True)
class PartitionRow:
    """A partition, or one of its files if it has several."""

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


def partitions(lake: Reader, view: ViewSet) -> list[PartitionRow]:
    """All partitions of a view set, by instance and time."""
    with translating(f"table {view.table_name}"):
        found = [*_with_files(view), *_empty(lake, view)]
    return sorted(found, key=lambda row: (row.identity, row.file_path or ""))


def _with_files(view: ViewSet) -> Iterator[PartitionRow]:
    from pyiceberg.manifest import ManifestContent

    table = view.table
    snapshot = table.current_snapshot()
    if snapshot is None:
        return
    reading = _Reading(view)
    for manifest in manifests_of(table.io, snapshot):
        if manifest.content == ManifestContent.DATA:
            for entry in stream_entries(table.io, manifest):
                row = reading.row(entry.data_file)
                if row is not None:
                    yield row


class _Reading:
    """Decodes partition values and bounds."""

    def __init__(self, view: ViewSet) -> None:
        self._view = view
        schema = view.table.schema()
        self._ids = {field.name: field.field_id for field in schema.fields}
        self._types: dict[int, Any] = {field.field_id: field.field_type for field in schema.fields}
        self._places = {
            spec.spec_id: {schema.find_column_name(field.source_id): place for place, field in enumerate(spec.fields)}
            for spec in view.table.metadata.partition_specs
        }
        self._event = self._ids.get(view.definition.event_time or "")

    def row(self, file: DataFile) -> PartitionRow | None:
        places = self._places[file.spec_id or 0]
        if any(name not in places for name in IDENTITY):
            return None  # written by others, under another partition spec
        known = {name: file.partition[places[name]] for name in IDENTITY}
        if None in known.values():
            return None
        return PartitionRow(
            view_set_name=self._view.name,
            view_instance_id=str(known[INSTANCE]),
            begin_insert_time=from_micros(known[BEGIN]),
            end_insert_time=from_micros(known[END]),
            min_event_time=self._time(file.lower_bounds, self._event),
            max_event_time=self._time(file.upper_bounds, self._event),
            updated=self._time(file.upper_bounds, self._ids.get(UPDATED)),
            file_path=file.file_path,
            file_size=file.file_size_in_bytes,
            file_schema_hash=self._view.counts_as(str(known[HASH])),
            source_data_hash=str(self._bound(file.lower_bounds, self._ids.get(SOURCE_HASH)) or ""),
            num_rows=file.record_count,
        )

    def _bound(self, bounds: Any, field_id: int | None) -> Any:
        from pyiceberg.conversions import from_bytes

        content = (bounds or {}).get(field_id)
        return None if content is None or field_id is None else from_bytes(self._types[field_id], content)

    def _time(self, bounds: Any, field_id: int | None) -> datetime | None:
        value = self._bound(bounds, field_id)
        return from_micros(value) if isinstance(value, int) else None


def _empty(lake: Reader, view: ViewSet) -> Iterator[PartitionRow]:
    try:
        table = lake.tables.load(view.empty_table)
    except TableNotFound:
        return
    if table.current_snapshot() is None:
        return
    for row in table.scan().to_arrow().to_pylist():
        yield PartitionRow(
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
