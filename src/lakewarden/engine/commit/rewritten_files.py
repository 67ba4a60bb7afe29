"""Replaces data files with rewritten ones in one commit.

Groups whose inputs changed meanwhile are rejected; the others are committed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakewarden.engine.catalog.snapshots import MAIN
from lakewarden.engine.commit.change import Change
from lakewarden.engine.commit.new_snapshot import Draft, by_manifest
from lakewarden.engine.commit.publish import Attempt, check_format
from lakewarden.engine.files.live_files import Files, SnapshotFiles

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from lakewarden.engine.commit.change import Desk
    from lakewarden.engine.files.written_files import AddedFile


@dataclass(frozen=True)
class RewrittenGroup:
    """Data files, each with the deletes it was read with, and the files that now hold their rows."""

    number: int
    inputs: Mapping[str, frozenset[str]]
    added: tuple[AddedFile, ...]


@dataclass(frozen=True)
class Rewritten:
    """The result of a rewrite. Rejected groups are those whose inputs changed meanwhile."""

    snapshot: int | None
    sent_back: tuple[int, ...]
    delete_files_removed: int = 0


@dataclass(frozen=True)
class Rewrite(Change[Rewritten]):
    """Rewritten groups that replace their inputs on a branch."""

    groups: tuple[RewrittenGroup, ...]
    branch: str = MAIN
    facts: Mapping[str, str] = field(default_factory=dict)
    discard: Callable[[RewrittenGroup], None] = field(default=lambda group: None, repr=False)
    """Called for each rejected group, before anything is published."""

    def publish(self, desk: Desk) -> Rewritten:
        left = {group.number: group for group in self.groups}
        landed: list[Rewritten] = []

        def attempt(table: Table) -> Attempt | None:
            check_format(table, self.table)
            head = table.snapshot_by_name(self.branch)
            files = Files(desk.reader).of(table, head)
            for group in [group for group in left.values() if not _unchanged(group, files)]:
                self.discard(left.pop(group.number))
            if not left or head is None:
                return None
            gone = {path for group in left.values() for path in group.inputs}
            dangling = files.dangling(gone)
            with Draft(table, head, desk.stamp, desk.reader) as draft:
                draft.remove(by_manifest([*(files.by_path[path] for path in gone), *dangling]))
                draft.add([added for group in left.values() for added in group.added])
                sent_back = tuple(group.number for group in self.groups if group.number not in left)
                landed[:] = [Rewritten(draft.snapshot_id, sent_back, len(dangling))]
                return draft.attempt(self.uuid, self.branch, self.facts)

        if desk.publisher.publish(self.table, self.uuid, attempt):
            return landed[0]
        return Rewritten(None, tuple(group.number for group in self.groups))


def _unchanged(group: RewrittenGroup, files: SnapshotFiles) -> bool:
    """Whether each input is live, with exactly the deletes it was read with."""
    return all(
        path in files.by_path and files.by_path[path].deletes_identity == deletes
        for path, deletes in group.inputs.items()
    )
