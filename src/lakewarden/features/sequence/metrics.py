"""Metrics for Prometheus' textfile collector, under the names that dashboards and alerts already use."""

from __future__ import annotations

import re
import secrets
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path

from lakewarden.errors import StorageUnavailable
from lakewarden.features.sequence.statistics import TableStatistics

Samples = Mapping[str, float]
"""Values by table."""

_PREFIX = "partition_"
_ERRORS, _TIMES = "alter_errors", "alter_time_seconds"
_READABLE = 0o644
_FIGURES = (
    ("total", "counter", "Number of partitions", "partitions"),
    (
        "time_remaining_until_partition_overrun",
        "gauge",
        "Seconds until rows are predicted to reach the last partition",
        "time_until_overrun",
    ),
    ("age_of_retained_partitions", "gauge", "Age in seconds of the first partition", "time_since_oldest_partition"),
    ("mean_delta_seconds", "gauge", "Mean seconds between partitions", "mean_partition_delta"),
    ("max_delta_seconds", "gauge", "Most seconds between partitions", "max_partition_delta"),
)
"""What is known of each table: name, kind and help of the metric, and the figure that it shows."""


def write(
    file: Path,
    tables: Sequence[TableStatistics],
    now: datetime,
    alter_seconds: Samples | None = None,
    failed: Sequence[str] = (),
    configured: Collection[str] = (),
) -> None:
    """Write the file, which appears complete or not at all.

    Errors are counted on from the file that is there; so are times of statements kept unless new ones are given, and
    the figures of configured tables that this run did not look at or could not read: their alerts need them.
    """
    errors = {**{table.table: 0.0 for table in tables}, **_earlier(file, _ERRORS)}
    errors |= {name: errors.get(name, 0.0) + 1 for name in failed}
    times = {**_earlier(file, _TIMES), **(alter_seconds or {})}
    others = frozenset(configured) - {table.table for table in tables}
    text = "".join(_lines(file, tables, others, now, times, errors))
    part = file.with_name(f".{file.name}.{secrets.token_hex(4)}.part")
    try:
        part.write_text(text, encoding="utf-8")
        part.chmod(_READABLE)  # the collector is another user
        part.replace(file)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise StorageUnavailable(f"{file} cannot be written: {error.strerror}", "Check prometheus_stats.") from error


def _lines(
    file: Path,
    tables: Sequence[TableStatistics],
    others: Collection[str],
    now: datetime,
    times: Samples,
    errors: Samples,
) -> Iterator[str]:
    for name, kind, says, figure in _FIGURES:
        kept = {table: value for table, value in _earlier(file, name).items() if table in others}
        values = {each.table: getattr(each, figure) for each in tables}
        new = {table: _number(value) for table, value in values.items() if value is not None}
        yield from _family(name, kind, says, {**kept, **new})
    yield from _family(_TIMES, "gauge", "Seconds that ALTER statements took in the last run that had some", times)
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


def _earlier(file: Path, name: str) -> dict[str, float]:
    """The values of a metric in the file that is there; a table with a quote in its name starts again."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return {}
    sample = re.compile(rf'^{_PREFIX}{name}{{table="([^"\\]*)"}} ([0-9.e+-]+)$', re.MULTILINE)
    return {table: float(value) for table, value in sample.findall(text)}
