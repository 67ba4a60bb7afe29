"""`version held`."""

from __future__ import annotations

from dataclasses import dataclass

from lakewarden.engine.base.table_name import TableName
from lakewarden.engine.files.holding import Holding
from lakewarden.features.version.holders import Holder, Kind, held_by
from lakewarden.lifecycle.ground import Reader
from lakewarden.lifecycle.request import Question, Table
from lakewarden.quantities import Bytes


@dataclass(frozen=True)
class HeldRow:
    """What a tag or branch alone keeps, or several that keep the same versions; `metadata` is manifests and lists."""

    kind: Kind
    names: list[str]
    versions: int
    bytes: Bytes
    files: int
    data: Bytes
    deletes: Bytes
    metadata: Bytes
    statistics: Bytes
    next: str = ""


class Held(Question[list[HeldRow]]):
    """Show how many bytes each tag or branch alone keeps, largest first: why storage use is still high.

    A tag keeps its version, main its current version, and any other branch its own commits; older versions without a
    name are kept by retention. Tags and branches that keep the same versions share a row. Files that several rows keep
    are counted once, in the row `shared`. Read from metadata, without Spark; files in quarantine are not included.
    """

    nothing = "No versions yet: nothing has been written to it."

    table: Table

    def ask(self, lake: Reader) -> list[HeldRow]:
        name = lake.tables.name(self.table)
        pairs, shared = held_by(lake, name, lake.tables.load(name))
        rows = [_row(holder, held, _release(holder, name)) for holder, held in pairs]
        kept_by_several = Holder("shared", (), frozenset())
        return [*rows, *([_row(kept_by_several, shared)] if shared.files else [])]


def _release(holder: Holder, name: TableName) -> str:
    """The command that releases the bytes."""
    if holder.kind == "retention":
        return f"lakewarden retention expire {name}"
    is_one_tag = holder.kind == "tag" and len(holder.names) == 1
    return f"lakewarden version untag {name} {holder.names[0]}" if is_one_tag else ""


def _row(holder: Holder, held: Holding, release: str = "") -> HeldRow:
    kinds = held.by_kind
    return HeldRow(
        kind=holder.kind,
        names=list(holder.names),
        versions=len(holder.snapshots),
        bytes=held.bytes,
        files=held.files,
        data=kinds["data"],
        deletes=kinds["deletes"],
        metadata=kinds["manifest"] + kinds["manifest-list"],
        statistics=kinds["statistics"],
        next=release,
    )
