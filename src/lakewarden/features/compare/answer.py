"""What `compare data` answers: counts, columns that differ, samples, and how it was found."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lakewarden.display import Shown, show_as_is
from lakewarden.features.compare.statistics import ColumnStatistics, Drift
from lakewarden.quantities import Bytes, SnapshotId, show_size

if TYPE_CHECKING:
    from lakewarden.engine.comparison.compare import Wanted

_LONGEST = 60
_SHOWN_COLUMNS = 20
_FEWEST = 100


@dataclass(frozen=True)
class ValueChange:
    """A value that became another one, and in how many rows."""

    before: Any
    after: Any
    rows: int


@dataclass(frozen=True)
class ColumnDifference:
    """One column: in how many changed rows it differs, and what is known of it on both sides."""

    name: str
    changed: int = 0
    changes: list[ValueChange] = field(default_factory=list)
    """The most frequent changes."""
    statistics_from: ColumnStatistics | None = None
    statistics_to: ColumnStatistics | None = None
    drift: Drift = field(default_factory=Drift)


@dataclass(frozen=True)
class DataComparison(Shown):
    """How the rows of two versions differ. A count is None only in an estimate, which then has a range for it."""

    table: str
    from_version: str
    to_version: str
    from_snapshot_id: SnapshotId
    to_snapshot_id: SnapshotId
    rows_from: int | None
    rows_to: int | None
    rows_added: int | None
    rows_removed: int | None
    rows_changed: int | None
    rows_unchanged: int | None
    key: list[str]
    ambiguous_keys: int = 0
    """Keys that occur more than once on a side of the difference: their rows stay added and removed."""
    null_keys: int = 0
    """Differing rows with a NULL in their key."""
    duplicate_keys_from: int | None = None
    duplicate_keys_to: int | None = None
    """Keys that occur more than once in a version; only with --check-keys."""
    columns: list[ColumnDifference] = field(default_factory=list)
    not_compared: dict[str, str] = field(default_factory=dict)
    """Columns that were left out, with the reason."""
    samples: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """Rows that were added, removed and changed; of changed rows the key and the columns that differ."""
    method: str = ""
    exact: bool = True
    """Whether all counts are exact."""
    statistics: str = ""
    """Which rows the statistics of columns are made of."""
    files_read: int = 0
    bytes_read: Bytes = 0
    other: str | None = None
    file: str | None = None
    """Where the differing rows, or the report, were written."""
    ranges: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Of an estimate: the least and the most that a count can be."""
    failed: list[str] = field(default_factory=list)
    """The rules of `--fail-if` that are true."""

    @property
    def is_same(self) -> bool:
        return self.exact and not (self.rows_added or self.rows_removed or self.rows_changed)

    def __rich__(self) -> str:
        return "\n".join([*_verdict(self), *_columns(self), *_samples(self), *_notes(self)])


def compared_versions(wanted: Wanted) -> dict[str, Any]:
    """The fields of an answer that name what was compared."""
    return {
        "table": str(wanted.before.name),
        "other": None if wanted.is_one_table else str(wanted.after.name),
        "from_version": wanted.before.reference.ref or "main",
        "to_version": wanted.after.reference.ref or "main",
        "from_snapshot_id": wanted.before.snapshot.snapshot_id,
        "to_snapshot_id": wanted.after.snapshot.snapshot_id,
    }


def _verdict(answer: DataComparison) -> list[str]:
    versions = f"{answer.table}: {answer.from_version} → {answer.to_version}"
    lines = [f"FAILED: {rule}" for rule in answer.failed]
    lines.append(versions + (f" of {answer.other}" if answer.other else ""))
    if answer.is_same:
        return [*lines, f"No row differs: {answer.rows_to:,} rows on both sides."]
    counts = [(name, _count(answer, f"rows_{name}")) for name in ("added", "removed", "changed", "unchanged")]
    lines.append(", ".join(f"{count} {name}" for name, count in counts) + ("" if answer.exact else " (estimate)"))
    return [*lines, f"{_count(answer, 'rows_from')} rows before, {_count(answer, 'rows_to')} after"]


