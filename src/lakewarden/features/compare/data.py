"""`compare data`."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, field_validator

from lakewarden.engine.comparison.columns import Matched, match
from lakewarden.engine.rows.read import version_schema
from lakewarden.errors import BadValue, ColumnNotFound, did_you_mean
from lakewarden.features.compare.answer import ColumnDifference, DataComparison, ValueChange, compared_versions
from lakewarden.features.compare.estimate import estimated
from lakewarden.features.compare.report import write_report
from lakewarden.features.compare.rules import Functions, Number, Rule
from lakewarden.features.compare.versions import TwoVersions
from lakewarden.features.shared.row_files import ROW_FILES, write_rows
from lakewarden.lifecycle.request import CommaSeparated, Question

if TYPE_CHECKING:
    from lakewarden.engine.comparison.compare import Result, Wanted
    from lakewarden.lifecycle.ground import Reader

log = logging.getLogger(__name__)
_COUNTS = ("rows_from", "rows_to", "rows_added", "rows_removed", "rows_changed", "rows_unchanged")
_NAMES = (*_COUNTS, "ambiguous_keys", "null_keys")
_FUNCTIONS = ("changed", "psi", "ks")
_CHANGES_SHOWN = 10
_SECONDS_BETWEEN_WORDS = 3
_OUT = (*ROW_FILES, ".html")


class Data(TwoVersions, Question[DataComparison]):
    """Compare the rows of two versions of a table, exactly.

    Files that both versions share are not read, so the cost follows the change. With a key, a removed and an added
    row with the same key are one changed row; the table's identifier fields are the key by default. Rules of --fail-if
    can use the counts, changed(COLUMN), psi(COLUMN) and ks(COLUMN), as in: rows_removed > 0.1 * rows_from.
    """

    key: Annotated[list[str], CommaSeparated] = Field([], description="The columns that identify a row.")
    where: str = Field("", description="Compare only rows for which this holds, as in: amount > 10 AND city = 'Bern'.")
    ignore: Annotated[list[str], CommaSeparated] = Field([], description="Columns that do not count.")
    tolerance: list[str] = Field(
        [], description="Numbers that differ by no more count as equal, as in: amount=0.01; can be repeated."
    )
    sample_size: int = Field(10, ge=0, le=1_000, description="How many rows of each kind to show.")
    check_keys: bool = Field(False, description="Read the keys of both versions and check that each is unique.")
    estimate: bool = Field(False, description="Answer from metadata alone, with ranges where it cannot know.")
    no_statistics: bool = Field(False, description="Leave out the statistics of columns; reads less.")
    out: Path | None = Field(
        None, description="Write a report to this .html file, or every differing row to this .parquet or .csv file."
    )

    @field_validator("out")
    @classmethod
    def _writable(cls, out: Path | None) -> Path | None:
        if out is not None and out.suffix.lower() not in _OUT:
            raise ValueError(f"the file must end in {', '.join(_OUT[:-1])} or {_OUT[-1]}")
        return out

    def ask(self, lake: Reader) -> DataComparison:
        rules = [Rule.parse(text, _NAMES, _FUNCTIONS) for text in self.fail_if]
        if self.out is not None and self.out.exists():
            raise BadValue(f"{self.out} exists already", "Choose another file, or remove it first.")
        with lake.tables.at_one_moment():
            wanted = self._wanted(lake)
        answer = estimated(lake.comparisons, wanted) if self.estimate else self._compared(lake, wanted)
        answer.failed.extend(rule.text for rule in rules if rule.holds(*_values(answer)))
        if self.out is not None and self.out.suffix.lower() == ".html":
            write_report(self.out, answer)
            answer = replace(answer, file=str(self.out))
        return answer

    def found(self, answer: DataComparison) -> bool:
        return bool(answer.failed)

    def _wanted(self, lake: Reader) -> Wanted:
        from lakewarden.engine.comparison.compare import Wanted

        before, after = self.versions(lake)
        schema = version_schema(after)
        matched = match(version_schema(before), schema, self.by_name)
        self._check_columns(matched.names, schema.column_names)
        ignored = match(version_schema(before), schema, self.by_name, self.ignore)
        names = ignored.names
        if not names:
            raise BadValue("the two versions have no column in common that can be compared")
        identifiers = [schema.find_column_name(one) or "" for one in schema.identifier_field_ids]
        key = self.key or [name for name in identifiers if name in names]
        for name in key:
            if name not in names:
                raise self._unknown(name, names, "key")
        where, used = lake.rows.arrow_filter(after, self.where)
        for name in used:
            if name not in matched.names:
                raise BadValue(f"--where uses {name}, which only one of the versions has")
        tolerances = {names.index(name): value for name, value in self._tolerances(names).items()}
        if tolerances and not key:
            raise BadValue("--tolerance requires a key: name one with --key")
        extra = [matched.columns[matched.names.index(name)] for name in used if name not in names]
        both = Matched((*ignored.columns, *extra), ignored.left_out)
        return Wanted(
            before,
            after,
            both,
            len(names),
            key=tuple(names.index(name) for name in key),
            where=where,
            where_columns=tuple(both.names.index(name) for name in used),
            tolerances=tolerances,
            sample_size=self.sample_size,
            with_profile=not self.no_statistics,
            check_keys=self.check_keys,
            with_rows=self.out is not None and self.out.suffix.lower() in ROW_FILES,
        )

    def _check_columns(self, common: list[str], known: list[str]) -> None:
        for name in self.ignore:
            if name not in known and name not in common:
                raise self._unknown(name, known, "ignore")

    def _unknown(self, name: str, known: list[str], option: str) -> ColumnNotFound:
        both = f"Both versions have {', '.join(known)}."
        return ColumnNotFound(
            f"--{option}: the versions have no column {name} in common", did_you_mean(name, known, both)
        )

    def _tolerances(self, names: list[str]) -> dict[str, Decimal]:
        found = {}
        for text in self.tolerance:
            name, equals, number = text.partition("=")
            try:
                value = Decimal(number.strip())
            except InvalidOperation:
                value = Decimal("NaN")
            if not equals or not value.is_finite() or value < 0:
                raise BadValue(f"--tolerance {text} cannot be read", "Write it as COLUMN=NUMBER, as in amount=0.01.")
            if name.strip() not in names:
                raise self._unknown(name.strip(), names, "tolerance")
            found[name.strip()] = value
        return found

    def _compared(self, lake: Reader, wanted: Wanted) -> DataComparison:
        if wanted.check_keys and not wanted.key:
            raise BadValue("--check-keys requires a key: name one with --key")
        if not wanted.with_rows:
            return answered(wanted, lake.comparisons.compare(wanted, _progress()))
        assert self.out is not None
        found: list[Result] = []

        def compare(take: Callable[[Any], None]) -> None:
            found.append(lake.comparisons.compare(wanted, _progress(), take))

        schema = lake.comparisons.row_schema(wanted)
        write_rows(self.out, schema, _streamed(compare))
        return answered(wanted, found[0], str(self.out))


def answered(wanted: Wanted, result: Result, file: str | None = None) -> DataComparison:
    """The answer that a comparison's result makes."""
    tally, rows = result.report.tally, result.rows
    counted = result.report.counted
    names = [column.name for column in wanted.matched.columns[: wanted.width]]
    columns, statistics = _columns(names, wanted, result)
    unchanged = rows["from"] - tally.removed - tally.changed
    return DataComparison(
        **compared_versions(wanted),
        rows_from=rows["from"],
        rows_to=rows["to"],
        rows_added=tally.added,
        rows_removed=tally.removed,
        rows_changed=tally.changed,
        rows_unchanged=unchanged,
        key=[names[place] for place in wanted.key],
        ambiguous_keys=tally.ambiguous_keys,
        null_keys=tally.null_keys if wanted.key else 0,
        duplicate_keys_from=counted.duplicate_keys["from"] if wanted.check_keys else None,
        duplicate_keys_to=counted.duplicate_keys["to"] if wanted.check_keys else None,
        columns=columns,
        not_compared=wanted.matched.left_out,
        samples={kind: [row for _, row in found] for kind, found in sorted(tally.samples.items()) if found},
        method=result.method,
        statistics=statistics,
        files_read=counted.files,
        bytes_read=result.bytes_read,
        file=file,
    )


