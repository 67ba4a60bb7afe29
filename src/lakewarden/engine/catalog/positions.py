"""Which stamp of a backfill main has: the newest one in its line, however much of that line has expired.

Every commit of a backfill has a stamp in its snapshot's summary, and the newest one is a table property too, which no
expiry takes. That alone does not say whether main still descends from it: once others roll main back, append and
expire, what is left of main looks as if they had not rolled it back. So the property also names anchors: snapshots that
are known to have the stamp in their line. Each commit of Lakewarden on main moves them. If others have expired the
anchors as well, metadata files of the log close one gap after another. If these are gone too, files that the stamped
commit added and main still has are a proof; without any, it is not known, and nobody may guess.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lakewarden.engine.catalog.snapshot_removal import BACKFILL, SEQUENCE, stamp_property, without_revealing
from lakewarden.engine.catalog.snapshots import ancestors, notes_of, operation_of

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.table.update import TableUpdate

_SKEW_MS = 60_000  # as much as Iceberg tolerates between the clocks of writers


@dataclass(frozen=True)
class Stamped:
    """A stamp, and the commit that it is of."""

    stamp: str
    snapshot: int
    sequence: int | None
    at: int
    """In milliseconds."""

    @staticmethod
    def of(snapshot: Snapshot, stamp: str) -> Stamped:
        return Stamped(stamp, snapshot.snapshot_id, snapshot.sequence_number, snapshot.timestamp_ms)


@dataclass(frozen=True)
class Kept:
    """The newest stamp, as a table property."""

    last: Stamped
    anchors: tuple[int, ...] = ()
    """The oldest and the newest snapshot that are known to have it in their line."""
    first: tuple[int | None, int] | None = None
    """The sequence number and the time of the backfill's first commit: no stamp is older."""
    is_lost: bool = False
    """The anchors are known to have no stamp in their line: main was rolled back behind all of them."""
    unknown: int | None = None
    """A snapshot of which it cannot be known any more: nobody need read the same files again at each commit."""
    has_later: bool = False
    """Main was rolled back behind a later stamp: files of this one do not show that main is still without that."""

    @staticmethod
    def of(table: Table, key: str) -> Kept | None:
        """None if there is none, or if others have damaged it."""
        try:
            known = json.loads(table.metadata.properties.get(key, "{}"))
            first = known.get("first")
            last = Stamped(_compact(known["position"]), known["snapshot"], known["sequence"], known["at"])
            anchors, lost = tuple(known.get("anchors", ())), known.get("lost", False)
            later = known.get("later", False)
            return Kept(last, anchors, tuple(first or ()) or None, lost, known.get("unknown"), later)
        except (ValueError, KeyError, TypeError, AttributeError):
            return None

    @property
    def text(self) -> str:
        whose = {"snapshot": self.last.snapshot, "sequence": self.last.sequence, "at": self.last.at}
        more = {"anchors": self.anchors, "first": self.first, "lost": self.is_lost, "unknown": self.unknown}
        more["later"] = self.has_later
        return _compact({"position": json.loads(self.last.stamp), **whose, **{k: v for k, v in more.items() if v}})

    @property
    def proves(self) -> set[int]:
        """The snapshots from which it is known what is behind them."""
        return {self.last.snapshot, *self.anchors}

    def standing(self, at: int) -> Standing:
        """What is known at one of these snapshots."""
        return Standing(None if self.is_lost and at != self.last.snapshot else self.last)


@dataclass(frozen=True)
class Standing:
    """The newest stamp in the line of main; None if there is none, or if that is not known."""

    last: Stamped | None
    is_known: bool = True
    is_final: bool = True
    """Whether what would tell it is gone, and not only out of reach at the moment."""


def standing(table: Table, key: str) -> Standing:
    """Which stamp main has, by everything that tells it; older metadata is read only where main's line has a gap."""
    kept = Kept.of(table, key)
    if kept is None:  # no commit of this backfill, unless it is older than these properties, or its own is damaged
        found = _by_lineage(table, key)
        return replace(found, is_known=found.last is not None or key not in table.metadata.properties)
    past = _Past(table)
    later: Snapshot | None = None
    at = table.metadata.current_snapshot_id
    while at is not None:
        if at in kept.proves:
            return kept.standing(at)
        if at == kept.unknown:
            return Standing(None, is_known=False)
        snapshot = past.known.get(at)
        if snapshot is None:
            proof = _proof(table, kept, later) or _older(later, kept)
            snapshot = past.parent(at, later) if proof is None else None
            if snapshot is None:
                return proof or _by_files(table, kept, past.is_complete)
        if stamp := notes_of(snapshot).get(key):
            return Standing(Stamped.of(snapshot, stamp))
        later, at = snapshot, snapshot.parent_snapshot_id
        if at is None:  # it may have had a parent: PyIceberg's expiry takes that away
            proof = _proof(table, kept, snapshot) or _older(snapshot, kept)
            later = past.as_committed(snapshot) if proof is None else None
            if later is None:
                return proof or _by_files(table, kept, past.is_complete)
            at = later.parent_snapshot_id
    return Standing(None)


