"""How long versions are kept, and what becomes of each one under that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from lakewarden.engine.snapshots import ancestors, lines_of
from lakewarden.features.table.declared import Declared, declarations, production, resolve, whole_number
from lakewarden.quantities import from_millis, show_duration, to_millis

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.refs import SnapshotRef
    from pyiceberg.table.snapshots import Snapshot

    from lakewarden.config import Settings
    from lakewarden.engine.reference import TableName

_DAY_MS = 86_400_000


@dataclass(frozen=True)
class RetentionPolicy:
    """What keeps a version: that it is among the newest, that it is young, that it has a name."""

    keep_last: int = 30
    keep_days: int = 90
    keep_tagged: bool = True
    production_keep_days: int = 730
    production: bool = False

    @property
    def days(self) -> int:
        return self.production_keep_days if self.production else self.keep_days


@dataclass(frozen=True)
class Decision:
    """Whether a version is kept, and every reason that keeps it."""

    snapshot_id: int
    committed_at: datetime
    reasons: tuple[str, ...]

    @property
    def kept(self) -> bool:
        return bool(self.reasons)


@dataclass(frozen=True)
class Decisions:
    """What becomes of each version of a table, newest first, and of tags whose time is over."""

    versions: tuple[Decision, ...]
    tags_going: tuple[str, ...] = ()
    tags_over: tuple[str, ...] = ()
    """Tags whose keep period has ended, and that keep their version all the same, since nobody said otherwise."""

    @property
    def expired(self) -> tuple[int, ...]:
        return tuple(version.snapshot_id for version in self.versions if not version.kept)


def declared_policy(
    settings: Settings, name: TableName, properties: Mapping[str, str], options: Mapping[str, Any]
) -> list[Declared]:
    """Each value of the policy that holds for a table, with its source. What an option says always wins."""
    own = {
        "keep_last": whole_number(properties, "history.expire.min-snapshots-to-keep"),
        "keep_days": whole_number(properties, "history.expire.max-snapshot-age-ms", _DAY_MS),
    }
    sources = declarations(settings, name, "retention", options, own)
    values = resolve(["keep_last", "keep_days", "keep_tagged", "production_keep_days"], sources)
    by_option = options.get("keep_days") is not None  # said for this very run: it holds for production too
    return [*values, Declared("production", False, "option") if by_option else production(settings, name)]


def policy_of(declared: list[Declared]) -> RetentionPolicy:
    return RetentionPolicy(**{value.name: value.value for value in declared})


@dataclass
class _Reasons:
    """Why snapshots are kept, in the order the reasons were found."""

    found: dict[int, dict[str, None]] = field(default_factory=dict)

    def add(self, snapshot: int, reason: str) -> None:
        self.found.setdefault(snapshot, {})[reason] = None

    def of(self, snapshot: int) -> tuple[str, ...]:
        return tuple(self.found.get(snapshot, ()))


def decide(
    table: Table, policy: RetentionPolicy, now: datetime, in_use: Mapping[int, str], expire_tags: bool = False
) -> Decisions:
    """What becomes of each version: kept with every reason, or expired where there is none."""
    metadata, reasons = table.metadata, _Reasons()
    times = {snapshot.snapshot_id: snapshot.timestamp_ms for snapshot in metadata.snapshots}
    tags = {n: ref for n, ref in sorted(metadata.refs.items()) if str(ref.snapshot_ref_type) == "tag"}
    over = [name for name, ref in tags.items() if _is_over(ref, times, now)]
    going = set(over) if expire_tags else set()
    if metadata.current_snapshot_id is not None:
        reasons.add(metadata.current_snapshot_id, "current")
    _keep_branches(reasons, table, policy, now)
    for name, ref in tags.items():
        if policy.keep_tagged and name not in going:
            reasons.add(ref.snapshot_id, f"tagged ({name})")
    for snapshot, operation in in_use.items():
        reasons.add(snapshot, f"leased by {operation}")
    going |= {name for name, ref in tags.items() if not reasons.of(ref.snapshot_id)}  # they go with what they name
    newest_first = sorted(metadata.snapshots, key=lambda s: (s.timestamp_ms, s.sequence_number or 0), reverse=True)
    versions = tuple(
        Decision(s.snapshot_id, from_millis(s.timestamp_ms), reasons.of(s.snapshot_id)) for s in newest_first
    )
    return Decisions(versions, tuple(sorted(going)), tuple(name for name in over if name not in going))


def _keep_branches(reasons: _Reasons, table: Table, policy: RetentionPolicy, now: datetime) -> None:
    """Branches keep their own history; what is on none, as after a rollback, is kept while it is young."""
    refs = table.metadata.refs
    branches = {n: ref for n, ref in sorted(refs.items()) if str(ref.snapshot_ref_type) == "branch"}
    for name, ref in branches.items():
        _keep_branch(reasons, table, name, ref, policy, now)
    lines = lines_of(table, (ref.snapshot_id for ref in branches.values()))
    for snapshot in table.metadata.snapshots:
        if snapshot.snapshot_id not in lines and _is_young(snapshot.timestamp_ms, policy.days * _DAY_MS, now):
            reasons.add(snapshot.snapshot_id, f"within retention ({policy.days} days)")


def _keep_branch(
    reasons: _Reasons, table: Table, name: str, ref: SnapshotRef, policy: RetentionPolicy, now: datetime
) -> None:
    """A branch keeps its head and its own history; what it says of itself comes before the policy."""
    there = {snapshot.snapshot_id: snapshot for snapshot in table.metadata.snapshots}
    last = ref.min_snapshots_to_keep or policy.keep_last
    age_ms = policy.days * _DAY_MS if ref.max_snapshot_age_ms is None else ref.max_snapshot_age_ms
    if name != "main":
        reasons.add(ref.snapshot_id, f"branch head ({name})")
    on = "" if name == "main" else f" on {name}"
    counted = 0
    for snapshot in ancestors(table, ref.snapshot_id):
        if counted < last:
            reasons.add(snapshot, f"recent (top {last}){on}")
        if _is_young(there[snapshot].timestamp_ms, age_ms, now):
            reasons.add(snapshot, f"within retention ({_period(age_ms)}){on}")
        counted += changes_content(there[snapshot])


def changes_content(snapshot: Snapshot) -> bool:
    """Whether a snapshot is a version of its own: a compaction is not, and does not push one out of the newest."""
    return snapshot.summary is None or snapshot.summary.operation.value != "replace"


def _period(milliseconds: int) -> str:
    whole, rest = divmod(milliseconds, _DAY_MS)
    return show_duration(timedelta(milliseconds=milliseconds)) if rest else f"{whole} days"


def _is_young(milliseconds: int, age_ms: int, now: datetime) -> bool:
    return to_millis(now) - milliseconds < age_ms


def _is_over(ref: SnapshotRef, times: Mapping[int, int], now: datetime) -> bool:
    """Whether a tag's keep period has ended: it is counted from its snapshot's time, as Iceberg does."""
    if ref.max_ref_age_ms is None:
        return False
    return to_millis(now) - times.get(ref.snapshot_id, to_millis(now)) > ref.max_ref_age_ms
