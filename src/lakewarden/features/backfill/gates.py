"""Gates: what must hold for the rows on a backfill's branch before they are published to main."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from lakewarden.engine.spark.time_limit import within
from lakewarden.engine.sql import row_checks
from lakewarden.engine.sql.sorted_column import Range
from lakewarden.errors import BadValue, VerificationFailed, did_you_mean
from lakewarden.features.backfill.position import branch_of, stamps_on
from lakewarden.quantities import counted

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyspark.sql import DataFrame

    from lakewarden.engine.catalog.tables import Resolved
    from lakewarden.engine.sql.batches import Reading
    from lakewarden.features.backfill.position import Found
    from lakewarden.features.backfill.registration import Backfill
    from lakewarden.lifecycle.ground import Writer

T = TypeVar("T")


class GateFailed(VerificationFailed):
    code = "gate-failed"


def check_columns(backfill: Backfill, table: Table) -> None:
    """Refuse gates on columns that the target does not have."""
    gates, known = backfill.files.meta.gates, list(table.schema().column_names)
    wanted = {"unique_keys": gates.unique_keys, "sample_ignores": gates.sample_ignores}
    for key, columns in {**wanted, "max_null_ratio": list(gates.max_null_ratio)}.items():
        for name in columns:
            if name.lower() not in {each.lower() for each in known}:
                hint = did_you_mean(name, known, f"It has {', '.join(known)}.")
                raise BadValue(f"{backfill.files.meta_path}: gates.{key}: the target has no column {name}", hint)


def names(backfill: Backfill) -> list[str]:
    """The gates that a backfill must pass."""
    gates = backfill.files.meta.gates
    wanted = {
        "row_parity": gates.row_parity,
        "max_null_ratio": gates.max_null_ratio,
        "unique_keys": gates.unique_keys,
        "sample_batches": sampled_batches(backfill),
    }
    return [name for name, value in wanted.items() if value]


def sampled_batches(backfill: Backfill) -> int:
    given = backfill.files.meta.gates.sample_batches
    return given if given is not None else int(backfill.insertion.is_repeatable)


@dataclass(frozen=True)
class _Unit:
    """What one commit on the branch added, or several: the rows of a range."""

    range: Range
    before: int | None
    """The last commit before it; None if it is the first one that has not expired."""
    after: int


class Check:
    """Runs the gates of one backfill."""

    def __init__(self, lake: Writer, backfill: Backfill, table: Table, reading: Reading) -> None:
        self._lake, self._backfill, self._table, self._reading = lake, backfill, table, reading
        self._gates = backfill.files.meta.gates
        self._name = backfill.target(lake)
        stamps = list(stamps_on(table, branch_of(backfill.id), backfill.id))[::-1]
        self._units = _units(stamps, reading)
        self._has_gap = stamps[0].position.batch > 1
        self._by_range = bool(reading.insertion.why_range_by_range())

    def run(self, rows: int) -> None:
        """Raise if a gate does not hold for the branch, which has so many rows by its metadata."""
        checks = {
            "row_parity": lambda: self._compare_counts(rows),
            "max_null_ratio": self._look_for_nulls,
            "unique_keys": self._look_for_duplicates,
            "sample_batches": self._compare_samples,
        }
        for name in names(self._backfill):
            checks[name]()

    def _compare_counts(self, found: int) -> None:
        if self._by_range and self._has_gap:
            raise self._failed("row_parity", "its batches are not known any more, because their commits have expired")
        expected = sum(self._given("row_parity", each, lambda rows: rows.count()) for each in self._queries())
        if expected != found:
            raise self._failed("row_parity", f"the SQL gives {counted(expected, 'row')}, the branch has {found:,}")

    def _queries(self) -> list[Range]:
        """The ranges of the branch, each for a query of its own; all are one if that gives the same rows."""
        ranges = [unit.range for unit in self._units]
        if self._by_range:
            return ranges
        return [Range(ranges[0].lower, ranges[-1].upper, sum(each.rows for each in ranges))]

    def _look_for_nulls(self) -> None:
        allowed = self._gates.max_null_ratio
        with self._watched("max_null_ratio") as rows:
            found = row_checks.null_ratios(rows, list(allowed))
        over = [
            f"{found[name]:.2%} of {name} are NULL, {most:.2%} are allowed"
            for name, most in allowed.items()
            if found[name] > most
        ]
        if over:
            raise self._failed("max_null_ratio", "; ".join(over))

    def _look_for_duplicates(self) -> None:
        keys = self._gates.unique_keys
        with self._watched("unique_keys") as rows:
            is_empty = self._table.current_snapshot() is None
            main = None if is_empty else self._lake.rows.dataframe(self._lake.tables.resolve(str(self._name)))
            twice, there = row_checks.duplicated(rows, main, keys)
        if twice or there:
            of = f"keys ({', '.join(keys)})"
            raise self._failed("unique_keys", f"{twice:,} {of} occur more than once, {there:,} are on main already")

    def _compare_samples(self) -> None:
        units = [unit for unit in self._units if unit.range.rows]
        chosen = random.Random(self._backfill.id).sample(units, min(sampled_batches(self._backfill), len(units)))
        for unit in chosen:
            self._compare(unit)

    def _compare(self, unit: _Unit) -> None:
        found, ignored = self._rows_of(unit), self._gates.sample_ignores
        missing, others = self._given(
            "sample_batches", unit.range, lambda given: row_checks.differing(given, found, ignored)
        )
        if missing or others:
            upto = self._reading.columns.dump(unit.range.upper or ())
            figures = f"{missing:,} rows that the SQL gives are missing, and {others:,} others are there"
            raise self._failed("sample_batches", f"in the batch up to {upto}, {figures}")

    def _rows_of(self, unit: _Unit) -> DataFrame:
        after = self._version(unit.after)
        if unit.before is None:
            return self._lake.rows.dataframe(after, raw=True)
        return self._lake.batches.added(self._version(unit.before), after)

    def _version(self, ref: int | str) -> Resolved:
        return self._lake.tables.resolve(f"{self._name}@{ref}")

    def _given(self, gate: str, one: Range, look: Callable[[DataFrame], T]) -> T:
        """What is found in the rows that the SQL gives for a range, as the target's columns."""
        target = (self._name.lake, *self._name.identifier)
        with self._watched(gate) as branch, self._lake.batches.rows_of(self._reading, [one], target) as rows:
            return look(rows(branch.sparkSession))

    @contextmanager
    def _watched(self, gate: str) -> Iterator[DataFrame]:
        """The rows of the branch; statements of the body end after the backfill's timeout, or if it is to stop."""
        frame = self._lake.rows.dataframe(self._version(branch_of(self._backfill.id)))
        says = f"gate {gate} of backfill {self._backfill.id}"
        timeout = self._backfill.files.meta.timeout_seconds
        with within(frame.sparkSession, timeout, lambda: self._lake.progress(0, 1, says)):
            yield frame

    def _failed(self, gate: str, figures: str) -> GateFailed:
        branch = f"{self._name}@{branch_of(self._backfill.id)}"
        return GateFailed(
            f"backfill {self._backfill.id}: gate {gate} failed: {figures}",
            f"Nothing was published. Its rows stay on the branch: lakewarden version read {branch}. "
            "Change the gate and resume, or undo the backfill and run it again.",
        )


def _units(stamps: Sequence[Found], reading: Reading) -> list[_Unit]:
    """The commits of a branch, the first one first.

    Expired ones are part of the first one left: the branch had no rows before. One whose checkpoint was erased is part
    of the next.
    """
    units: list[_Unit] = []
    before, lower, rows = None, None, 0
    for found in stamps:
        at = found.position
        if at.checkpoint or found is stamps[-1]:
            upper = reading.columns.load(at.checkpoint) if at.checkpoint else None
            units.append(_Unit(Range(lower, upper, at.rows - rows), before, found.snapshot))
            before, lower, rows = found.snapshot, upper, at.rows
    return units