def _older(snapshot: Snapshot | None, kept: Kept) -> Standing | None:
    """That there is no stamp behind a snapshot whose parent is gone, if it is older than all of them."""
    is_older = snapshot is not None and kept.first is not None and _is_before(snapshot, kept.first)
    return Standing(None) if is_older else None


def stamp_properties(table: Table, snapshot: Snapshot, facts: Mapping[str, str]) -> dict[str, str]:
    """The properties of stamps for a new commit on main: its own, and those of others, which it is an anchor of."""
    own: dict[str, str] = {}
    for key in (key for key in facts if key.startswith(BACKFILL)):
        own[key] = Kept(Stamped.of(snapshot, facts[key]), (), _first(table, key, snapshot)).text
    archived = {key: stamp_property(snapshot, text) for key, text in facts.items() if key.startswith(SEQUENCE)}
    others = _keys(table, also_stamped=False) - own.keys()
    return {**_moved(table, others, snapshot.snapshot_id, (), {}), **own, **archived}


def _first(table: Table, key: str, snapshot: Snapshot) -> tuple[int | None, int] | None:
    """The first commit of a backfill, given a new one; None if it is older than properties of stamps."""
    if kept := Kept.of(table, key):
        return kept.first
    has_older = any(key in notes_of(one) for one in table.metadata.snapshots)
    return None if has_older else (snapshot.sequence_number, snapshot.timestamp_ms)


def position_updates(
    table: Table,
    going: Collection[int],
    replaced: Mapping[int, int] | None = None,
    reveals: Callable[[str], bool] | None = None,
) -> tuple[TableUpdate, ...]:
    """What keeps the positions of backfills if snapshots expire; `replaced` maps some to their replacements.

    Stamps forget what `reveals` accepts.
    """
    from pyiceberg.table.update import SetPropertiesUpdate

    head, new = table.metadata.current_snapshot_id, replaced or {}
    keys = _keys(table, also_stamped=bool(going))
    kept = _moved(table, keys, new.get(head, head) if head else None, set(going), new)
    known = {key: text for key, text in table.metadata.properties.items() if key.startswith(BACKFILL)}
    stamps = {**known, **kept}
    if reveals is not None:
        stamps = {key: without_revealing(text, reveals) for key, text in stamps.items()}
    changed = {key: text for key, text in stamps.items() if text != known.get(key)}
    return (SetPropertiesUpdate(updates=changed),) if changed else ()


def _moved(
    table: Table, keys: Collection[str], head: int | None, going: Collection[int], replaced: Mapping[int, int]
) -> dict[str, str]:
    """The properties of stamps for a commit after which main is at `head`, with the line that it has."""
    moved, gone = {}, set(going) - replaced.keys()
    for key in keys:
        kept, found = Kept.of(table, key), standing(table, key)
        if found.is_known and found.last is None and kept is not None:
            kept = replace(kept, anchors=(head,) if head else (), is_lost=True)
        elif found.is_known and found.last is not None:
            line = [id for id in _since(table, found.last, kept) if id not in gone]
            anchors = dict.fromkeys(replaced.get(id, id) for id in (*line[-1:], *([head] if head else [])))
            first = kept.first if kept else None
            is_behind = kept is not None and kept.last.at > found.last.at and kept.last.stamp != found.last.stamp
            has_later = is_behind or (kept is not None and kept.has_later)
            kept = Kept(found.last, tuple(anchors), first, has_later=has_later)
        elif kept is not None and not found.is_known and found.is_final:
            kept = replace(kept, unknown=head)
        if kept is not None:
            moved[key] = kept.text
    return moved


def _keys(table: Table, also_stamped: bool) -> set[str]:
    """The keys of the backfills that main may have a stamp of; without a property only if it is older than these."""
    keys = set(table.metadata.properties)
    if also_stamped:
        by_id = {snapshot.snapshot_id: snapshot for snapshot in table.metadata.snapshots}
        keys.update(*(notes_of(by_id[id]) for id in ancestors(table, table.metadata.current_snapshot_id)))
    return {key for key in keys if key.startswith(BACKFILL)}


