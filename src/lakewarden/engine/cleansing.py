"""Files replaced in every version of a table at once: new versions for all refs, in one commit.

A version is dirty that leads to a replaced file or tells of one. Every ref that stands at a dirty version is moved to
a new one, with all its settings, and all dirty versions go, in one commit that asserts every ref. One that loses a
race is planned anew on what is there then, with the same replacements. What the new versions are made of is in
`clean_versions.py`; deleting what nothing leads to any more is for whoever asked.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from lakewarden.engine.carried_deletes import CarriedDeletes
from lakewarden.engine.changes import Cleansed
from lakewarden.engine.clean_versions import CleanVersions
from lakewarden.engine.expiry import expiry_updates
from lakewarden.engine.locations import same_place
from lakewarden.engine.publish import Attempt, at_refs, check_format
from lakewarden.engine.survey import Survey, place_of
from lakewarden.errors import CatalogUnavailable, StalePlan
from lakewarden.lifecycle.failpoints import reach

if TYPE_CHECKING:
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import AddSnapshotUpdate, TableUpdate

    from lakewarden.engine.changes import Cleansing
    from lakewarden.engine.manifests import Manifests
    from lakewarden.engine.publish import Publisher
    from lakewarden.lifecycle.ground import Stamp

Lists = Mapping[int, Sequence["ManifestFile"]]


def cleanse(
    publisher: Publisher,
    stamp: Stamp,
    reader: Manifests,
    change: Cleansing,
    about_to: Callable[[Sequence[str]], None],
) -> Cleansed | None:
    """Replace files in every version at once, and let the versions that had them go; None where none has them."""
    work = _Cleanse(stamp, reader, change, about_to)
    has_landed = False
    try:
        has_landed = publisher.publish(change.table, change.uuid, work.attempt)
    except CatalogUnavailable:
        raise  # it may have landed: what was written for it may be in use
    except BaseException:
        work.discard()
        raise
    if not has_landed:
        work.discard()
        return None
    reach("cleansing.landed")
    return work.outcome


class _Cleanse:
    """One change on its way; what outlives an attempt is what was read and written for all of them."""

    def __init__(
        self, stamp: Stamp, reader: Manifests, change: Cleansing, about_to: Callable[[Sequence[str]], None]
    ) -> None:
        self._stamp, self._reader, self._change, self._about_to = stamp, reader, change, about_to
        self._carried = CarriedDeletes(change, stamp, reader)
        self._survey = Survey(change, self._carried, reader)
        self._table: Table | None = None
        self.outcome: Cleansed | None = None

    def attempt(self, table: Table) -> Attempt | None:
        """Write all that is new for the table as it is now; nothing where no version is dirty."""
        self._table = table
        check_format(table, self._change.table)
        lists = self._survey.of(table)
        dirty = self._dirty(table, lists)
        if not dirty:
            return None
        reach("cleansing.surveyed")
        self._check_obsolete(table, lists)
        new = CleanVersions(table, self._change, self._survey, self._carried, self._reader, self._stamp)
        try:
            heads = {ref.snapshot_id for ref in table.metadata.refs.values()}
            for old in sorted(table.metadata.snapshots, key=lambda s: (s.sequence_number or 0, s.timestamp_ms)):
                if old.snapshot_id in dirty & heads:
                    new.make(old, lists[old.snapshot_id])
            reach("cleansing.written")
            superseded = self._superseded(table, lists, dirty, new)
            self._about_to(superseded)
            self.outcome = self._told(table, dirty, new, superseded)
            return self._attempt(table, dirty, new)
        except BaseException:
            new.discard()
            raise

    def discard(self) -> None:
        """Remove what was written for all attempts; none of them landed."""
        if self._table is not None:
            self._carried.discard(self._table.io)

    def _dirty(self, table: Table, lists: Lists) -> set[int]:
        there = {snapshot.snapshot_id for snapshot in table.metadata.snapshots}
        listing = {id for id, manifests in lists.items() if any(self._survey[m].is_dirty for m in manifests)}
        return listing | (self._change.tainted & there)

    def _check_obsolete(self, table: Table, lists: Lists) -> None:
        """Files that no ref led to are not replaced, so none may lead to them now."""
        for name, ref in sorted(table.metadata.refs.items()):
            if any(self._survey[manifest].obsolete for manifest in lists[ref.snapshot_id]):
                raise StalePlan(
                    f"the plan is stale: {ref.snapshot_ref_type} {name} of {self._change.table} now leads to files "
                    "that nothing led to",
                    "Nothing was written. Plan again.",
                )

    def _attempt(self, table: Table, dirty: set[int], new: CleanVersions) -> Attempt:
        refs = {name: ref.snapshot_id for name, ref in table.metadata.refs.items()}
        made = {old: snapshot.snapshot_id for old, snapshot in new.made.items()}
        return Attempt(
            at_refs(self._change.uuid, refs),
            _updates(table, dirty, new, made),
            new.discard,
            next(iter(made.values()), None),
        )

    def _told(self, table: Table, dirty: set[int], new: CleanVersions, superseded: Sequence[str]) -> Cleansed:
        moved = {
            name: (ref.snapshot_id, new.made[ref.snapshot_id].snapshot_id)
            for name, ref in table.metadata.refs.items()
            if ref.snapshot_id in new.made
        }
        return Cleansed(
            refs=moved,
            snapshots=tuple(sorted(dirty)),
            superseded=tuple(superseded),
            delete_files_rewritten=len(self._carried.written),
            manifests_rewritten=new.manifests_rewritten,
        )

    def _superseded(self, table: Table, lists: Lists, dirty: set[int], new: CleanVersions) -> list[str]:
        """All that nothing leads to once this has landed: files of any kind, and every earlier file of metadata."""
        metadata = table.metadata
        staying = {m.manifest_path: m for id, some in lists.items() if id not in dirty for m in some}
        leaving = {m.manifest_path: m for id in dirty for m in lists[id]}
        kept = staying.keys() | new.manifest_paths()
        needed = set(new.places())
        for manifest in staying.values():
            needed.update(self._survey[manifest].places)
        gone: dict[str, None] = {}
        for path, manifest in leaving.items():
            if path not in kept:
                gone[path] = None
                for entry in self._reader.entries(table.io, manifest):
                    if place_of(entry.data_file.file_path) not in needed:
                        gone[entry.data_file.file_path] = None
        shared = {s.manifest_list for s in metadata.snapshots if s.snapshot_id not in dirty}
        gone |= {s.manifest_list: None for s in metadata.snapshots if s.manifest_list not in shared}
        gone |= dict.fromkeys(_statistics(metadata, dirty))
        gone |= {entry.metadata_file: None for entry in metadata.metadata_log}
        return [*gone, table.metadata_location]


def _statistics(metadata: TableMetadata, dirty: set[int]) -> list[str]:
    told_of = [*metadata.statistics, *metadata.partition_statistics]
    still = {same_place(s.statistics_path) for s in told_of if s.snapshot_id not in dirty}
    leaving = (s.statistics_path for s in told_of if s.snapshot_id in dirty)
    return [path for path in leaving if same_place(path) not in still]


def _updates(table: Table, dirty: set[int], new: CleanVersions, made: Mapping[int, int]) -> tuple[TableUpdate, ...]:
    from pyiceberg.catalog import MetastoreCatalog
    from pyiceberg.table.update import AddSnapshotUpdate, RemoveSnapshotsUpdate, SetSnapshotRefUpdate

    updates: list[TableUpdate] = [AddSnapshotUpdate(snapshot=snapshot) for snapshot in new.made.values()]
    for name, ref in table.metadata.refs.items():
        if ref.snapshot_id in made:
            settings = ref.model_dump(exclude_none=True, by_alias=True)
            place = {"ref-name": name, "type": str(ref.snapshot_ref_type), "snapshot-id": made[ref.snapshot_id]}
            updates.append(SetSnapshotRefUpdate.model_validate({**settings, **place}))
    if made and not isinstance(table.catalog, MetastoreCatalog):
        passing = _passing(table, new)
        updates += [passing, RemoveSnapshotsUpdate.model_validate({"snapshot-ids": [passing.snapshot.snapshot_id]})]
    return (*updates, *expiry_updates(table, sorted(dirty), (), made))


def _passing(table: Table, new: CleanVersions) -> AddSnapshotUpdate:
    """A version that goes again at once: after those of old times, it sets the clock of a catalog's own right."""
    from pyiceberg.table.update import AddSnapshotUpdate

    last = list(new.made.values())[-1]
    taken = {snapshot.snapshot_id for snapshot in new.made.values()}
    while (passing := table.metadata.new_snapshot_id()) in taken:
        continue
    now = max(int(time.time() * 1000), table.metadata.last_updated_ms)
    sequence = new.last_sequence + 1 if table.metadata.format_version > 1 else 0
    told = {"snapshot_id": passing, "timestamp_ms": now, "sequence_number": sequence}
    return AddSnapshotUpdate(snapshot=last.model_copy(update=told))
