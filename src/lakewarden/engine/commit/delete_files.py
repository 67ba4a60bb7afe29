"""Adds and removes position deletes that hide rows, each in one commit.

Deletes are added to one branch, and removed from all branches at once. `position_deletes.py` finds the rows and writes
the files. Concurrent commits are kept: positions in a data file do not change as long as it is live.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import ExitStack
from copy import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakewarden.engine.catalog.snapshots import MAIN
from lakewarden.engine.commit.change import Change
from lakewarden.engine.commit.new_snapshot import Draft, by_manifest
from lakewarden.engine.commit.publish import Attempt, at_refs, check_format
from lakewarden.engine.files.live_files import Files, SnapshotFiles
from lakewarden.engine.files.written_files import AddedFile
from lakewarden.errors import Conflict, StalePlan

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.update import TableUpdate

    from lakewarden.engine.commit.change import Desk
    from lakewarden.engine.files.manifests import Manifests


@dataclass(frozen=True)
class Mask(Change[int | None]):
    """Position delete files to add to a branch, and those that they replace."""

    added: tuple[AddedFile, ...]
    inputs: Mapping[str, frozenset[str]]
    """The masked data files, each with the deletes it had when its positions were looked up."""
    branch: str = MAIN
    replaced: frozenset[str] = frozenset()
    """Delete files to remove in the same commit, because the added ones include their rows."""
    facts: Mapping[str, str] = field(default_factory=dict)

    def publish(self, desk: Desk) -> int | None:
        """Returns the new snapshot. Refused if an input changed."""

        def attempt(table: Table) -> Attempt | None:
            check_format(table, self.table)
            check_takes_deletes(table, self.table)
            head = table.snapshot_by_name(self.branch)
            if not self.added or head is None:
                return None
            files = Files(desk.reader).of(table, head)
            _check_inputs(self, files)
            with Draft(table, head, desk.stamp, desk.reader) as draft:
                draft.remove(_by_manifest(files, self.replaced))
                draft.add(self.added, deletes=True)
                return draft.attempt(
                    self.uuid, self.branch, self.facts, "delete"
                )  # as Java does if it adds deletes only

        landed = desk.publisher.publish(self.table, self.uuid, attempt)
        return landed.snapshot if landed else None


@dataclass(frozen=True)
class Unmask(Change[int]):
    """Delete files to remove from every branch, so that their rows are visible again.

    If one also masks rows that stay hidden, it maps to the file that replaces it.
    """

    files: Mapping[str, AddedFile | None]
    facts: Mapping[str, str] = field(default_factory=dict)

    def publish(self, desk: Desk) -> int:
        """Returns the number of branches that had them."""
        freed: list[int] = []

        def attempt(table: Table) -> Attempt | None:
            check_format(table, self.table)
            heads = _masked_heads(table, desk.reader, self.files)
            drafts: list[Draft] = []
            updates: list[TableUpdate] = []

            def discard() -> None:
                for draft in drafts:
                    draft.discard()

            with ExitStack() as discarding:
                for place, (head, (branches, gone)) in enumerate(sorted(heads.items())):
                    draft = Draft(_ahead(table, place), table.snapshot_by_id(head), desk.stamp, desk.reader)
                    drafts.append(discarding.enter_context(draft))
                    draft.remove(gone)
                    replaced = (self.files[path] for paths in gone.values() for path in sorted(paths))
                    draft.add([added for added in replaced if added is not None], deletes=True)
                    updates += draft.updates(branches[0], self.facts, "overwrite")
                    updates += [draft.moved(other) for other in branches[1:]]
            at = {branch: head for head, (branches, _) in heads.items() for branch in branches}
            freed[:] = [len(at)]
            first = drafts[0].snapshot_id if drafts else None
            return Attempt(at_refs(self.uuid, at), tuple(updates), discard, first) if drafts else None

        return freed[0] if desk.publisher.publish(self.table, self.uuid, attempt) else 0


def check_takes_deletes(table: Table, name: str) -> None:
    """Refuse format v1, which has no delete files."""
    if table.metadata.format_version < 2:
        raise Conflict(
            f"{name} is in format v1, which has no delete files: its rows cannot be hidden from other engines",
            "Erase them (lakewarden erasure purge), or upgrade the table: set its property format-version to 2.",
        )


def _check_inputs(change: Mask, files: SnapshotFiles) -> None:
    """Refuse if a data file is gone, or has fewer deletes than when its positions were looked up."""
    changed = [
        path
        for path, deletes in change.inputs.items()
        if path not in files.by_path or not deletes <= files.by_path[path].deletes_identity
    ]
    if changed:
        raise StalePlan(
            f"the plan is stale: {len(changed)} of the files on branch {change.branch} of {change.table} in which rows "
            "were to be hidden have been rewritten",
            "Nothing was written. Plan again.",
        )


def _masked_heads(
    table: Table, reader: Manifests, paths: Collection[str]
) -> Mapping[int, tuple[list[str], Mapping[str, set[str]]]]:
    """The heads of branches with some of these deletes: the branches, and the files to remove by manifest."""
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
    return by_manifest(delete for delete in (files.deletes if paths else ()) if delete.path in paths)


def _ahead(table: Table, snapshots: int) -> Table:
    """The table as if it had this many more snapshots: each snapshot in a commit needs its own sequence number."""
    if not snapshots:
        return table
    later = copy(table)
    last = int(getattr(table.metadata, "last_sequence_number", -1)) + snapshots
    later.metadata = table.metadata.model_copy(update={"last_sequence_number": last})
    return later