def _since(table: Table, last: Stamped, kept: Kept | None) -> list[int]:
    """The snapshots of main, newest first, that are known to have a stamp in their line, without its own."""
    anchors = set(kept.anchors) if kept is not None and kept.last.snapshot == last.snapshot else set()
    line = list(ancestors(table, table.metadata.current_snapshot_id))
    if last.snapshot in line:
        return line[: line.index(last.snapshot)]
    oldest = max((place for place, id in enumerate(line) if id in anchors), default=-1)
    return line[: oldest + 1]


def _proof(table: Table, kept: Kept, snapshot: Snapshot | None) -> Standing | None:
    """What an anchor says that is behind a snapshot, across gaps that Lakewarden's own expiry has left."""
    line = ancestors(table, snapshot.snapshot_id) if snapshot is not None else iter(())
    anchor = next((id for id in line if id in kept.proves), None)
    return None if anchor is None else kept.standing(anchor)


def _by_lineage(table: Table, key: str) -> Standing:
    """A stamp that is in no property, because it was written before there were any."""
    by_id = {snapshot.snapshot_id: snapshot for snapshot in table.metadata.snapshots}
    line = ancestors(table, table.metadata.current_snapshot_id)
    stamped = next((by_id[id] for id in line if key in notes_of(by_id[id])), None)
    return Standing(Stamped.of(stamped, notes_of(stamped)[key]) if stamped else None)


def _by_files(table: Table, kept: Kept, is_final: bool) -> Standing:
    """Whether main still has a file that the stamped commit added: then main descends from it.

    That does not say whether it has a later stamp too, where there was one.
    """
    head = table.current_snapshot()
    for manifest in head.manifests(table.io) if head and not (kept.is_lost or kept.has_later) else ():
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
            if entry.snapshot_id == kept.last.snapshot:
                return Standing(kept.last)
    return Standing(None, is_known=False, is_final=is_final)


def _is_replacement(snapshot: Snapshot) -> bool:
    """Whether a purge made it in place of another, so that it has no parent."""
    is_overwrite = snapshot.summary is not None and snapshot.summary.operation.value == "overwrite"
    return snapshot.parent_snapshot_id is None and is_overwrite and bool(operation_of(snapshot))


def _is_before(snapshot: Snapshot, first: tuple[int | None, int]) -> bool:
    """By sequence number, unless there is none, or a purge made the snapshot: that keeps the time of an earlier one.

    Times are those of the clocks of the writers, which may differ.
    """
    sequence, at = first
    if snapshot.sequence_number and sequence and not _is_replacement(snapshot):
        return bool(snapshot.sequence_number < sequence)
    return bool(snapshot.timestamp_ms < at - _SKEW_MS)


class _Past:
    """The snapshots that a table has, and those that it had."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self.known = {snapshot.snapshot_id: snapshot for snapshot in table.metadata.snapshots}
        self.is_complete = True
        """Whether all files of the log that were looked at could be read, or are gone."""

    def parent(self, parent: int, later: Snapshot | None) -> Snapshot | None:
        """The expired parent of a snapshot, from the metadata file on which that was committed, or one beside it."""
        log = self._table.metadata.metadata_log
        if later is None or not log:
            return None
        base = max((place for place, entry in enumerate(log) if entry.timestamp_ms <= later.timestamp_ms), default=0)
        for place in (base, base - 1, base + 1):
            if 0 <= place < len(log) and parent not in self.known:
                self._read(place)
        return self.known.get(parent)

    def as_committed(self, snapshot: Snapshot) -> Snapshot | None:
        """A snapshot with the parent that it was committed with; None if that is not known any more."""
        log = self._table.metadata.metadata_log
        if _is_replacement(snapshot):
            return None
        first = next((n for n, entry in enumerate(log) if entry.timestamp_ms >= snapshot.timestamp_ms), len(log))
        is_before = False
        for place in range(max(first - 1, 0), len(log)):
            there = self._read(place)
            found = there.get(snapshot.snapshot_id) if there is not None else None
            if found is not None:
                return found if is_before or found.parent_snapshot_id is not None else None
            is_before = is_before or there is not None
        return snapshot if is_before else None  # the current metadata is that of its commit

    def _read(self, place: int) -> dict[int, Snapshot] | None:
        """The snapshots in a metadata file of the log; None if it is gone."""
        try:
            metadata = _metadata(self._table, self._table.metadata.metadata_log[place].metadata_file)
        except FileNotFoundError:
            return None
        except (OSError, ValueError):  # out of reach, or damaged
            self.is_complete = False
            return None
        there = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
        self.known |= there
        return there


def _metadata(table: Table, file: str) -> TableMetadata:
    from pyiceberg.exceptions import ValidationError
    from pyiceberg.serializers import FromInputFile

    try:
        return FromInputFile.table_metadata(table.io.new_input(file))
    except ValidationError as error:
        raise ValueError(file) from error


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
