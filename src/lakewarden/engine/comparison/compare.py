"""Compares the rows of two versions: chooses what is read and where it runs, and puts the reports together.

The difference is a multiset difference, so every route to it gives the same result. Files that both versions
have with the same deletes are not read, except a few for statistics.
"""

from __future__ import annotations

import math
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakewarden.engine.base.faults import translating
from lakewarden.engine.comparison import in_process, on_spark
from lakewarden.engine.comparison.columns import Matched
from lakewarden.engine.comparison.copied_rows import copy, reason_to_copy
from lakewarden.engine.comparison.differing_files import FileDifference, apart, difference
from lakewarden.engine.comparison.lineage import Lineage, lineage_of
from lakewarden.engine.comparison.row_counts import may_hold, visible_rows
from lakewarden.engine.kernel.compare_messages import SIDES, Compared, Part, Purpose, Side
from lakewarden.engine.kernel.compare_task import Report
from lakewarden.engine.kernel.messages import Drop
from lakewarden.engine.kernel.profile import sampled_below
from lakewarden.engine.kernel.row_pairs import row_schema
from lakewarden.engine.kernel.task import pack
from lakewarden.engine.rewrite.driver import access_of, raise_failures
from lakewarden.engine.rows.keys import widest
from lakewarden.errors import BrokenTable

if TYPE_CHECKING:
    import pyarrow as pa

    from lakewarden.config import Settings
    from lakewarden.engine.catalog.tables import Resolved
    from lakewarden.engine.files.live_files import Files, LiveFile, SnapshotFiles
    from lakewarden.engine.rows.read import Rows
    from lakewarden.engine.spark.session import Spark
    from lakewarden.records.erasure import HiddenKey

_MIB = 1 << 20
_PROFILED_WHOLE = 500_000  # rows: files of up to this many are all profiled
_PROFILED_FILES, _PROFILED_ROWS = 8, 1 << 14
Progress = Callable[[int, int], None]
State = tuple["LiveFile | None", "LiveFile | None"]
"""A file as each side has it."""
TakeRows = Callable[[Any], None] | None


@dataclass(frozen=True)
class Wanted:
    """What is to be compared, and how."""

    before: Resolved
    after: Resolved
    matched: Matched
    width: int
    """So many of the matched columns are compared, the first ones; the rest is there for the filter."""
    key: tuple[int, ...] = ()
    where: Any = None
    """An Arrow expression over the names of matched columns."""
    where_columns: tuple[int, ...] = ()
    tolerances: dict[int, Decimal] = field(default_factory=dict)
    sample_size: int = 10
    with_profile: bool = True
    check_keys: bool = False
    with_rows: bool = False

    @property
    def is_one_table(self) -> bool:
        return self.before.table.metadata.table_uuid == self.after.table.metadata.table_uuid


@dataclass
class Result:
    """What a comparison found."""

    report: Report
    rows: dict[Side, int]
    strata: dict[Side, int]
    """How many rows of each side are in no file of the other, by estimate if statistics are of a sample."""
    files: FileDifference
    method: str
    bytes_read: int


