"""What expiring snapshots takes, told as updates of a table's metadata.

Iceberg forgets what a snapshot was built on once its parent has gone, and then no earlier version that is
still there counts as its ancestor. Linking the two anew would let incremental readers pass over what was
between them without noticing. So which kept version a snapshot descends from is remembered in a property
of the table: for rollback, and for nobody else.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableUpdate

LINEAGE = "lakewarden.lineage"


def still_needed(metadata: TableMetadata, snapshots: Iterable[int], tags: Iterable[str]) -> list[str]:
    """Who points to snapshots that are to go, in words."""
    going, gone_tags = set(snapshots), set(tags)
    return [
        f"{ref.snapshot_ref_type} {name} is at snapshot {ref.snapshot_id}, which was to expire"
        for name, ref in sorted(metadata.refs.items())
        if ref.snapshot_id in going and name not in gone_tags
    ]


def expiry_updates(table: Table, snapshots: Sequence[int], tags: Sequence[str]) -> tuple[TableUpdate, ...]:
    """The updates that let snapshots and tags go; none where they have gone already."""
    from pyiceberg.catalog import MetastoreCatalog
    from pyiceberg.table.update import (
        RemovePartitionStatisticsUpdate,
        RemovePropertiesUpdate,
        RemoveSnapshotRefUpdate,
        RemoveSnapshotsUpdate,
        RemoveStatisticsUpdate,
        SetPropertiesUpdate,
    )

    metadata = table.metadata
    going = sorted({s.snapshot_id for s in metadata.snapshots} & set(snapshots))
    notes = [f"lakewarden.note.{tag}" for tag in tags if f"lakewarden.note.{tag}" in metadata.properties]
    updates: list[Any] = [
        RemoveSnapshotRefUpdate.model_validate({"ref-name": tag}) for tag in tags if tag in metadata.refs
    ]
    if going:
        by_client = isinstance(table.catalog, MetastoreCatalog)
        statistics = {s.snapshot_id for s in metadata.statistics} & set(going)
        by_partition = {s.snapshot_id for s in metadata.partition_statistics} & set(going)
        updates += [RemoveStatisticsUpdate.model_validate({"snapshot-id": id}) for id in sorted(statistics)]
        updates += [RemovePartitionStatisticsUpdate.model_validate({"snapshot-id": id}) for id in sorted(by_partition)]
        updates.append(RemoveSnapshotsUpdate.model_validate({"snapshot-ids": going}))
        if by_client:  # a REST catalog keeps its log itself
            updates.append(_log_update(metadata, set(going)))
        lineage = json.dumps({str(child): ancestor for child, ancestor in kept_lineage(metadata, set(going)).items()})
        if lineage != "{}":
            updates.append(SetPropertiesUpdate.model_validate({"updates": {LINEAGE: lineage}}))
        elif LINEAGE in metadata.properties:
            notes.append(LINEAGE)
    if notes:
        updates.append(RemovePropertiesUpdate.model_validate({"removals": notes}))
    return tuple(updates)


def lineage_of(properties: Mapping[str, str]) -> dict[int, int]:
    """For snapshots whose parent has expired: the nearest ancestor that was kept."""
    try:
        return {int(child): int(ancestor) for child, ancestor in json.loads(properties.get(LINEAGE, "{}")).items()}
    except (ValueError, AttributeError):  # not ours, or damaged: then nothing is known
        return {}


def kept_lineage(metadata: TableMetadata, going: set[int]) -> dict[int, int]:
    """The lineage as it is to be remembered once these snapshots are gone."""
    remembered = lineage_of(metadata.properties)
    parents = {s.snapshot_id: s.parent_snapshot_id for s in metadata.snapshots}

    def parent(child: int) -> int | None:
        direct = parents.get(child)
        return direct if direct in parents else remembered.get(child)

    lineage = {}
    for child in parents.keys() - going:
        ancestor = parent(child)
        direct = ancestor is not None and ancestor not in going and ancestor == parents.get(child)
        while ancestor is not None and ancestor in going:
            ancestor = parent(ancestor)
        if ancestor is not None and not direct:
            lineage[child] = ancestor
    return lineage


def _log_update(metadata: TableMetadata, going: set[int]) -> TableUpdate:
    """Iceberg's log of main's versions has no gaps: what lies before one that went is cleared, as Iceberg does."""
    from pyiceberg.table.update import _apply_table_update

    log = list(metadata.snapshot_log)
    last_gone = max((place for place, entry in enumerate(log) if entry.snapshot_id in going), default=-1)
    kept = log[last_gone + 1 :]
    if _ClearedLog not in _apply_table_update.registry:
        _apply_table_update.register(_ClearedLog, _clear_log)
    return cast("TableUpdate", _ClearedLog(kept))


class _ClearedLog:
    """An update of our own, applied where the client writes the metadata."""

    def __init__(self, kept: list[Any]) -> None:
        self.kept = kept


def _clear_log(update: _ClearedLog, base: TableMetadata, context: Any) -> TableMetadata:
    return base.model_copy(update={"snapshot_log": update.kept})
