"""Decides which versions are kept and which expire.

Several snapshots may hold the same version: a compaction holds the rows of the snapshot it replaced. The newest of them
keeps the version. Older ones expire once they were replaced longer ago than a read may take, unless something other
than age and count keeps them: a tag, another branch, an operation.

Snapshots on no branch are kept by age. Staged ones (`wap.id`) are work that is not published yet: they are kept at
least as long as a read may take, and the plan names those that expire.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from lakewarden.engine.catalog.representations import is_rewrite, represents
from lakewarden.engine.catalog.snapshots import ancestors, lines_of, staged
from lakewarden.errors import BadValue
from lakewarden.quantities import from_millis, show_duration, to_millis

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.refs import SnapshotRef
    from pyiceberg.table.snapshots import Snapshot

    from lakewarden.config import Settings
    from lakewarden.engine.base.table_name import TableName

_DAY_MS = 86_400_000


@dataclass(frozen=True)
class _Pair:
    """Two snapshots of one version."""

    older: int
    newer: int
    is_kept: bool
    """Whether the branch keeps the version: then the newer snapshot holds it, and the older one was replaced."""


@dataclass(frozen=True)
class RetentionPolicy:
    """When a version is kept: by count, by age, or by a tag."""

    keep_last: int = 30
    keep_days: int = 90
    keep_tagged: bool = True
    production_keep_days: int = 730
    production: bool = False
    reader_grace: timedelta = timedelta(days=1)

    @property
    def days(self) -> int:
        return self.production_keep_days if self.production else self.keep_days


@dataclass(frozen=True)
class Decision:
    """Whether a snapshot is kept, and every reason for it."""

    snapshot_id: int
    committed_at: datetime
    reasons: tuple[str, ...]
    same_as: int | None = None
    """If it expires: the newer snapshot that holds the same version, if any."""
    wap_id: str | None = None
    """If it was staged and never published: the id it was staged under."""

    @property
    def kept(self) -> bool:
        return bool(self.reasons)


@dataclass(frozen=True)
class Decisions:
    """The decision on each snapshot of a table, newest first, and on tags whose keep period is over."""

    versions: tuple[Decision, ...]
    tags_going: tuple[str, ...] = ()
    tags_over: tuple[str, ...] = ()
    """Tags whose keep period is over, but that still keep their version because --expire-tags was not given."""

    @property
    def expired(self) -> tuple[int, ...]:
        return tuple(version.snapshot_id for version in self.versions if not version.kept)


def policy_of(
    settings: Settings, name: TableName, properties: Mapping[str, str], options: Mapping[str, Any]
) -> RetentionPolicy:
    """The effective policy of a table. Options take precedence."""
    values = settings.resolve(name.lake, name.within_lake, "retention", options, properties)
    # as an option it applies to production tables too, unless --production-keep-days is given
    by_option = options.get("keep_days") is not None and options.get("production_keep_days") is None
    production = not by_option and bool(settings.is_production(name.lake, name.within_lake).value)
    return RetentionPolicy(**{name: value.value for name, value in values.items()}, production=production)


def refuse_short_production(own: RetentionPolicy, keep_days: int | None, name: TableName) -> None:
    """Refuse --keep-days below what a production table keeps."""
    if keep_days is not None and own.production and keep_days < own.production_keep_days:
        raise BadValue(
            f"{name} is a production table that keeps its versions for {own.production_keep_days} days, but "
            f"--keep-days is {keep_days}",
            "Add --even-production to expire its versions too, or set the period of production tables with "
            "--production-keep-days.",
        )


@dataclass
class _Reasons:
    """Why snapshots are kept, in the order the reasons were found."""

    found: dict[int, dict[str, None]] = field(default_factory=dict)

    def add(self, snapshot: int, reason: str) -> None:
        self.found.setdefault(snapshot, {})[reason] = None

    def of(self, snapshot: int) -> tuple[str, ...]:
        return tuple(self.found.get(snapshot, ()))


def decide(
    table: Table,
    policy: RetentionPolicy,
    now: datetime,
    in_use: Mapping[int, str],
    expire_tags: bool = False,
    is_log_ours: bool = True,
) -> Decisions:
    """Decide on each snapshot: kept, with every reason, or expired if there is none.

    `is_log_ours` says whether Lakewarden writes the snapshot log. A catalog or Spark that writes it clears all entries
    before an expired snapshot.
    """
    metadata, reasons = table.metadata, _Reasons()
    times = {snapshot.snapshot_id: snapshot.timestamp_ms for snapshot in metadata.snapshots}
    tags = {n: ref for n, ref in sorted(metadata.refs.items()) if str(ref.snapshot_ref_type) == "tag"}
    over = [name for name, ref in tags.items() if _is_over(ref, times, now)]
    going = set(over) if expire_tags else set()
    if metadata.current_snapshot_id is not None:
        reasons.add(metadata.current_snapshot_id, "current")
    named = {ref.snapshot_id for name, ref in metadata.refs.items() if name not in going}
    pairs = _keep_branches(reasons, table, policy, now, named)
    for name, ref in tags.items():
        if policy.keep_tagged and name not in going:
            reasons.add(ref.snapshot_id, f"tagged ({name})")
    for snapshot, operation in in_use.items():
        reasons.add(snapshot, f"leased by {operation}")
    if not is_log_ours:
        _keep_log(
            reasons, [entry.snapshot_id for entry in metadata.snapshot_log], {p.older for p in pairs if p.is_kept}
        )
    _keep_between(reasons, pairs)
    going |= {name for name, ref in tags.items() if not reasons.of(ref.snapshot_id)}  # they expire with their snapshot
    newest_first = sorted(metadata.snapshots, key=lambda s: (s.timestamp_ms, s.sequence_number or 0), reverse=True)
    replaced = {pair.older: pair.newer for pair in pairs if pair.is_kept and not reasons.of(pair.older)}
    unpublished = staged(table)
    versions = tuple(
        Decision(
            s.snapshot_id, from_millis(s.timestamp_ms), reasons.of(s.snapshot_id), replaced.get(id), unpublished.get(id)
        )
        for id, s in ((s.snapshot_id, s) for s in newest_first)
    )
    return Decisions(versions, tuple(sorted(going)), tuple(name for name in over if name not in going))


def _keep_branches(
    reasons: _Reasons, table: Table, policy: RetentionPolicy, now: datetime, named: Collection[int]
) -> list[_Pair]:
    """Branches keep their own history; snapshots on no branch, such as after a rollback, are kept by age."""
    refs, pairs = table.metadata.refs, list[_Pair]()
    branches = {n: ref for n, ref in sorted(refs.items()) if str(ref.snapshot_ref_type) == "branch"}
    for name, ref in branches.items():
        pairs += _keep_branch(reasons, table, name, ref, policy, now, named)
    lines = lines_of(table, (ref.snapshot_id for ref in branches.values()))
    unpublished, grace_ms = staged(table), _millis(policy.reader_grace)
    for snapshot in table.metadata.snapshots:
        id, committed = snapshot.snapshot_id, snapshot.timestamp_ms
        if id not in lines and _is_young(committed, policy.days * _DAY_MS, now):
            reasons.add(id, f"within retention ({policy.days} days)")
        if id in unpublished and _is_young(committed, max(policy.days * _DAY_MS, grace_ms), now):
            reasons.add(id, staged_as(unpublished[id]))
    return pairs


def staged_as(wap_id: str) -> str:
    return f"staged, not published (wap.id {wap_id})"


def _keep_branch(
    reasons: _Reasons,
    table: Table,
    name: str,
    ref: SnapshotRef,
    policy: RetentionPolicy,
    now: datetime,
    named: Collection[int],
) -> list[_Pair]:
    """Keep a branch's head and history. The branch's own settings take precedence over the policy.

    Returns the pairs of snapshots that hold the same version, oldest first.
    """
    there = {snapshot.snapshot_id: snapshot for snapshot in table.metadata.snapshots}
    last = ref.min_snapshots_to_keep or policy.keep_last
    age_ms = policy.days * _DAY_MS if ref.max_snapshot_age_ms is None else ref.max_snapshot_age_ms
    grace_ms = _millis(policy.reader_grace)
    if name != "main":
        reasons.add(ref.snapshot_id, f"branch head ({name})")
    on = "" if name == "main" else f" on {name}"
    counted, newer, pairs = 0, None, list[_Pair]()
    for id in ancestors(table, ref.snapshot_id):
        snapshot = there[id]
        counted += newer is not None and not _is_same_version(newer, snapshot)
        why = [f"recent (top {last}){on}"] if counted < last else []
        if _is_young(snapshot.timestamp_ms, age_ms, now):
            why.append(f"within retention ({_period(age_ms)}){on}")
        if newer is not None and represents(newer, snapshot):
            pairs.append(_Pair(id, newer.snapshot_id, bool(why)))
            if why and id not in named:
                in_grace = _is_young(newer.timestamp_ms, grace_ms, now)
                why = [f"replaced less than {show_duration(policy.reader_grace)} ago{on}"] if in_grace else []
        for reason in why:
            reasons.add(id, reason)
        newer = snapshot
    return pairs[::-1]


def _is_same_version(newer: Snapshot, older: Snapshot) -> bool:
    """Whether a snapshot has the rows of its nearest remaining ancestor, maybe with another schema.

    If its parent has expired and the schema changed, nobody knows: then rather one version too many is kept.
    """
    is_child = newer.parent_snapshot_id == older.snapshot_id
    return is_rewrite(newer) and (is_child or newer.schema_id != older.schema_id)


def _keep_log(reasons: _Reasons, log: Sequence[int], replaced: Collection[int]) -> None:
    """If a gap would clear main's log, a replaced snapshot does not expire while an older one is kept."""
    oldest = next((place for place, snapshot in enumerate(log) if reasons.of(snapshot)), len(log))
    for snapshot in log[oldest:]:
        if snapshot in replaced and not reasons.of(snapshot):
            reasons.add(snapshot, "time travel: the catalog would lose the times of older versions")