def _count(answer: DataComparison, name: str) -> str:
    value = getattr(answer, name)
    if value is not None:
        return f"{value:,}"
    least, most = answer.ranges[name]
    return f"{least:,} to {most:,}"


def _columns(answer: DataComparison) -> list[str]:
    lines: list[str] = []
    changed = sorted((one for one in answer.columns if one.changed), key=lambda one: -one.changed)
    for column in changed[:_SHOWN_COLUMNS]:
        most = column.changes[0] if column.changes else None
        example = f", most often {_short(most.before)} → {_short(most.after)} ({most.rows:,})" if most else ""
        lines.append(f"  {column.name}: {column.changed:,} rows changed{example}")
    if changed[_SHOWN_COLUMNS:]:
        lines.append(f"  and {len(changed) - _SHOWN_COLUMNS} more columns; --json has all of them")
    drifted = [one for one in answer.columns if (one.drift.psi or 0) >= 0.1 and _are_many(one)]
    for column in sorted(drifted, key=lambda one: -(one.drift.psi or 0))[:_SHOWN_COLUMNS]:
        ks = "" if column.drift.ks is None else f", KS {column.drift.ks:.3f}"
        lines.append(f"  {column.name}: its values drifted, PSI {column.drift.psi:.3f}{ks}")
    for column in answer.columns:
        before, after = column.statistics_from, column.statistics_to
        if before and after and _are_many(column):
            share = [one.nulls / one.rows for one in (before, after)]
            if abs(share[0] - share[1]) >= 0.01:
                lines.append(f"  {column.name}: NULL in {share[0]:.1%} before, in {share[1]:.1%} after")
    return lines


def _are_many(column: ColumnDifference) -> bool:
    """Whether both sides have enough rows for their distributions to mean something."""
    sides = (column.statistics_from, column.statistics_to)
    return all(side is not None and side.rows >= _FEWEST for side in sides)


def _samples(answer: DataComparison) -> list[str]:
    lines: list[str] = []
    for kind, rows in answer.samples.items():
        if rows:
            lines.append(f"{kind}:")
        for row in rows:
            if kind == "changed":
                key = ", ".join(f"{name} {_short(value)}" for name, value in row["key"].items())
                changes = (f"{n}: {_short(c['from'])} → {_short(c['to'])}" for n, c in row["changes"].items())
                lines.append(f"  {key}; {', '.join(changes)}")
            else:
                lines.append("  " + ", ".join(f"{name} {_short(value)}" for name, value in row.items()))
    return lines


def _notes(answer: DataComparison) -> list[str]:
    lines = []
    if not answer.key and (answer.rows_added or answer.rows_removed):
        lines.append("note: without a key, a changed row is one removed and one added; name one with --key")
    if answer.ambiguous_keys:
        lines.append(f"note: {answer.ambiguous_keys:,} keys occur more than once; their rows are not matched")
    if answer.null_keys:
        lines.append(f"note: {answer.null_keys:,} differing rows have a NULL in their key and are not matched")
    if answer.duplicate_keys_from is not None:
        many = (answer.duplicate_keys_from, answer.duplicate_keys_to or 0)
        lines.append(
            f"keys: {many[0]:,} occur more than once before, {many[1]:,} after"
            if any(many)
            else "keys: unique in both versions"
        )
    lines += [f"not compared: {name}, {reason}" for name, reason in answer.not_compared.items()]
    lines.append(f"{answer.method}; {show_size(answer.bytes_read)} read")
    lines += [f"statistics: {answer.statistics}"] if answer.statistics else []
    return [*lines, *([f"written to {answer.file}"] if answer.file else [])]


def _short(value: Any) -> str:
    text = show_as_is(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
