"""Which files may hold rows of key values, and which entries tell of one, by what a table's metadata says of them.

A file is left out only where its metadata rules all values out: by its partition, by its bounds, or because its column
holds nothing but nulls. What is left must be looked into, which `key_columns.py` does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_plus

from lakewarden.engine.column_metrics import metrics_modes
from lakewarden.engine.key_values import KeyValues, partition_value

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.partitioning import PartitionField
    from pyiceberg.table.metadata import TableMetadata

_DEFAULT_LENGTH = 16  # characters that bounds of texts are cut to, if a table says nothing else
_SUMMARY = "partitions."
_VAGUE = "bucket"  # many values share one, so it tells of none


class Sieve:
    """What a table's metadata tells of some keys."""

    def __init__(self, metadata: TableMetadata, keys: Sequence[KeyValues]) -> None:
        self._keys = keys
        by_id = {key.field_id: key for key in keys}
        self._fields: Mapping[int, list[tuple[int, PartitionField, KeyValues]]] = {
            spec.spec_id: [
                (place, field, by_id[field.source_id])
                for place, field in enumerate(spec.fields)
                if field.source_id in by_id
            ]
            for spec in metadata.partition_specs
        }
        modes = metrics_modes(metadata)
        self._lengths = {
            key.field_id: {_DEFAULT_LENGTH, *(int(mode) for mode in [modes.get(key.field_id, "")] if mode.isdigit())}
            for key in keys
        }

    def may_hold(self, file: DataFile) -> tuple[KeyValues, ...]:
        """The keys of which a file may hold values."""
        ruled_out = self._ruled_out_by_partition(file)
        return tuple(key for key in self._keys if key.field_id not in ruled_out and _may_be_within(file, key))

    def holds_by_partition(self, file: DataFile) -> frozenset[int]:
        """The keys that every row of a file has a value of: where the file lacks the column, its partition tells it."""
        return frozenset(
            key.field_id
            for place, field, key in self._fields.get(file.spec_id or 0, ())
            if str(field.transform) == "identity" and _is_of(file, place, field, key)
        )

    def is_told_by(self, file: DataFile) -> bool:
        """Whether an entry tells of a value by itself, whatever became of its file."""
        for place, field, key in self._fields.get(file.spec_id or 0, ()):
            if not str(field.transform).startswith(_VAGUE) and _is_of(file, place, field, key):
                return True
        lower, upper = file.lower_bounds or {}, file.upper_bounds or {}
        return any(
            key.is_told_by(lower.get(key.field_id), self._lengths[key.field_id], is_upper=False)
            or key.is_told_by(upper.get(key.field_id), self._lengths[key.field_id], is_upper=True)
            for key in self._keys
        )

    def is_told_by_summary(self, summary: Mapping[str, str]) -> bool:
        """Whether a snapshot's summary names a partition of a value."""
        named = [name.removeprefix(_SUMMARY) for name in summary if name.startswith(_SUMMARY)]
        return any(self._is_told_by_name(part) for name in named for part in name.split("/"))

    def _is_told_by_name(self, part: str) -> bool:
        name, is_named, value = part.partition("=")
        name, value = unquote_plus(name), unquote_plus(value)
        return bool(is_named) and any(
            field.name == name and not str(field.transform).startswith(_VAGUE) and value in key.spelled(field.transform)
            for fields in self._fields.values()
            for _, field, key in fields
        )

    def _ruled_out_by_partition(self, file: DataFile) -> set[int]:
        from pyiceberg.manifest import DataFileContent

        if file.content != DataFileContent.DATA:  # an equality delete may stand where no row of its value is
            return set()
        fields = self._fields.get(file.spec_id or 0, ())
        return {key.field_id for place, field, key in fields if not _may_be_of(file, place, field, key)}


def _may_be_of(file: DataFile, place: int, field: PartitionField, key: KeyValues) -> bool:
    possible = key.transformed(field.transform)
    return possible is None or _partition_value(file, place) in possible


def _is_of(file: DataFile, place: int, field: PartitionField, key: KeyValues) -> bool:
    return _partition_value(file, place) in (key.transformed(field.transform) or ())


def _partition_value(file: DataFile, place: int) -> Any:
    return partition_value(file.partition[place])


def _may_be_within(file: DataFile, key: KeyValues) -> bool:
    values = (file.value_counts or {}).get(key.field_id)
    if values is not None and values == (file.null_value_counts or {}).get(key.field_id):
        return False
    low = key.bound((file.lower_bounds or {}).get(key.field_id))
    high = key.bound((file.upper_bounds or {}).get(key.field_id))
    return key.may_be_within(low, high)
