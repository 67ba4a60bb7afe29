"""What expiring snapshots removes, as updates of a table's metadata.

Once a snapshot's parent has expired, Iceberg no longer knows its earlier ancestors. Linking it to one directly would
make incremental readers skip the changes in between unnoticed. So a table property remembers which remaining snapshot
it descends from, for rollback only.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from lakewarden.engine.catalog.metadata_log import dead_entries, drop_entries
from lakewarden.engine.catalog.representations import stand_ins
from lakewarden.errors import Conflict

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.table.update import TableUpdate

LINEAGE = "lakewarden.lineage"
REPLACED = "lakewarden.replaced"
"""By snapshots that a purge replaced, their replacements: for who has read such a version and goes on from it."""
BACKFILL = "lakewarden.backfill."
"""Begins the key of a backfill's stamp: in the summary of a snapshot, and in a table property, which never expires.

A commit on main that has a stamp sets both (`Draft.updates`)."""
SEQUENCE = "lakewarden.sequence."
"""The same for the stamp of an archived partition of a database table."""
STAMPS = (BACKFILL, SEQUENCE)
_SOON_MS = 3_600_000


def note_property(ref: str) -> str:
    """The table property with the note on a ref."""
    return f"lakewarden.note.{ref}"


def still_needed(metadata: TableMetadata, snapshots: Iterable[int], tags: Mapping[str, int]) -> list[str]:
    """The refs that point to snapshots which are to expire, as sentences."""
    going = set(snapshots)
    needed = [
        f"{ref.snapshot_ref_type} {name} is at snapshot {ref.snapshot_id}, which was to expire"
        for name, ref in sorted(metadata.refs.items())
        if ref.snapshot_id in going and name not in tags
    ]
    moved = [
        f"tag {name}, which was to expire, moved from {planned} to {metadata.refs[name].snapshot_id}"
        for name, planned in sorted(tags.items())
        if name in metadata.refs and metadata.refs[name].snapshot_id != planned
    ]
    return needed + moved


def iceberg_would_also_take(
    metadata: TableMetadata, snapshots: Iterable[int], tags: Iterable[str], now_ms: int
) -> list[str]:
    """What Iceberg's own expiry of these snapshots would also remove, as text: it applies the ages that refs set."""
    soon = now_ms + _SOON_MS  # refs that expire while it runs are removed as well
    times = {snapshot.snapshot_id: snapshot.timestamp_ms for snapshot in metadata.snapshots}
    parents = {snapshot.snapshot_id: snapshot.parent_snapshot_id for snapshot in metadata.snapshots}
    usual_age = metadata.properties.get("history.expire.max-ref-age-ms", "")
    going, gone_tags = set(snapshots), set(tags)
    kept, in_line, ended = set[int](), set[int](), []
    for name, ref in sorted(metadata.refs.items()):
        if name in gone_tags:
            continue
        longest = ref.max_ref_age_ms or (int(usual_age) if usual_age.isdigit() else None)
        if name != "main" and longest is not None and soon - times.get(ref.snapshot_id, 0) > longest:
            ended.append(f"{ref.snapshot_ref_type} {name}")
            continue
        line = _line(ref.snapshot_id, parents) if str(ref.snapshot_ref_type) == "branch" else [ref.snapshot_id]
        in_line.update(line)
        settled = ref.max_snapshot_age_ms is not None and ref.min_snapshots_to_keep is not None
        for place, snapshot in enumerate(line):
            old = settled and soon - times[snapshot] > (ref.max_snapshot_age_ms or 0)
            if old and place >= (ref.min_snapshots_to_keep or 0):
                break
            kept.add(snapshot)
    more = sorted(in_line - kept - going)
    return [*ended, *(f"snapshot {snapshot}" for snapshot in more)]


def _line(snapshot: int | None, parents: Mapping[int, int | None]) -> list[int]:
    line = []
    while snapshot is not None and snapshot in parents:
        line.append(snapshot)
        snapshot = parents[snapshot]
    return line