def _columns(names: list[str], wanted: Wanted, result: Result) -> tuple[list[ColumnDifference], str]:
    from lakewarden.engine.kernel.compare_messages import SIDES, Side
    from lakewarden.features.compare.statistics import SideSample, drift

    profiles, rows = result.report.profiles, result.rows

    def side(name: Side) -> SideSample:
        strata = [(name, result.strata[name]), ("shared", rows[name] - result.strata[name])]
        return SideSample([(profiles[one], count) for one, count in strata if one in profiles and count > 0])

    sides = {name: side(name) for name in SIDES}
    found = []
    for place, name in enumerate(names):
        changes = result.report.tally.columns.get(place)
        pairs = (
            sorted(changes.pairs.values(), key=lambda each: (-each[0], str(each[1]), str(each[2]))) if changes else []
        )
        one = ColumnDifference(
            name=name,
            changed=changes.count if changes else 0,
            changes=[ValueChange(before, after, times) for times, before, after in pairs[:_CHANGES_SHOWN]],
        )
        if wanted.with_profile:
            one = ColumnDifference(
                one.name,
                one.changed,
                one.changes,
                sides["from"].statistics(place),
                sides["to"].statistics(place),
                drift(sides["from"], sides["to"], place),
            )
        found.append(one)
    if not wanted.with_profile:
        return found, ""
    read = sum(profile.rows for profile in profiles.values())
    whole = all(sum(profile.rows for profile, _ in one.strata) == one.rows for one in sides.values())
    return found, "all rows of both versions" if whole else f"a sample of {read:,} rows; counts are exact"


