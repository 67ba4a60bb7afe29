"""Position deletes that hide rows of a branch, added and taken away again: in each case one commit.

Deletes are added to one branch, and taken away from all of them at once. Which rows they name, and how their files are
written, is in `position_deletes.py`. What others committed meanwhile is kept: positions in a data file stay what they
are for as long as it is live.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING

from lakewarden.engine.draft import AddedFile, Draft
from lakewarden.engine.live_files import Files, SnapshotFiles
from lakewarden.engine.publish import Attempt, at_refs, check_format
from lakewarden.errors import Conflict, StalePlan

if TYPE_CHECKING:
    from pyiceberg.manifest import ManifestEntry
    from pyiceberg.table import Table
    from pyiceberg.table.update import TableUpdate

    from lakewarden.engine.changes import Mask, Unmask
    from lakewarden.engine.manifests import Manifests
    from lakewarden.engine.publish import Publisher
    from lakewarden.lifecycle.ground import Stamp

_MANY_MANIFESTS = 8
_SMALL_MANIFEST = 1 << 20


def mask(publisher: Publisher, stamp: Stamp, reader: Manifests, change: Mask) -> int | None:
    """Add position deletes to a branch; answers with the new snapshot. Refused where an input was changed."""
    made: list[int] = []

    def attempt(table: Table) -> Attempt | None:
        check_format(table, change.table)
        check_takes_deletes(table, change.table)
        head = table.snapshot_by_name(change.branch)
        if not change.added or head is None:
            return None
        files = Files(reader).of(table, head)
        _check_inputs(change, files)
        draft = _Draft(table, head, stamp, reader)
        try:
            draft.remove(_by_manifest(files, change.replaced))
            draft.add_deletes(change.added)
            updates = draft.updates(change.branch, change.facts)
        except BaseException:
            draft.discard()
            raise
        made[:] = [draft.snapshot_id]
        told = tuple(_as(update, "delete") for update in updates)  # as Java tells of a commit that only adds deletes
        return Attempt(at_refs(change.uuid, {change.branch: head.snapshot_id}), told, draft.discard, draft.snapshot_id)

    return made[0] if publisher.publish(change.table, change.uuid, attempt) else None


def unmask(publisher: Publisher, stamp: Stamp, reader: Manifests, change: Unmask) -> int:
    """Take deletes away, or put others in their place, wherever they are live; answers how many branches had them."""
    freed: list[int] = []

    def attempt(table: Table) -> Attempt | None:
        check_format(table, change.table)
        heads = _masked_heads(table, reader, change.files)
        drafts: list[_Draft] = []
        updates: list[TableUpdate] = []

        def discard() -> None:
            for draft in drafts:
                draft.discard()

        try:
            for place, (head, (branches, gone)) in enumerate(sorted(heads.items())):
                snapshot = table.snapshot_by_id(head)
                assert snapshot is not None  # a branch stands there
                draft = _Draft(_ahead(table, place), snapshot, stamp, reader)
                drafts.append(draft)
                draft.remove(gone)
                replaced = (change.files[path] for paths in gone.values() for path in sorted(paths))
                draft.add_deletes([added for added in replaced if added is not None])
                moves = [draft.updates(branches[0], change.facts), *(draft.move(other) for other in branches[1:])]
                updates += [_as(update, "overwrite") for some in moves for update in some]
        except BaseException:
            discard()
            raise
        at = {branch: head for head, (branches, _) in heads.items() for branch in branches}
        freed[:] = [len(at)]
        first = drafts[0].snapshot_id if drafts else None
        return Attempt(at_refs(change.uuid, at), tuple(updates), discard, first) if drafts else None

    return freed[0] if publisher.publish(change.table, change.uuid, attempt) else 0


def check_takes_deletes(table: Table, name: str) -> None:
    """Format v1 knows no delete files."""
    if table.metadata.format_version < 2:
        raise Conflict(
            f"{name} is in format v1, which has no delete files: its rows cannot be hidden from other engines",
            "Erase them (lakewarden erasure purge), or upgrade the table: set its property format-version to 2.",
        )


class _Draft(Draft):
    """A snapshot that adds files of deletes, or takes some away."""

    def add_deletes(self, files: Sequence[AddedFile]) -> None:
        """Add files of deletes, one manifest a partition spec. They are of this very snapshot, and newer than all.

        Small manifests of earlier hides are merged with it once they are many: else each hide would leave one more.
        """
        from pyiceberg.manifest import ManifestEntry, ManifestEntryStatus

        for spec_id in sorted({added.spec_id for added in files}):
            entries = []
            for added in files:
                if added.spec_id == spec_id:
                    self._tally.count(added.file, added=True)
                    entries.append(
                        ManifestEntry.from_args(
                            status=ManifestEntryStatus.ADDED, snapshot_id=self.snapshot_id, data_file=added.file
                        )
                    )
            existing = self._taken_from_hides(spec_id)
            self._manifests.insert(0, self._write(spec_id, True, added=entries, existing=existing))

    def _taken_from_hides(self, spec_id: int) -> list[ManifestEntry]:
        """The entries of small manifests that our commits wrote for deletes, which are not listed any more then."""
        small = [
            manifest
            for manifest in self._manifests
            if manifest.content
            and manifest.partition_spec_id == spec_id
            and "/lw-" in manifest.manifest_path
            and manifest.manifest_length < _SMALL_MANIFEST
            and not manifest.deleted_files_count
        ]
        if len(small) < _MANY_MANIFESTS:
            return []
        self._manifests = [manifest for manifest in self._manifests if manifest not in small]
        return [entry for manifest in small for entry in self._reader.entries(self.table.io, manifest)]

    def move(self, branch: str) -> tuple[TableUpdate, ...]:
        """Let another branch of the same head stand here too."""
        from pyiceberg.table.update import SetSnapshotRefUpdate

        ref = self.table.metadata.refs[branch].model_dump(exclude_none=True, by_alias=True)
        moved = {**ref, "ref-name": branch, "type": "branch", "snapshot-id": self.snapshot_id}
        return (SetSnapshotRefUpdate.model_validate(moved),)


def _check_inputs(change: Mask, files: SnapshotFiles) -> None:
    """Refuse where a data file went, or has fewer deletes than when its positions were looked up."""
    changed = [
        path
        for path, deletes in change.inputs.items()
        if path not in files.by_path or not deletes <= files.by_path[path].deletes_identity
    ]
    if changed:
        raise StalePlan(
            f"the plan is stale: {len(changed)} of the files on branch {change.branch} of {change.table} in which rows "
            "were to be hidden were written anew meanwhile",
            "Nothing was written. Plan again.",
        )


def _masked_heads(
    table: Table, reader: Manifests, paths: Collection[str]
) -> Mapping[int, tuple[list[str], Mapping[str, set[str]]]]:
    """The heads of branches that have some of these deletes: which branches, and in which manifests what is to go."""
    branches: dict[int, list[str]] = {}
    for name, ref in sorted(table.metadata.refs.items()):
        if str(ref.snapshot_ref_type) == "branch":
            branches.setdefault(ref.snapshot_id, []).append(name)
    found: dict[int, tuple[list[str], Mapping[str, set[str]]]] = {}
    for head, names in branches.items():
        gone = _by_manifest(Files(reader).of(table, table.snapshot_by_id(head)), paths)
        if gone:
            found[head] = (names, gone)
    return found


def _by_manifest(files: SnapshotFiles, paths: Collection[str]) -> dict[str, set[str]]:
    """Files of deletes, by the manifest that lists them."""
    found: dict[str, set[str]] = {}
    for delete in files.deletes if paths else ():
        if delete.path in paths:
            found.setdefault(delete.manifest, set()).add(delete.path)
    return found


def _ahead(table: Table, snapshots: int) -> Table:
    """The table as if it had so many snapshots more: in one commit, each has a sequence number of its own."""
    if not snapshots:
        return table
    later = copy(table)
    last = int(getattr(table.metadata, "last_sequence_number", -1)) + snapshots
    later.metadata = table.metadata.model_copy(update={"last_sequence_number": last})
    return later


def _as(update: TableUpdate, operation: str) -> TableUpdate:
    """A new snapshot that says what it did to rows, which is more than to write them anew."""
    from pyiceberg.table.snapshots import Operation, Summary
    from pyiceberg.table.update import AddSnapshotUpdate

    if not isinstance(update, AddSnapshotUpdate):
        return update
    told = update.snapshot.summary
    summary = Summary(Operation(operation), **(told.additional_properties if told else {}))
    return AddSnapshotUpdate(snapshot=update.snapshot.model_copy(update={"summary": summary}))
