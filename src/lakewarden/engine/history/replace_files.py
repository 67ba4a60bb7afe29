"""Replaces files in all versions of a table: new snapshots for all refs, in one commit.

A snapshot is dirty if it references, or its metadata mentions, a replaced file. Every ref at a dirty snapshot is moved
to a new one, keeping its settings, and all dirty snapshots expire, in one commit that asserts every ref. A commit that
loses a race is planned again on the current metadata, with the same replacements. `clean_versions.py` builds the new
snapshots; callers delete what is no longer referenced.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from lakewarden.engine.base.locations import same_place
from lakewarden.engine.catalog.metadata_log import drop_all_entries
from lakewarden.engine.catalog.positions import position_updates
from lakewarden.engine.catalog.snapshot_removal import expiry_updates
from lakewarden.engine.commit.lost_refs import find_lost_refs, temporary_snapshot
from lakewarden.engine.commit.publish import Attempt, at_refs, by_client, check_format, ref_update
from lakewarden.engine.history.carried_deletes import CarriedDeletes
from lakewarden.engine.history.clean_versions import CleanVersions
from lakewarden.engine.history.manifest_index import Survey, place_of
from lakewarden.engine.history.purged_partitions import marks, purged_partitions
from lakewarden.engine.history.replacement import Cleansed, Cleansing
from lakewarden.engine.history.spark_costs import check_nothing_staged
from lakewarden.errors import CatalogUnavailable, LakewardenError, StalePlan
from lakewarden.lifecycle.failpoints import reach

if TYPE_CHECKING:
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableUpdate

    from lakewarden.engine.commit.change import Desk
    from lakewarden.engine.commit.publish import Publisher
    from lakewarden.engine.files.manifests import Manifests
    from lakewarden.lifecycle.basics import Stamp

Lists = Mapping[int, Sequence["ManifestFile"]]


class ReplaceFiles(Cleansing):
    """Replaces files and expires the snapshots that had them."""

    def publish(self, desk: Desk) -> Cleansed | None:
        """Returns the result; None if no snapshot has such a file."""
        publisher, work = desk.publisher, _Cleanse(desk.stamp, desk.reader, self, self.about_to)
        if not _land(publisher, self, work):
            return None
        reach("cleansing.landed")
        if work.may_have_lost_refs:
            try:
                _restore_lost_refs(publisher, self, work)
            except LakewardenError as error:  # must not look as if nothing was committed
                raise CatalogUnavailable(
                    f"{self.table}: the commit landed, but it is unknown whether refs created at the same time still "
                    f"exist: {error.message}",
                    "Continue with: lakewarden operation resume ID",
                ) from error
        return work.outcome


def _restore_lost_refs(publisher: Publisher, change: Cleansing, work: _Cleanse) -> None:
    """Restore refs that were lost with their snapshots; they are then cleansed like the others."""
    while publisher.publish(change.table, change.uuid, work.restored_refs):
        try:
            _land(publisher, change, work)
        except StalePlan:  # a ref at a snapshot whose files were not replaced, being unreferenced
            return


def _land(publisher: Publisher, change: Cleansing, work: _Cleanse) -> bool:
    """Publish, and delete new files that no snapshot references."""
    try:
        has_landed = publisher.publish(change.table, change.uuid, work.attempt) is not None
    except CatalogUnavailable:
        raise  # it may have landed, so its files may be in use
    except Exception:  # not BaseException: an interrupt may come after it landed
        work.settle(landed=False)
        raise
    work.settle(has_landed)
    return has_landed


class _Cleanse:
    """One change in progress; keeps what was read and written over all attempts."""

    def __init__(
        self, stamp: Stamp, reader: Manifests, change: Cleansing, about_to: Callable[[Sequence[str]], None]
    ) -> None:
        self._stamp, self._reader, self._change, self._about_to = stamp, reader, change, about_to
        self._carried = CarriedDeletes(change, stamp, reader)
        self._survey = Survey(change, self._carried, reader)
        self._table: Table | None = None
        self._planned: Cleansed | None = None
        self.outcome: Cleansed | None = None

    def attempt(self, table: Table) -> Attempt | None:
        """Write everything new for the table as it is now; None if no snapshot is dirty."""
        self._table = table
        check_format(table, self._change.table)
        lists = self._survey.of(table)
        dirty = self._dirty(table, lists)
        if not dirty:
            return None
        reach("cleansing.surveyed")
        check_nothing_staged(table, self._change.table, dirty)
        self._check_obsolete(table, lists)
        self._carried.begin()
        on_main = lists.get(table.metadata.current_snapshot_id or 0, [])
        purged = purged_partitions(table, on_main, self._change.replacements, self._reader)
        new = CleanVersions(table, self._change, self._survey, self._carried, self._reader, self._stamp, purged)
        try:
            heads = dirty & {ref.snapshot_id for ref in table.metadata.refs.values()}
            for head in heads:
                new.expect(lists[head])
            for old in sorted(table.metadata.snapshots, key=lambda s: (s.sequence_number or 0, s.timestamp_ms)):
                if old.snapshot_id in heads:
                    new.make(old, lists[old.snapshot_id])
            reach("cleansing.written")
            superseded = self._superseded(table, lists, dirty, new)
            self._about_to(superseded)
            self._planned = self._result(table, dirty, new, superseded)
            return self._attempt(table, dirty, new, purged)
        except BaseException:
            new.discard()
            raise

    def settle(self, landed: bool) -> None:
        """Record what was committed, and delete new files that no snapshot references."""
        if self._table is not None:
            self._carried.settle(self._table.io, landed)
        if landed and self._planned is not None:
            self.outcome = self._planned if self.outcome is None else _together(self.outcome, self._planned)

    @property
    def may_have_lost_refs(self) -> bool:
        """Whether the catalog may have removed refs with their snapshots; not if the client writes the metadata."""
        return self._table is not None and not by_client(self._table)

    def restored_refs(self, table: Table) -> Attempt | None:
        """Restore refs created at the same moment on snapshots that expired, none of whose files is deleted yet."""
        from pyiceberg.table.update import AddSnapshotUpdate, RemoveSnapshotsUpdate

        gone = self.outcome.snapshots if self.outcome else ()
        found = find_lost_refs(table, gone, ())
        if found is None:
            return None
        names = found.lost_refs(table)
        wanted = {found.before.refs[name].snapshot_id for name in names}
        there = {snapshot.snapshot_id for snapshot in table.metadata.snapshots}
        back = [s for s in found.before.snapshots if s.snapshot_id in wanted - there]
        last = temporary_snapshot(table, back[-1]) if back else None
        updates: list[TableUpdate] = [
            AddSnapshotUpdate(snapshot=snapshot.model_copy(update={"parent_snapshot_id": None})) for snapshot in back
        ]
        updates += found.ref_updates(table)
        if last is not None:
            updates.append(AddSnapshotUpdate(snapshot=last))
            updates.append(RemoveSnapshotsUpdate.model_validate({"snapshot-ids": [last.snapshot_id]}))
        return Attempt(at_refs(self._change.uuid, dict.fromkeys(names)), tuple(updates))

    def _dirty(self, table: Table, lists: Lists) -> set[int]:
        there = {snapshot.snapshot_id for snapshot in table.metadata.snapshots}
        listing = {id for id, manifests in lists.items() if any(self._survey[m].is_dirty for m in manifests)}
        return listing | (self._change.tainted & there)

    def _check_obsolete(self, table: Table, lists: Lists) -> None:
        """Files that no ref reached were not replaced, so none may reach them now."""
        for name, ref in sorted(table.metadata.refs.items()):
            if any(self._survey[manifest].obsolete for manifest in lists[ref.snapshot_id]):
                raise StalePlan(
                    f"the plan is stale: {ref.snapshot_ref_type} {name} of {self._change.table} now references files "
                    "that were unreferenced",
                    "Nothing was written. Plan again.",
                )

    def _attempt(self, table: Table, dirty: set[int], new: CleanVersions, purged: Mapping[str, bool]) -> Attempt:
        refs = {name: ref.snapshot_id for name, ref in table.metadata.refs.items()}
        made = {old: snapshot.snapshot_id for old, snapshot in new.made.items()}
        return Attempt(
            at_refs(self._change.uuid, refs),
            (*_updates(table, dirty, new, made, self._change.reveals), *marks(table, dirty - made.keys(), purged)),
            new.discard,
            next(iter(made.values()), None),
        )

    def _result(self, table: Table, dirty: set[int], new: CleanVersions, superseded: Sequence[str]) -> Cleansed:
        moved = {
            name: (ref.snapshot_id, new.made[ref.snapshot_id].snapshot_id)
            for name, ref in table.metadata.refs.items()
            if ref.snapshot_id in new.made
        }
        return Cleansed(
            refs=moved,
            snapshots=tuple(sorted(dirty)),
            superseded=tuple(superseded),
            delete_files_rewritten=self._carried.used,
            manifests_rewritten=new.manifests_rewritten,
        )

    def _superseded(self, table: Table, lists: Lists, dirty: set[int], new: CleanVersions) -> list[str]:
        """Everything that is unreferenced after the commit: files of all kinds, and all earlier metadata files."""
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
        new_files = (one.file.file_path for one in self._change.replacements.values() if one.file is not None)
        gone |= {path: None for path in new_files if place_of(path) not in needed}  # whose refs are gone
        shared = {s.manifest_list for s in metadata.snapshots if s.snapshot_id not in dirty}
        gone |= {s.manifest_list: None for s in metadata.snapshots if s.manifest_list not in shared}
        gone |= dict.fromkeys(_statistics(metadata, dirty))
        gone |= {entry.metadata_file: None for entry in metadata.metadata_log}
        return [*gone, table.metadata_location]


def _statistics(metadata: TableMetadata, dirty: set[int]) -> list[str]:
    statistics_files = [*metadata.statistics, *metadata.partition_statistics]
    still = {same_place(s.statistics_path) for s in statistics_files if s.snapshot_id not in dirty}
    leaving = (s.statistics_path for s in statistics_files if s.snapshot_id in dirty)
    return [path for path in leaving if same_place(path) not in still]


def _updates(
    table: Table, dirty: set[int], new: CleanVersions, made: Mapping[int, int], reveals: Callable[[str], bool]
) -> tuple[TableUpdate, ...]:
    from pyiceberg.table.update import AddSnapshotUpdate, RemoveSnapshotsUpdate

    updates: list[TableUpdate] = [AddSnapshotUpdate(snapshot=snapshot) for snapshot in new.made.values()]
    for name, ref in table.metadata.refs.items():
        if ref.snapshot_id in made:
            updates.append(ref_update(name, str(ref.snapshot_ref_type), made[ref.snapshot_id], ref))
    if made and not by_client(table):  # the server would use the last one's timestamp
        last = temporary_snapshot(table, list(new.made.values())[-1], new.last_sequence)
        updates.append(AddSnapshotUpdate(snapshot=last))
        updates.append(RemoveSnapshotsUpdate.model_validate({"snapshot-ids": [last.snapshot_id]}))
    updates += expiry_updates(table, sorted(dirty), (), made)
    updates += position_updates(table, dirty, made, reveals)
    return (*updates, drop_all_entries()) if by_client(table) else tuple(updates)


def _together(first: Cleansed, second: Cleansed) -> Cleansed:
    return Cleansed(
        refs={**first.refs, **second.refs},
        snapshots=tuple(sorted({*first.snapshots, *second.snapshots})),
        superseded=tuple(dict.fromkeys((*first.superseded, *second.superseded))),
        delete_files_rewritten=first.delete_files_rewritten + second.delete_files_rewritten,
        manifests_rewritten=first.manifests_rewritten + second.manifests_rewritten,
    )