class _NeedsCopy(Exception):
    """Files turned out not to be readable by field id."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Comparisons:
    """Compares versions of the tables of an installation."""

    def __init__(self, spark: Callable[[], Spark], rows: Rows, files: Files, settings: Settings) -> None:
        self._spark, self._rows, self._files, self._settings = spark, rows, files, settings

    def files_of(self, wanted: Wanted) -> tuple[FileDifference, dict[Side, SnapshotFiles]]:
        """Which files differ, and all files of both versions."""
        before, after = wanted.before, wanted.after
        live: dict[Side, SnapshotFiles] = {
            "from": self._files.of(before.table, before.snapshot),
            "to": self._files.of(after.table, after.snapshot),
        }
        with translating(f"table {after.name}"):
            if not wanted.is_one_table:
                return apart(live["from"], live["to"]), live
            return difference(self._files, after.table, before.snapshot, after.snapshot), live

    def hides(self, wanted: Wanted) -> bool:
        """Whether erasure requests hide rows of one of the tables."""
        return any(key.values for version in (wanted.before, wanted.after) for key in self._rows.hidden(version))

    def row_schema(self, wanted: Wanted) -> pa.Schema:
        """The columns of differing rows."""
        import pyarrow as pa

        fields = [column.fields["to"] for column in wanted.matched.columns[: wanted.width]]
        return row_schema(pa.schema(fields), wanted.key)

    def compare(self, wanted: Wanted, progress: Progress, take_rows: TakeRows = None) -> Result:
        """Compare two versions. Rows that differ are handed to `take_rows` as they come, if it is given."""
        files, live = self.files_of(wanted)
        reason = reason_to_copy([*live["from"].data, *live["to"].data], (wanted.before, wanted.after))
        if reason is None:
            try:
                return self._by_files(wanted, files, live, progress, take_rows)
            except _NeedsCopy as needed:
                reason = needed.reason
        return self._by_copies(wanted, files, reason, progress, take_rows)

    def _by_files(
        self,
        wanted: Wanted,
        files: FileDifference,
        live: dict[Side, SnapshotFiles],
        progress: Progress,
        take_rows: TakeRows,
    ) -> Result:
        """Compare the files that differ."""
        versions: dict[Side, Resolved] = {"from": wanted.before, "to": wanted.after}
        hidden = {side: drops(self._rows.hidden(version)) for side, version in versions.items()}
        lineage = self.lineage(wanted, files)
        counted = self._counted(wanted, live)
        parts = list(self.parts(wanted, files, live, counted, lineage))
        compared = replace(
            self.compared(wanted, hidden),
            sampled_below=_sampled_below(parts) if wanted.where is None else {},
            by_lineage=bool(lineage),
        )
        size = sum(part.bytes for part in parts)
        here = size <= self._settings.compare.in_process_mb * _MIB
        about = f"table {wanted.after.name}"
        with translating(about):
            reports = in_process.run(parts, compared, progress) if here else on_spark.run(self._spark, parts, compared)
            report = _together(reports, compared, take_rows, about)
            visible = {side: visible_rows(live[side].data, compared.access) for side in SIDES}
        rows = dict(report.counted.rows)
        for side in SIDES:
            rows[side] += sum(count for path, count in visible[side].items() if path not in counted[side])
        strata = _strata(report)
        if not wanted.is_one_table:
            strata = rows
        elif any(part.most_rows is not None for part in parts):
            strata = {side: round(rows[side] * share) for side, share in _own_shares(visible).items()}
        method = _method(files, here, size) + ("; rows that kept their row lineage are equal" if lineage else "")
        return _checked(Result(report, rows, strata, files, method, report.counted.bytes), about)

    def lineage(self, wanted: Wanted, files: FileDifference) -> Lineage:
        """The row lineage of the files that differ, if it may be relied on."""
        if not wanted.is_one_table or not self._settings.compare.row_lineage:
            return {}
        with translating(f"table {wanted.after.name}"):
            return lineage_of(wanted.after.table, (wanted.before.snapshot, wanted.after.snapshot), files)

    def _by_copies(
        self, wanted: Wanted, files: FileDifference, reason: str, progress: Progress, take_rows: TakeRows
    ) -> Result:
        """Compare whole versions, copied to temporary files."""
        compared = self.compared(wanted, {})
        about = f"table {wanted.after.name}"
        with translating(about), tempfile.TemporaryDirectory(prefix="lakewarden-compare-") as folder:
            parts: list[Part] = []
            purposes: list[Purpose] = ["compare", "count"]
            if wanted.with_profile:
                purposes.append("profile")
            if wanted.check_keys:
                purposes.append("keys")
            for side, version in zip(SIDES, (wanted.before, wanted.after), strict=True):
                copied = copy(self._rows, version, side, wanted.matched.columns, Path(folder))
                parts += [replace(copied, number=n, purpose=one) for n, one in enumerate(purposes, len(parts))]
            report = _together(in_process.run(parts, compared, progress), compared, take_rows, about)
        size = sum(part.bytes for part in parts if part.purpose == "compare")
        method = f"read both versions whole, since {reason}"
        rows = dict(report.counted.rows)
        return _checked(Result(report, rows, rows, files, method, size), about)

    def _counted(self, wanted: Wanted, live: dict[Side, SnapshotFiles]) -> dict[Side, set[str]]:
        """The files of each side that must be read to know how many of their rows are visible."""
        if wanted.where is not None:
            return {side: set(live[side].by_path) for side in SIDES}
        found: dict[Side, set[str]] = {}
        for side, version in zip(SIDES, (wanted.before, wanted.after), strict=True):
            with translating(f"table {version.name}"):
                found[side] = may_hold(version.table, live[side], self._rows.hidden(version))
        return found

    def compared(self, wanted: Wanted, hidden: dict[Side, tuple[Drop, ...]]) -> Compared:
        """What tasks are given."""
        return Compared(
            schemas={side: wanted.matched.schema(side) for side in SIDES},
            width=wanted.width,
            key=wanted.key,
            hidden=hidden,
            where=wanted.where,
            where_columns=wanted.where_columns,
            tolerances=wanted.tolerances,
            sample_size=wanted.sample_size,
            with_rows=wanted.with_rows,
            memory_bytes=self._settings.compare.task_memory_mb * _MIB,
            access=access_of(self._settings.lake(wanted.after.name.lake)),
        )

    def parts(
        self,
        wanted: Wanted,
        files: FileDifference,
        live: dict[Side, SnapshotFiles],
        counted: dict[Side, set[str]],
        lineage: Lineage,
    ) -> Iterator[Part]:
        """The files that are read, each for what its rows are needed for."""
        states: list[tuple[Purpose, LiveFile | None, LiveFile | None, int | None]] = [
            ("compare", each.before, each.after, None) for each in files.differing
        ]
        if wanted.with_profile:
            profiled = _profiled(list(_both(live, wanted.is_one_table)))
            states += [("profile", *both, most) for both, most in profiled]
        for before, after in _both(live, wanted.is_one_table):
            if wanted.check_keys:
                states.append(("keys", before, after, None))
            old, new = (
                file if file is not None and file.path in counted[side] else None
                for side, file in zip(SIDES, (before, after), strict=True)
            )
            if old is not None or new is not None:
                states.append(("count", old, new, None))
        # Files that may hold the same rows are read by one task, which then passes few of them on.
        states.sort(key=lambda state: (_file(state[1:3]).starts, _file(state[1:3]).path))
        for number, (purpose, before, after, most) in enumerate(states):
            file = _file((before, after))
            deletes: dict[Side, tuple[str, ...]] = {
                side: tuple(delete.path for delete in state.deletes)
                for side, state in zip(SIDES, (before, after), strict=True)
                if state is not None
            }
            share = min(1.0, (most or file.rows) / max(file.rows, 1))
            size = math.ceil(file.bytes * share)
            yield Part(number, file.path, file.rows, size, purpose, deletes, most, lineage.get(file.path))


def drops(keys: Iterable[HiddenKey]) -> tuple[Drop, ...]:
    """What erasure requests hide of a table, as tasks leave it out."""
    return tuple(Drop(key.field_id, pack(widest(key.kind, key.values))) for key in keys if key.values)


def _profiled(states: Sequence[State]) -> Iterator[tuple[State, int | None]]:
    """The files whose rows are profiled, with how many rows of each: all, or some of those that chance picks."""
    readable = [(_file(state), state) for state in states]
    readable = [(file, state) for file, state in readable if file.format == "parquet" and file.rows]
    if sum(file.rows for file, _ in readable) <= _PROFILED_WHOLE:
        yield from ((state, None) for _, state in readable)
        return
    kinds: dict[tuple[bool, bool], int] = {}
    for _, state in sorted(readable, key=lambda each: zlib.crc32(each[0].path.encode())):
        kind = (state[0] is None, state[1] is None)
        kinds[kind] = kinds.get(kind, 0) + 1
        if kinds[kind] <= _PROFILED_FILES:
            yield state, _PROFILED_ROWS


def _sampled_below(parts: Sequence[Part]) -> dict[str, int]:
    """What rows of each profile may be sampled."""
    rows: dict[str, int] = {}
    for part in parts:
        if part.purpose in ("compare", "profile"):
            for name in (*part.deletes, *(("shared",) if part.purpose == "profile" else ())):
                rows[name] = rows.get(name, 0) + min(part.rows, part.most_rows or part.rows)
    return {name: sampled_below(count) for name, count in rows.items()}


def _file(state: State) -> LiveFile:
    found = state[1] or state[0]
    assert found is not None
    return found


def _both(live: dict[Side, SnapshotFiles], is_one_table: bool) -> Iterator[tuple[LiveFile | None, LiveFile | None]]:
    """Every file of both versions, once."""
    old, new = dict(live["from"].by_path), dict(live["to"].by_path)
    if is_one_table:
        yield from ((old.pop(path, None), file) for path, file in new.items())
    else:
        yield from ((None, file) for file in new.values())
    yield from ((file, None) for file in old.values())


def _together(
    reports: Iterable[Report], compared: Compared, take_rows: Callable[[Any], None] | None, about: str
) -> Report:
    whole = Report()
    for report in reports:
        if report.failure is not None and report.failure.kind == "no-field-ids":
            raise _NeedsCopy("they have files without field ids")
        raise_failures(about, [report.failure])
        if report.rows is not None and take_rows is not None:
            take_rows(report.rows)
        whole.add(replace(report, rows=None), compared.sample_size)
    return whole


def _method(files: FileDifference, here: bool, size: int) -> str:
    where = "in this process" if here else f"on Spark, since {size / _MIB:,.0f} MB differ"
    skipped = f"; {files.replaced} replace snapshots between them change no rows" if files.replaced else ""
    total = len(files.differing) + len(files.shared)
    return f"read {len(files.differing)} of {total} files, {where}{skipped}"


def _own_shares(visible: dict[Side, dict[str, int]]) -> dict[Side, float]:
    """The share of each side's rows that the other side does not see in the same file."""
    both = visible["from"].keys() & visible["to"].keys()
    common = sum(min(visible["from"][path], visible["to"][path]) for path in both)
    return {side: 1 - common / max(sum(visible[side].values()), 1) for side in SIDES}


def _strata(report: Report) -> dict[Side, int]:
    return {side: report.profiles[side].rows if side in report.profiles else 0 for side in SIDES}


def _checked(result: Result, about: str) -> Result:
    """Both sides must have the same number of unchanged rows; if not, the metadata of a table is wrong."""
    tally = result.report.tally
    if result.rows["from"] - tally.removed == result.rows["to"] - tally.added:
        return result
    raise BrokenTable(
        f"{about}: the versions have {result.rows['from']} and {result.rows['to']} rows by their metadata, but "
        f"{tally.removed} were removed and {tally.added} added by their files",
        "A snapshot between them is marked as `replace` and changed rows, or its metadata is wrong.",
    )
