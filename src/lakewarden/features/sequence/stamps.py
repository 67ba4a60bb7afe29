"""The stamps of an archive: which partitions were copied to it, and which of these copies main still has.

A copy is one commit, whose stamp is in the summary of its snapshot and in a table property. Anybody's expiry removes
the summary, and nobody's the property. The property also stays if others roll the archive back behind the copy, so a
stamp alone proves nothing: the files of the partition on main must be those of the copy.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from lakewarden.engine.catalog.snapshot_removal import SEQUENCE
from lakewarden.engine.catalog.snapshots import notes_of
from lakewarden.errors import UnfitDatabase
from lakewarden.features.sequence.checksums import Checksums
from lakewarden.features.sequence.columns import PARTITION
from lakewarden.features.sequence.partitions import Position

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from lakewarden.engine.files.live_files import LiveFile

_MOST_REPLACED = 5


@dataclass(frozen=True)
class Copied:
    """The stamp of a partition's commit."""

    partition: str
    after: Position | None
    below: Position | None
    rows: int
    sums: dict[str, int] = field(repr=False)
    compare_by: tuple[str, ...] = ()
    """The partitioning columns, if the archive had another copy of the partition before."""
    purged: bool = False
    """Whether an erasure purge removed some of these rows; there are no `rows` if it removed all."""
    replaced: tuple[Checksums, ...] = field(default=(), repr=False)
    """The rows of all copies that this one replaced; empty if not all are known, or they are many."""

    @property
    def text(self) -> str:
        document = asdict(self)
        for name in ("compare_by", "purged", "replaced"):
            if not document[name]:
                del document[name]
        return json.dumps(document, separators=(",", ":"))

    @property
    def checksums(self) -> Checksums:
        return Checksums(self.rows, self.sums)

    def and_earlier(self, found: Checksums) -> tuple[Checksums, ...]:
        """For the copy that replaces this one: the rows of all earlier copies, and those that were found last."""
        if self.purged or (self.compare_by and not self.replaced):  # the purge removed rows of earlier copies too
            return ()
        known = [*self.replaced, self.checksums]
        if found not in known:  # others changed it
            known.append(found)
        return tuple(known) if len(known) <= _MOST_REPLACED else ()

    def is_within(self, after: Position | None, below: Position | None) -> bool:
        """Whether its rows belong between these bounds."""
        is_above = after is None or (self.after is not None and after <= self.after)
        return is_above and (below is None or (self.below is not None and self.below <= below))

    @staticmethod
    def of(stamp: dict[str, Any]) -> Copied:
        bounds = {end: None if stamp[end] is None else tuple(stamp[end]) for end in ("after", "below")}
        replaced = tuple(Checksums(**each) for each in stamp.get("replaced", ()))
        return Copied(**{**stamp, **bounds, "compare_by": tuple(stamp.get("compare_by", ())), "replaced": replaced})


@dataclass(frozen=True)
class CopyStamp:
    """A stamp, and the snapshot that published it."""

    copied: Copied
    snapshot: int
    sequence: int
    """The lowest that the data of this copy can have; 0 in format v1."""
    at: int

    def is_among(self, files: Collection[LiveFile], rows_like: Callable[[Copied], Checksums | None]) -> bool:
        """Whether main has this copy though not its snapshot; `files` are those of its partition on main.

        A copy is published and rolled back as a whole. The files of a first copy can be no others'. Older files than
        the copy may be those of an earlier one, or the recorded sequence number is that of a purge; files that others
        rewrote since may be of either. Only comparing the rows can tell; those of a copy that was purged can no longer
        be compared. Rows that others changed since are equal to no copy.
        """
        if not self.copied.compare_by or (self.sequence and all(f.sequence == self.sequence for f in files)):
            return True
        is_newer = all(file.sequence >= self.sequence for file in files)
        if self.copied.purged and is_newer:
            return True
        found, replaced = rows_like(self.copied), self.copied.replaced
        if found is None:
            return False
        is_changed = is_newer and replaced and not any(found.agrees(each) for each in replaced)
        return found.agrees(self.copied.checksums) or bool(is_changed)


def stamps_of(table: Table) -> dict[str, CopyStamp]:
    """The newest stamp of each partition of any database table, by key, wherever main is now."""
    found = dict[str, CopyStamp]()
    for key, stamped in (*_in_properties(table), *_in_summaries(table)):
        known = found.get(key)
        if known is not None and known.copied == stamped.copied:  # after a purge, its one snapshot has all stamps
            newest = max(known, stamped, key=lambda each: each.at)
            found[key] = replace(newest, sequence=min(known.sequence, stamped.sequence))
        elif known is None or stamped.at >= known.at:
            found[key] = stamped
    return found


def _in_properties(table: Table) -> Iterator[tuple[str, CopyStamp]]:
    for key, text in table.metadata.properties.items():
        if key.startswith(SEQUENCE):
            with suppress(ValueError, KeyError, TypeError, AttributeError):  # others damaged it: as if it had none
                known = json.loads(text)
                stamp = Copied.of(known["position"])
                yield key, CopyStamp(stamp, known["snapshot"], known["sequence"] or 0, known["at"])


def _in_summaries(table: Table) -> Iterator[tuple[str, CopyStamp]]:
    for snapshot in table.metadata.snapshots:
        for key, text in notes_of(snapshot).items():
            if key.startswith(SEQUENCE):
                stamp, sequence = Copied.of(json.loads(text)), snapshot.sequence_number or 0
                yield key, CopyStamp(stamp, snapshot.snapshot_id, sequence, snapshot.timestamp_ms)


def by_partition(table: Table, files: Iterable[LiveFile]) -> dict[str | None, list[LiveFile]]:
    """Data files of an archive by the database partition that their rows come from; None if they do not say which."""
    found: dict[str | None, list[LiveFile]] = {}
    for file in files:
        spec = table.specs()[file.partition[0]]
        names = [table.schema().find_column_name(each.source_id) for each in spec.fields]
        found.setdefault(file.record[0] if names == [PARTITION] else None, []).append(file)
    return found


def of_known_partitions(table: Table, files: Mapping[str | None, Sequence[LiveFile]]) -> dict[str, Sequence[LiveFile]]:
    """The same, refused if the partition of some is not known."""
    if None in files:
        raise UnfitDatabase(
            f"{'.'.join(table.name())} has rows that do not say which partition they come from",
            "Others wrote them. Find out where they come from, and remove them from the archive.",
        )
    return {name: found for name, found in files.items() if name is not None}