def _keep_between(reasons: _Reasons, pairs: Sequence[_Pair]) -> None:
    """Keep what lies between two kept snapshots of a version: otherwise the two would count as two versions."""
    held: set[int] = set()  # snapshots whose version is also held by a newer one that is kept
    for pair in reversed(pairs):
        if reasons.of(pair.newer) or pair.newer in held:
            held.add(pair.older)
    for pair in pairs:
        if reasons.of(pair.older) and not reasons.of(pair.newer) and pair.newer in held:
            reasons.add(pair.newer, "between two kept snapshots of its version")


def _period(milliseconds: int) -> str:
    whole, rest = divmod(milliseconds, _DAY_MS)
    return show_duration(timedelta(milliseconds=milliseconds)) if rest else f"{whole} days"


def _millis(duration: timedelta) -> int:
    return duration // timedelta(milliseconds=1)


def _is_young(milliseconds: int, age_ms: int, now: datetime) -> bool:
    return to_millis(now) - milliseconds < age_ms


def _is_over(ref: SnapshotRef, times: Mapping[int, int], now: datetime) -> bool:
    """Whether a tag's keep period is over, counted from its snapshot's time as Iceberg does."""
    if ref.max_ref_age_ms is None:
        return False
    return to_millis(now) - times.get(ref.snapshot_id, to_millis(now)) > ref.max_ref_age_ms
