"""Which files must be read to compare two versions: those that are not live on both sides with the same deletes.

A `replace` snapshot, such as a compaction, changes no rows. If one version descends from the other and the snapshots
between them still exist, what those snapshots replaced cancels out: the difference is then the sum of the changes
between them. That way is taken if it reads less.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakewarden.engine.catalog.snapshots import ancestors, notes_of

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from lakewarden.engine.files.live_files import Files, LiveFile, SnapshotFiles

_MOST_REPLACED = 16  # replace snapshots that are looked at, those with most files first
Known = tuple[str, frozenset[str]]
"""A file by its path and its deletes."""


@dataclass(frozen=True)
class Differing:
    """A file that is read: as the one side has it and as the other does; None if a side does not have it."""

    before: LiveFile | None
    after: LiveFile | None

    @property
    def file(self) -> LiveFile:
        found = self.after or self.before
        assert found is not None
        return found


@dataclass(frozen=True)
class FileDifference:
    """What tells two versions apart, file by file."""

    differing: tuple[Differing, ...]
    shared: tuple[LiveFile, ...]
    replaced: int = 0
    """So many `replace` snapshots between the versions were left out."""

    @property
    def bytes(self) -> int:
        return sum(each.file.bytes for each in self.differing)


def difference(files: Files, table: Table, before: Snapshot, after: Snapshot) -> FileDifference:
    """What differs between two versions of one table."""
    direct = at_the_ends(files.of(table, before), files.of(table, after))
    if not direct.differing:
        return direct
    chain = _chain(table, before, after)
    replaced = _replaced(chain or [])
    if not chain or not replaced:
        return direct
    summed = _summed(files, table, chain, replaced, direct.shared)
    if chain[0] is not before:  # the first version descends from the second
        turned = tuple(Differing(each.after, each.before) for each in summed.differing)
        summed = FileDifference(turned, summed.shared, summed.replaced)
    return summed if summed.bytes < direct.bytes else direct


def apart(before: SnapshotFiles, after: SnapshotFiles) -> FileDifference:
    """What differs between versions of different tables: everything."""
    one, other = before.by_path.values(), after.by_path.values()
    return FileDifference((*(Differing(file, None) for file in one), *(Differing(None, file) for file in other)), ())


def at_the_ends(before: SnapshotFiles, after: SnapshotFiles) -> FileDifference:
    """What differs between two versions of one table, whatever lies between them."""
    old, new = before.by_path, after.by_path
    shared = tuple(file for path, file in new.items() if path in old and _known(old[path]) == _known(file))
    same = {file.path for file in shared}
    paths = [path for path in dict.fromkeys((*old, *new)) if path not in same]
    return FileDifference(tuple(Differing(old.get(path), new.get(path)) for path in paths), shared)


def _chain(table: Table, before: Snapshot, after: Snapshot) -> list[Snapshot] | None:
    """The snapshots from the older version to the newer one, if one descends from the other."""
    for older, newer in ((before, after), (after, before)):
        found: list[Snapshot] = []
        for snapshot_id in ancestors(table, newer.snapshot_id):
            snapshot = table.snapshot_by_id(snapshot_id)
            if snapshot is None:
                break
            found.append(newer if snapshot_id == newer.snapshot_id else snapshot)
            if snapshot_id == older.snapshot_id:
                found[-1] = older
                return found[::-1]
    return None


def _replaced(chain: Sequence[Snapshot]) -> list[int]:
    """The places of `replace` snapshots in a chain that removed most; what they were built on must still exist."""

    def removed(place: int) -> int:
        return int(notes_of(chain[place]).get("removed-files-size") or 0)

    def is_replace(place: int) -> bool:
        on_parent = chain[place].parent_snapshot_id == chain[place - 1].snapshot_id
        return on_parent and _operation(chain[place]) == "replace"

    places = [place for place in range(1, len(chain)) if is_replace(place)]
    return sorted(sorted(places, key=removed, reverse=True)[:_MOST_REPLACED])


def _operation(snapshot: Snapshot) -> str:
    return "" if snapshot.summary is None else str(snapshot.summary.operation.value)


def _summed(
    files: Files, table: Table, chain: Sequence[Snapshot], replaced: Sequence[int], shared: tuple[LiveFile, ...]
) -> FileDifference:
    """The changes between the replace snapshots, added up."""
    net: Counter[Known] = Counter()
    found: dict[Known, LiveFile] = {}
    start = 0
    for place in (*replaced, len(chain)):
        if place - 1 > start:
            for sign, snapshot in ((-1, chain[start]), (1, chain[place - 1])):
                for file in files.of(table, snapshot).by_path.values():
                    known = _known(file)
                    found[known] = file
                    net[known] += sign
        start = place
    return FileDifference(tuple(_parts(net, found)), shared, len(replaced))


def _parts(net: Counter[Known], found: dict[Known, LiveFile]) -> Iterable[Differing]:
    """Each file once for every time that it counts; states of one file on both sides are read together."""
    by_path: dict[str, tuple[list[LiveFile], list[LiveFile]]] = {}
    for known, count in net.items():
        if count:
            sides = by_path.setdefault(known[0], ([], []))
            sides[count > 0].extend([found[known]] * abs(count))
    for before, after in by_path.values():
        for place in range(max(len(before), len(after))):
            yield Differing(
                before[place] if place < len(before) else None, after[place] if place < len(after) else None
            )


def _known(file: LiveFile) -> Known:
    return file.path, file.deletes_identity
