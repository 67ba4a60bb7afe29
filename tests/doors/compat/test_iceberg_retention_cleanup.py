"""Expiry by the older tool's names: the classes, and the script as a file, a module and a command.

Covers `doors/compat/script.py`.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lakewarden.doors.compat import iceberg_retention_cleanup as cleanup
from lakewarden.doors.compat.iceberg_catalog import IcebergCatalog
from lakewarden.doors.compat.iceberg_compaction import IcebergCompactionManager
from lakewarden.doors.compat.iceberg_retention_cleanup import IcebergRetentionManager, RetentionPolicy
from lakewarden.errors import Interrupted
from lakewarden.warden import Planned
from tests.features.retention.test_expire import configure
from tests.reachability import days_later
from tests.small_lake import SmallLake

COUNTS = ("table", "total_snapshots", "kept", "expired", "is_production", "dry_run", "error")


@pytest.fixture
def layers(lake: SmallLake) -> SmallLake:
    """Three versions each of a bronze, a gold and a skipped table, a hundred days old; the oldest bronze one tagged."""
    for name in ("bronze.events", "gold.customers", "flink.offsets"):
        lake.create(name)
    oldest = lake.warden.version.list("bronze.events")[-1].snapshot_id
    lake.warden.version.tag(f"bronze.events@{oldest}", "v1").apply()
    configure(lake, tables={"flink.*": {"skip": True}})
    days_later(lake, 100)
    return lake


def manager(lake: SmallLake, **policy: Any) -> IcebergRetentionManager:
    return IcebergRetentionManager(IcebergCatalog(lake.warden), RetentionPolicy(**policy))


def counted(results: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [tuple(result[key] for key in COUNTS) for result in results]


def test_the_defaults() -> None:
    assert RetentionPolicy() == RetentionPolicy(
        keep_last_n=30, keep_days=90, keep_tagged=True, production_keep_days=730
    )


def test_a_dry_run_counts_and_changes_nothing(layers: SmallLake) -> None:
    found = manager(layers, keep_last_n=1).cleanup_all_tables()
    assert counted(found) == [
        ("bronze.events", 3, 2, 1, False, True, None),  # the tagged one is kept
        ("gold.customers", 3, 3, 0, True, True, None),  # production
    ]
    assert found[0]["bytes_freed"] > 0
    assert len(layers.warden.version.list("bronze.events")) == 3


def test_what_was_expired_is_measured(layers: SmallLake) -> None:
    found = manager(layers, keep_last_n=1).cleanup_all_tables(namespaces=["bronze"], dry_run=False)
    assert counted(found) == [("bronze.events", 3, 2, 1, False, False, None)]
    assert len(layers.warden.version.list("bronze.events")) == 2
    again = manager(layers, keep_last_n=1).cleanup_table("bronze", "events", dry_run=False)
    assert counted([again]) == [("bronze.events", 2, 2, 0, False, False, None)]
    assert "retention.expire" in {record.kind for record in layers.warden.operation.list()}


def test_days_of_production_tables(layers: SmallLake) -> None:
    policy = {"keep_last_n": 1, "keep_tagged": False, "keep_days": 200, "production_keep_days": 30}
    found = manager(layers, **policy).cleanup_all_tables(namespaces=["gold", "bronze"])
    assert [(result["table"], result["expired"]) for result in found] == [("gold.customers", 2), ("bronze.events", 0)]


def test_one_that_fails_does_not_stop_the_others(layers: SmallLake) -> None:
    with layers.catalog.load_table("bronze.events").transaction() as change:
        change.set_properties({"gc.enabled": "false"})
    found = manager(layers, keep_last_n=1, production_keep_days=30).cleanup_all_tables(dry_run=False)
    assert "gc.enabled" in found[0]["error"] and found[0]["expired"] == 0
    assert counted(found[1:]) == [("gold.customers", 3, 1, 2, True, False, None)]
    assert "no table gold.nothing" in manager(layers).cleanup_table("gold", "nothing")["error"]


def test_a_namespace_that_does_not_exist_does_not_lose_the_results_of_others(layers: SmallLake) -> None:
    found = manager(layers, keep_last_n=1, keep_tagged=False).cleanup_all_tables(["bronze", "diamond", "gold"], False)
    assert [result["table"] for result in found] == ["bronze.events", "diamond.*", "gold.customers"]
    assert [result["expired"] for result in found][:2] == [2, 0] and "no namespace diamond" in found[1]["error"]
    compacted = IcebergCompactionManager(IcebergCatalog(layers.warden)).compact_all_tables(["diamond", "gold"])
    assert [bool(result["error"]) for result in compacted] == [True, False]


def test_an_interrupt_stops_all_of_it(layers: SmallLake, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise Interrupted("stopped")

    monkeypatch.setattr(Planned, "apply", interrupted)
    with pytest.raises(Interrupted):
        manager(layers, keep_last_n=1).cleanup_all_tables(dry_run=False)


class TestScript:
    def run(self, lake: SmallLake, *arguments: str) -> int:
        return cleanup.main([*arguments, "--config", str(lake.folder)])

    def test_a_summary(self, layers: SmallLake, capsys: pytest.CaptureFixture[str]) -> None:
        configure(layers, defaults={"retention": {"keep_last": 1, "keep_days": 0}}, layers={"bronze": {}})
        arguments = ["--all", "--keep-days", "0", "--production-keep-days", "0"]
        assert self.run(layers, *arguments) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[:2] == [
            "bronze.events: 3 snapshots, 2 kept, 1 to expire",
            "gold.customers: 3 snapshots, 1 kept, 2 to expire",
        ]
        assert lines[3:9] == [
            *("CLEANUP SUMMARY", "=" * 80, "Tables processed: 2", "Total snapshots: 6", "Kept: 3", "To expire: 3")
        ]
        assert lines[-1] == "Dry run: nothing was changed. Add --execute to apply."
        assert self.run(layers, *arguments, "--execute", "--dry-run") == 0  # what does nothing wins
        assert len(layers.warden.version.list("gold.customers")) == 3
        capsys.readouterr()
        assert self.run(layers, *arguments, "--execute") == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[8] == "Expired: 3" and lines[9].startswith("Space saved: ") and lines[9].endswith("%)")
        assert lines[-1] == "Errors: 0"
        assert len(layers.warden.version.list("gold.customers")) == 1

    def test_what_no_option_says_is_as_configured(self, layers: SmallLake, capsys: pytest.CaptureFixture[str]) -> None:
        """A table that is configured to be kept longer is not cut to what other tables have."""
        configure(layers, tables={"bronze.*": {"retention": {"keep_days": 400, "keep_last": 1}}})
        assert self.run(layers, "--namespace", "bronze", "--table", "events", "--execute") == 0
        assert "Expired: 0" in capsys.readouterr().out

    def test_days_of_others_leave_production_alone(self, layers: SmallLake, capsys: pytest.CaptureFixture[str]) -> None:
        assert self.run(layers, "--all", "--keep-last", "1", "--keep-days", "0", "--execute") == 0
        assert capsys.readouterr().out.splitlines()[:2] == [
            "bronze.events: 3 snapshots, 2 kept, 1 expired",
            "gold.customers: 3 snapshots, 3 kept, 0 expired",
        ]

    @pytest.mark.parametrize(
        "arguments",
        [[], ["--table", "events"], ["--all", "--namespace", "bronze"], ["--all", "--keep-last", "x"], ["--al"]],
    )
    def test_wrong_use(self, layers: SmallLake, arguments: list[str]) -> None:
        with pytest.raises(SystemExit) as ended:
            self.run(layers, *arguments)
        assert ended.value.code == 2

    def test_errors(self, layers: SmallLake, capsys: pytest.CaptureFixture[str]) -> None:
        assert self.run(layers, "--namespace", "bronze", "--table", "evnts") == 2
        assert "Did you mean" in capsys.readouterr().err
        assert self.run(layers, "--all", "--keep-last", "0") == 1
        said = capsys.readouterr()
        assert "bronze.events: failed" in said.out and "bronze.events: keep_last" in said.err

    def test_as_a_file_and_as_a_module(self, layers: SmallLake) -> None:
        assert Path(cleanup.__file__).name == "iceberg_retention_cleanup.py"
        for how in ([cleanup.__file__], ["-m", cleanup.__name__]):
            command = [sys.executable, *how, "--all", "--config", str(layers.folder)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            assert "CLEANUP SUMMARY" in done.stdout and done.stderr == ""
