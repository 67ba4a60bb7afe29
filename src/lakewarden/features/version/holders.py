"""What keeps a table's versions and their files: tags, branches, and retention for the rest."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from lakewarden.engine.catalog.snapshots import MAIN, lines_of
from lakewarden.engine.files.holding import Holding, holdings
from lakewarden.quantities import show_size

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from lakewarden.engine.base.table_name import TableName
    from lakewarden.lifecycle.ground import Reader

Kind = Literal["branch", "tag", "retention", "shared"]


@dataclass(frozen=True)
class Holder:
    """Tags or branches that keep the same snapshots, or retention, which keeps the others."""

    kind: Kind
    names: tuple[str, ...]
    snapshots: frozenset[int]

    def __str__(self) -> str:
        if self.kind == "retention":
            return "older versions, by retention"
        return f"{self.kind} {self.names[0]}" if len(self.names) == 1 else " and ".join(self.names)


def holders_of(table: Table, going: Collection[int] = (), tags_going: Collection[str] = ()) -> list[Holder]:
    """What keeps each of a table's snapshots once some snapshots and tags are expired.

    A tag keeps its snapshot, main its head, and another branch its head and its commits that are not on main. Names
    that keep the same snapshots are one holder: dropping one of them would free nothing.
    """
    refs = {name: ref for name, ref in table.metadata.refs.items() if name not in tags_going}
    on_main = lines_of(table, [refs[MAIN].snapshot_id]) if MAIN in refs else set[int]()
    names: dict[frozenset[int], list[str]] = {}
    for name, ref in sorted(refs.items(), key=lambda item: (str(item[1].snapshot_ref_type), item[0] != MAIN, item[0])):
        is_branch = str(ref.snapshot_ref_type) == "branch"
        own = lines_of(table, [ref.snapshot_id]) - on_main if is_branch and name != MAIN else set[int]()
        names.setdefault(frozenset({ref.snapshot_id, *own}.difference(going)), []).append(name)
    found = [
        Holder("branch" if str(refs[held[0]].snapshot_ref_type) == "branch" else "tag", tuple(held), snapshots)
        for snapshots, held in names.items()
        if snapshots
    ]
    named = {snapshot for holder in found for snapshot in holder.snapshots}
    rest = frozenset({snapshot.snapshot_id for snapshot in table.metadata.snapshots} - named).difference(going)
    return [*found, Holder("retention", (), rest)] if rest else found


def held_by(
    lake: Reader, name: TableName, table: Table, going: Collection[int] = (), tags_going: Collection[str] = ()
) -> tuple[list[tuple[Holder, Holding]], Holding]:
    """What each holder alone keeps, largest first, and what several keep together."""
    holders = holders_of(table, going, tags_going)
    alone, shared = holdings(table, [holder.snapshots for holder in holders], lake.storage(name.lake).sizes)
    pairs = list(zip(holders, alone, strict=True))
    return sorted(pairs, key=lambda pair: (-pair[1].bytes, pair[0].names)), shared


def largest(lake: Reader, name: TableName, table: Table, going: Collection[int], tags_going: Collection[str]) -> str:
    """A sentence about the tag or branch, other than main, that alone keeps most after the expiry."""
    if set(table.metadata.refs) <= {MAIN}:
        return ""
    pairs, _ = held_by(lake, name, table, going, tags_going)
    for holder, held in pairs:
        if holder.kind != "retention" and MAIN not in holder.names:
            shown, keep = f"lakewarden version held {name} shows all", "keeps" if len(holder.names) == 1 else "keep"
            return f"{name}: {holder} alone {keep} {show_size(held.bytes)} of the rest; {shown}" if held.bytes else ""
    return ""