def expiry_updates(
    table: Table,
    snapshots: Sequence[int],
    tags: Sequence[str],
    replaced: Mapping[int, int] | None = None,
    metadata_files: Sequence[str] = (),
) -> tuple[TableUpdate, ...]:
    """The updates that expire snapshots and tags; none if they are gone already.

    `replaced` maps expiring snapshots to their replacements, for the snapshot log and the lineage. Entries of
    `metadata_files` are dropped from the metadata log, where the client writes it.
    """
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
    by_client = isinstance(table.catalog, MetastoreCatalog)
    notes = [note_property(tag) for tag in tags if note_property(tag) in metadata.properties]
    updates: list[Any] = [
        RemoveSnapshotRefUpdate.model_validate({"ref-name": tag}) for tag in tags if tag in metadata.refs
    ]
    if going:
        statistics = {s.snapshot_id for s in metadata.statistics} & set(going)
        by_partition = {s.snapshot_id for s in metadata.partition_statistics} & set(going)
        updates += [RemoveStatisticsUpdate.model_validate({"snapshot-id": id}) for id in sorted(statistics)]
        updates += [RemovePartitionStatisticsUpdate.model_validate({"snapshot-id": id}) for id in sorted(by_partition)]
        updates.append(RemoveSnapshotsUpdate.model_validate({"snapshot-ids": going}))
        if by_client:  # a REST catalog keeps its log itself
            updates.append(_log_update(metadata, set(going), replaced or {}))
        descent = kept_lineage(metadata, set(going), replaced or {})
        lineage = json.dumps({str(child): ancestor for child, ancestor in descent.items()})
        if lineage != "{}":
            updates.append(SetPropertiesUpdate.model_validate({"updates": {LINEAGE: lineage}}))
        elif LINEAGE in metadata.properties:
            notes.append(LINEAGE)
        if replaced:
            updates.append(SetPropertiesUpdate.model_validate({"updates": replacement_note(metadata, replaced)}))
        if stamps := last_stamps(table, set(going) - (replaced or {}).keys()):
            updates.append(SetPropertiesUpdate.model_validate({"updates": stamps}))
    if notes:
        updates.append(RemovePropertiesUpdate.model_validate({"removals": notes}))
    if by_client and (dead := dead_entries(table, metadata_files)):
        updates.append(drop_entries(dead))
    return tuple(updates)


def lineage_of(properties: Mapping[str, str]) -> dict[int, int]:
    """For snapshots whose parent has expired: the nearest remaining ancestor."""
    return _snapshots_in(properties, LINEAGE)


def replacements_of(properties: Mapping[str, str]) -> dict[int, int]:
    """For snapshots that a purge replaced: what replaces them now."""
    return _snapshots_in(properties, REPLACED)


def replacement_note(metadata: TableMetadata, replaced: Mapping[int, int]) -> dict[str, str]:
    """The property that says so, with these ones too."""
    return {REPLACED: json.dumps({str(old): new for old, new in _replacements(metadata, replaced).items()})}


def _snapshots_in(properties: Mapping[str, str], key: str) -> dict[int, int]:
    try:
        return {int(one): int(other) for one, other in json.loads(properties.get(key, "{}")).items()}
    except (ValueError, TypeError, AttributeError):  # not ours, or damaged
        return {}


def _replacements(metadata: TableMetadata, replaced: Mapping[int, int]) -> dict[int, int]:
    """All replacements that are left: those of replaced ones too."""
    there = {snapshot.snapshot_id for snapshot in metadata.snapshots} - replaced.keys() | set(replaced.values())
    known = {**replacements_of(metadata.properties), **replaced}

    def last(new: int) -> int:
        passed = set[int]()
        while new in replaced and new not in passed:
            passed.add(new)
            new = replaced[new]
        return new

    return {old: end for old, new in known.items() if (end := last(new)) in there}


def kept_lineage(metadata: TableMetadata, going: set[int], replaced: Mapping[int, int]) -> dict[int, int]:
    """The lineage to remember once these snapshots are gone; `replaced` maps some to their replacements."""
    remembered = lineage_of(metadata.properties)
    parents = {s.snapshot_id: s.parent_snapshot_id for s in metadata.snapshots}

    def parent(child: int) -> int | None:
        direct = parents.get(child)
        return direct if direct in parents else remembered.get(child)

    lost = going - replaced.keys()
    lineage = {}
    for child in parents.keys() - lost:
        ancestor = parent(child)
        direct = ancestor is not None and not {child, ancestor} & going and ancestor == parents.get(child)
        while ancestor is not None and ancestor in lost:
            ancestor = parent(ancestor)
        if ancestor is not None and not direct:
            lineage[replaced.get(child, child)] = replaced.get(ancestor, ancestor)
    return lineage


def checkpoint_values(stamp: str) -> list[tuple[str, Any]]:
    """The values of the checkpoint in a backfill's stamp, each with the column that it is of, if that is known."""
    try:
        known = json.loads(stamp)
        values = json.loads(known.get("position", known).get("checkpoint") or "[]")
        return _placed(stamp, values)
    except (ValueError, TypeError, AttributeError):  # not ours, or damaged
        return []


def checkpoint_columns(stamp: str) -> tuple[str, ...]:
    """The columns that checkpoints in a backfill's stamp are of, as SOURCE.COLUMN; none if that is not known."""
    try:
        known = json.loads(stamp)
        source, _, columns = str(known.get("position", known).get("by") or "").partition(" by ")
        return tuple(f"{source}.{column}" for column in columns.split(", ")) if columns else ()
    except (ValueError, TypeError, AttributeError):  # not ours, or damaged
        return ()


def _placed(stamp: str, values: Sequence[Any]) -> list[tuple[str, Any]]:
    columns = checkpoint_columns(stamp)
    return list(zip(columns if len(columns) == len(values) else [""] * len(values), values, strict=True))


