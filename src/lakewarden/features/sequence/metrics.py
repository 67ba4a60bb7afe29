"""Metrics for Prometheus' textfile collector, under the names that dashboards and alerts already use."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path

from lakewarden.errors import StorageUnavailable
from lakewarden.features.sequence.statistics import TableStatistics

Samples = Mapping[str, float]
"""Values by table."""

_PREFIX = "partition_"
_ERRORS = "alter_errors"
_READABLE = 0o644


def write(
    file: Path,
    tables: Sequence[TableStatistics],
    now: datetime,
    alter_seconds: Samples | None = None,
    failed: Sequence[str] = (),
) -> None:
    """Write the file, which appears complete or not at all. Errors are counted on from the file that is there."""
    errors = {**{table.table: 0.0 for table in tables}, **_counted(file)}
    errors |= {name: errors.get(name, 0.0) + 1 for name in failed}
    text = "".join(_lines(tables, now, alter_seconds or {}, errors))
    part = file.with_name(f".{file.name}.{secrets.token_hex(4)}.part")
    try:
        part.write_text(text, encoding="utf-8")
        part.chmod(_READABLE)  # the collector is another user
        part.replace(file)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise StorageUnavailable(f"{file} cannot be written: {error.strerror}", "Check prometheus_stats.") from error


def _lines(tables: Sequence[TableStatistics], now: datetime, times: Samples, errors: Samples) -> Iterator[str]:
    def of(name: str) -> dict[str, float]:
        values = {each.table: getattr(each, name) for each in tables}
        return {table: _number(value) for table, value in values.items() if value is not None}

    yield from _family("total", "counter", "Number of partitions", of("partitions"))
    overrun = "Seconds until rows are predicted to reach the last partition"
    yield from _family("time_remaining_until_partition_overrun", "gauge", overrun, of("time_until_overrun"))
    age = "Age in seconds of the first partition"
    yield from _family("age_of_retained_partitions", "gauge", age, of("time_since_oldest_partition"))
    yield from _family("mean_delta_seconds", "gauge", "Mean seconds between partitions", of("mean_partition_delta"))
    yield from _family("max_delta_seconds", "gauge", "Most seconds between partitions", of("max_partition_delta"))
    yield from _family("alter_time_seconds", "gauge", "Seconds that ALTER statements of the last run took", times)
    yield from _family(_ERRORS, "counter", "Runs that failed for a table", errors)
    yield from _family("last_run_timestamp", "gauge", "Time of the last run", {"": now.timestamp()})


def _family(name: str, kind: str, says: str, samples: Samples) -> Iterator[str]:
    if samples:
        yield f"# HELP {_PREFIX}{name} {says}\n# TYPE {_PREFIX}{name} {kind}\n"
    for table, value in samples.items():
        yield f"{_PREFIX}{name}{_label(table)} {value:.15g}\n"


def _label(table: str) -> str:
    escaped = table.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
    return f'{{table="{escaped}"}}' if table else ""


def _number(value: timedelta | float) -> float:
    return value.total_seconds() if isinstance(value, timedelta) else float(value)


def _counted(file: Path) -> dict[str, float]:
    """The errors that the file counts so far; names with a quote start again."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return {}
    return {
        name: float(count)
        for name, count in re.findall(rf'^{_PREFIX}{_ERRORS}{{table="([^"\\]*)"}} (\d+)$', text, re.MULTILINE)
    }
