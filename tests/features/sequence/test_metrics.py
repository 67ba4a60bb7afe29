"""Metrics for Prometheus, checked by promtool, and the alert rules over them."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lakewarden.errors import StorageUnavailable
from lakewarden.features.sequence import metrics
from lakewarden.features.sequence.statistics import TableStatistics

NOW = datetime(2026, 11, 16, tzinfo=UTC)
RULES = Path(__file__).parents[3] / "deploy" / "prometheus"
DAY = timedelta(days=1)
ORDERS = TableStatistics("orders", 14, -40 * DAY, 300 * DAY, 30 * DAY, 31 * DAY, 45.5 * DAY, 29.1)


def promtool(*arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(["promtool", *arguments], input=given, capture_output=True, text=True, check=False)


def test_every_metric_by_its_known_name(tmp_path: Path) -> None:
    file = tmp_path / "partitions.prom"
    metrics.write(file, [ORDERS, TableStatistics('a"b\\c', 1)], NOW, {"orders": 0.25}, ["orders"])
    text = file.read_text()
    assert [line for line in text.splitlines() if "orders" in line or ("last_run" in line and line[0] != "#")] == [
        'partition_total{table="orders"} 14',
        'partition_time_remaining_until_partition_overrun{table="orders"} 3931200',
        'partition_age_of_retained_partitions{table="orders"} 25920000',
        'partition_mean_delta_seconds{table="orders"} 2592000',
        'partition_max_delta_seconds{table="orders"} 2678400',
        'partition_alter_time_seconds{table="orders"} 0.25',
        'partition_alter_errors{table="orders"} 1',
        f"partition_last_run_timestamp {NOW.timestamp():.0f}",
    ]
    for counter in ("partition_total", "partition_alter_errors"):
        assert f"# TYPE {counter} counter" in text
    assert file.stat().st_mode & 0o777 == 0o644 and list(tmp_path.iterdir()) == [file]
    linted = promtool("check", "metrics", given=text)
    remarks = [line for line in linted.stderr.splitlines() if not line.endswith('should have "_total" suffix')]
    assert remarks == []  # the names are given: dashboards use them


def test_errors_are_counted_on_and_times_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "partitions.prom"
    for failed, times in ((["orders"], {"orders": 0.25}), ([], {}), (["orders", "other"], {"other": 1e-05})):
        metrics.write(file, [ORDERS], NOW, times, failed)
    metrics.write(file, [ORDERS], NOW)
    text = file.read_text()
    assert 'alter_time_seconds{table="orders"} 0.25\n' in text and 'alter_time_seconds{table="other"} 1e-05\n' in text
    assert 'partition_alter_errors{table="orders"} 2\n' in text and 'partition_alter_errors{table="other"} 1\n' in text


def test_a_run_over_some_tables_keeps_the_figures_of_the_other_configured_ones(tmp_path: Path) -> None:
    file, other, gone = tmp_path / "partitions.prom", replace(ORDERS, table="other"), replace(ORDERS, table="gone")
    metrics.write(file, [ORDERS, other, gone], NOW)
    metrics.write(file, [replace(ORDERS, partitions=15, time_until_overrun=None)], NOW, configured=["orders", "other"])
    text = file.read_text()
    assert [line for line in text.splitlines() if line.startswith(("partition_total", "partition_time_rem"))] == [
        'partition_total{table="other"} 14',
        'partition_total{table="orders"} 15',
        'partition_time_remaining_until_partition_overrun{table="other"} 3931200',
    ]
    assert "gone" not in text.replace('partition_alter_errors{table="gone"} 0', "")


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(StorageUnavailable, match="cannot be written: No such file or directory"):
        metrics.write(tmp_path / "nowhere" / "x.prom", [ORDERS], NOW)


def test_the_alert_rules() -> None:
    assert promtool("check", "rules", str(RULES / "sequences.rules.yaml")).returncode == 0
    tested = promtool("test", "rules", str(RULES / "sequences.test.yaml"))
    assert tested.returncode == 0, tested.stdout + tested.stderr
