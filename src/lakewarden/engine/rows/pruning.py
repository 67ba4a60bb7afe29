"""Which files may hold rows with key values, and which metadata mentions one, judged by metadata.

A file is excluded only if its metadata rules out all values: by its partition, by its bounds, or because its column is
all null. `key_columns.py` searches the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_plus

from lakewarden.engine.files.column_metrics import metrics_modes
from lakewarden.engine.rows.key_values import USUAL_LENGTH, KeyValues, partition_value

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.partitioning import PartitionField
    from pyiceberg.table.metadata import TableMetadata

_SUMMARY = "partitions."
_IDENTITY = "identity"
Image = tuple[int, str, str]  # column, transform, and its result as spelled in paths


@dataclass(frozen=True)
class Mention:
    """What metadata reveals about values: with certainty, or by a transform that other values may share."""

    is_certain: bool = False
    images: frozenset[Image] = frozenset()

    def __bool__(self) -> bool:
        return self.is_certain or bool(self.images)

    def is_trace(self, surviving: Set[Image]) -> bool:
        """Whether it reveals a value, given the transform results of remaining rows."""
        return self.is_certain or not self.images <= surviving


class Sieve:
    """What a table's metadata reveals about some keys."""

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
            key.field_id: {USUAL_LENGTH, *(int(mode) for mode in [modes.get(key.field_id, "")] if mode.isdigit())}
            for key in keys
        }

    def may_hold(self, file: DataFile) -> tuple[KeyValues, ...]:
        """The keys of which a file may hold values."""
        ruled_out = self._ruled_out_by_partition(file)
        return tuple(key for key in self._keys if key.field_id not in ruled_out and _may_be_within(file, key))

    def holds_by_partition(self, file: DataFile) -> frozenset[int]:
        """The keys of which every row has a value: if the file lacks the column, its partition has it."""
        return frozenset(
            key.field_id
            for place, field, key in self._fields.get(file.spec_id or 0, ())
            if str(field.transform) == _IDENTITY and _is_of(file, place, field, key)
        )

    def images(self, file: DataFile) -> frozenset[Image]:
        """Transform results in a file's partition that some of the wanted values share."""
        return frozenset(
            (key.field_id, str(field.transform), key.spell(field.transform, file.partition[place]))
            for place, field, key in self._fields.get(file.spec_id or 0, ())
            if str(field.transform) != _IDENTITY and _is_of(file, place, field, key)
        )

    def mentioned_by(self, file: DataFile) -> Mention:
        """What an entry reveals, whether or not its file still exists."""
        lower, upper = file.lower_bounds or {}, file.upper_bounds or {}
        is_certain = bool(self.holds_by_partition(file)) or any(
            key.is_revealed_by(lower.get(key.field_id), self._lengths[key.field_id], is_upper=False)
            or key.is_revealed_by(upper.get(key.field_id), self._lengths[key.field_id], is_upper=True)
            for key in self._keys
        )
        return Mention(is_certain, self.images(file))

    def mentioned_by_summary(self, summary: Mapping[str, str]) -> Mention:
        """What a snapshot's summary reveals: it may name partitions."""
        names = [name.removeprefix(_SUMMARY) for name in summary if name.startswith(_SUMMARY)]
        found = [image for name in names for part in name.split("/") for image in self._mentioned_by_name(part)]
        return Mention(any(image[1] == _IDENTITY for image in found), frozenset(found))

    def _mentioned_by_name(self, part: str) -> Iterator[Image]:
        name, _, value = (unquote_plus(piece) for piece in part.partition("="))
        for _, field, key in (each for fields in self._fields.values() for each in fields):
            if field.name == name and value in key.spelled(field.transform):
                yield key.field_id, str(field.transform), value

    def _ruled_out_by_partition(self, file: DataFile) -> set[int]:
        from pyiceberg.manifest import DataFileContent

        if file.content != DataFileContent.DATA:  # an equality delete may be in a partition without its value
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