def _values(answer: DataComparison) -> tuple[Mapping[str, Number], Functions]:
    """What rules can use."""
    values: dict[str, Number] = {}
    for name in _NAMES:
        value = getattr(answer, name)
        values[name] = float("nan") if value is None else value
    columns = {column.name: column for column in answer.columns}

    def of(name: str) -> ColumnDifference:
        if name not in columns:
            raise BadValue(f"rule: there is no column {name}", did_you_mean(name, columns, ""))
        return columns[name]

    def drifted(name: str, kind: str) -> Number:
        value = getattr(of(name).drift, kind)
        return float("nan") if value is None else float(value)

    return values, {
        "changed": lambda name: of(name).changed,
        "psi": lambda name: drifted(name, "psi"),
        "ks": lambda name: drifted(name, "ks"),
    }


def _progress() -> Callable[[int, int], None]:
    """Reports how much was read, now and then."""
    next_word = [time.monotonic() + _SECONDS_BETWEEN_WORDS]

    def report(done: int, total: int) -> None:
        if time.monotonic() >= next_word[0]:
            log.info("%s of %s MB compared", f"{done / 2**20:,.0f}", f"{total / 2**20:,.0f}")
            next_word[0] = time.monotonic() + _SECONDS_BETWEEN_WORDS

    return report


def _streamed(work: Callable[[Callable[[Any], None]], None]) -> Iterator[Any]:
    """What a function passes on, as a stream. The function runs in a thread and waits for the reader."""
    waiting: queue.Queue[Any] = queue.Queue(maxsize=8)
    done = object()

    def run() -> None:
        try:
            work(waiting.put)
            waiting.put(done)
        except BaseException as error:  # noqa: BLE001 - raised again where the stream is read
            waiting.put(error)

    threading.Thread(target=run, name="compare", daemon=True).start()
    while (item := waiting.get()) is not done:
        if isinstance(item, BaseException):
            raise item
        yield item