def without_revealing(stamp: str, reveals: Callable[[str], bool]) -> str:
    """A backfill's stamp that forgets its checkpoint, if that reveals a value.

    `reveals` is asked for it as a text, and as a list of the column that it is of, if that is known, and the value.
    """
    try:
        known = json.loads(stamp)
        position = known.get("position", known)
        values = json.loads(position.get("checkpoint") or "[]")
    except (ValueError, TypeError, AttributeError):
        raise Conflict(
            f"a property {BACKFILL}… cannot be read, so it is not known whether it has erased values",
            "Others have changed it. Set it again to its text in an older metadata file, or remove it if the table has "
            "no rows of that backfill.",
        ) from None
    placed = _placed(stamp, values)
    if not any(reveals(text) for each in placed for text in (str(each[1]), json.dumps(each, ensure_ascii=False))):
        return stamp
    position.update(checkpoint=None, forgotten=True)
    return json.dumps(known, separators=(",", ":"), ensure_ascii=False)


def marked_purged(stamp: str, purged: Mapping[str, bool]) -> str:
    """The stamp of an archived partition, marked if a purge changed it: its row count and checksums are earlier ones.

    `purged` tells for these partitions whether they still have data files.
    """
    try:
        known = json.loads(stamp)
        position = known.get("position", known)
        name = position["partition"]
    except (ValueError, TypeError, KeyError, AttributeError):  # not ours, or damaged
        return stamp
    if name not in purged:
        return stamp
    position.update({"purged": True} if purged[name] else {"purged": True, "rows": 0})
    position.pop("replaced", None)  # of copies that the purge changed too
    return json.dumps(known, separators=(",", ":"), ensure_ascii=False)


def stamp_property(snapshot: Snapshot, stamp: str) -> str:
    """The stamp of a snapshot as the value of a table property, which is known when the snapshot has expired."""
    whose = {"snapshot": snapshot.snapshot_id, "sequence": snapshot.sequence_number, "at": snapshot.timestamp_ms}
    return json.dumps({"position": json.loads(stamp), **whose}, separators=(",", ":"), ensure_ascii=False)


def last_stamps(table: Table, going: set[int]) -> dict[str, str]:
    """The newest stamps of archives, by key, if their snapshots expire: as properties they stay known.

    Also one that others rolled main back behind: its rows are missed. A property with the same stamp stays: the one
    snapshot of a purge has all stamps, and is newer than their rows.
    """
    newest: dict[str, tuple[Snapshot, str]] = {}
    kept = table.metadata.properties
    for snapshot in sorted(table.metadata.snapshots, key=lambda one: one.timestamp_ms):
        notes = snapshot.summary.additional_properties if snapshot.summary else {}
        newest |= {key: (snapshot, text) for key, text in notes.items() if key.startswith(SEQUENCE)}
    return {
        key: stamp_property(snapshot, text)
        for key, (snapshot, text) in newest.items()
        if snapshot.snapshot_id in going and (key not in kept or _is_newer(snapshot, text, kept[key]))
    }


def _is_newer(snapshot: Snapshot, stamp: str, kept: str) -> bool:
    try:
        known = json.loads(kept)
        return bool(known["at"] <= snapshot.timestamp_ms and known["position"] != json.loads(stamp))
    except (ValueError, TypeError, KeyError):  # damaged
        return True


def _log_update(metadata: TableMetadata, going: set[int], replaced: Mapping[int, int]) -> TableUpdate:
    """Update main's snapshot log. It has no gaps: as in Iceberg, all before a removed snapshot is cleared.

    A replaced snapshot keeps its place under its new id, and the table's timestamp advances. An expired one whose
    version another snapshot still holds, as after a compaction, is replaced by that one: time travel shows the same
    rows.
    """
    from pyiceberg.table.update import _apply_table_update

    renamed = {**stand_ins(metadata, going), **replaced}
    log, lost = list(metadata.snapshot_log), going - renamed.keys()
    last_lost = max((place for place, entry in enumerate(log) if entry.snapshot_id in lost), default=-1)
    kept = [
        entry.model_copy(update={"snapshot_id": renamed.get(entry.snapshot_id, entry.snapshot_id)})
        for entry in log[last_lost + 1 :]
    ]
    now = max(int(time.time() * 1000), metadata.last_updated_ms) if replaced else None
    if _ClearedLog not in _apply_table_update.registry:
        _apply_table_update.register(_ClearedLog, _clear_log)
    return cast("TableUpdate", _ClearedLog(kept, now))


class _ClearedLog:
    """A custom update, applied where the client writes the metadata."""

    def __init__(self, kept: list[Any], now: int | None) -> None:
        self.kept = kept
        self.now = now


def _clear_log(update: _ClearedLog, base: TableMetadata, context: Any) -> TableMetadata:
    clock = {} if update.now is None else {"last_updated_ms": update.now}
    return base.model_copy(update={"snapshot_log": update.kept, **clock})
