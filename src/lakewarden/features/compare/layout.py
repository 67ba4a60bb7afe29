"""How a version was partitioned and sorted. Snapshots do not record it, so it is looked up in the metadata of then."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakewarden.engine.files.manifests import manifests_of

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata

    from lakewarden.engine.catalog.tables import Resolved


@dataclass(frozen=True)
class Layout:
    """The partition spec and the sort order of a version, as text; None if unknown."""

    partitioned: str | None
    sorted: str | None


def layout_of(version: Resolved, schema: Schema) -> Layout:
    """A version's layout: that of the metadata file it was committed with, if the file is still there.

    If not, the partition spec is that of its newest manifest, and the sort order is unknown.
    """
    metadata = _metadata_of(version)
    if metadata is not None:
        spec, order = metadata.default_spec_id, metadata.default_sort_order_id
        return Layout(_partitioned(version, schema, spec), _sorted(version, schema, order))
    used = [manifest.partition_spec_id for manifest in manifests_of(version.table.io, version.snapshot)]
    return Layout(_partitioned(version, schema, max(used)) if used else None, None)


def _metadata_of(version: Resolved) -> TableMetadata | None:
    """The metadata that had the version as its current one."""
    from pyiceberg.serializers import FromInputFile

    table, snapshot = version.table, version.snapshot
    if snapshot.snapshot_id == table.metadata.current_snapshot_id:
        return table.metadata
    entries = [entry for entry in table.metadata.metadata_log if entry.timestamp_ms >= snapshot.timestamp_ms]
    for entry in sorted(entries, key=lambda entry: entry.timestamp_ms)[:1]:
        try:
            found = FromInputFile.table_metadata(table.io.new_input(entry.metadata_file))
        except Exception:  # noqa: BLE001 - it is no longer there, or cannot be read: then the rest must do
            return None
        return found if found.current_snapshot_id == snapshot.snapshot_id else None
    return None


def _partitioned(version: Resolved, schema: Schema, spec_id: int) -> str | None:
    specs = version.table.metadata.partition_specs
    found = next((spec for spec in specs if spec.spec_id == spec_id), None)
    if found is None:
        return None
    return ", ".join(_transformed(version, schema, part) for part in found.fields) or "unpartitioned"


def _sorted(version: Resolved, schema: Schema, order_id: int) -> str | None:
    orders = version.table.metadata.sort_orders
    found = next((order for order in orders if order.order_id == order_id), None)
    if found is None:
        return "unsorted" if order_id == 0 else None
    parts = [f"{_transformed(version, schema, part)} {part.direction}" for part in found.fields]
    return ", ".join(parts) or "unsorted"


def _transformed(version: Resolved, schema: Schema, part: Any) -> str:
    known = schema.find_column_name(part.source_id) or version.table.schema().find_column_name(part.source_id)
    column, transform = known or f"field {part.source_id}", str(part.transform)
    return column if transform == "identity" else f"{transform}({column})"
