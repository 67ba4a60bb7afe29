"""Compaction by the older tool's names."""

from __future__ import annotations

from typing import Any

import pytest

from lakewarden.doors.compat import iceberg_compaction as compaction
from lakewarden.doors.compat.iceberg_catalog import IcebergCatalog
from lakewarden.doors.compat.iceberg_compaction import CompactionPolicy, IcebergCompactionManager
from tests.small_lake import SmallLake


@pytest.fixture
def many(lake: SmallLake) -> SmallLake:
    """A table of twelve small files, and one of a single file."""
    lake.create("gold.customers", appends=12)
    lake.create("gold.regions", appends=1)
    return lake


def manager(lake: SmallLake, **policy: Any) -> IcebergCompactionManager:
    return IcebergCompactionManager(IcebergCatalog(lake.warden), CompactionPolicy(**policy))


def test_the_defaults() -> None:
    assert CompactionPolicy() == CompactionPolicy(
        target_file_size_mb=512, min_file_size_mb=10, max_concurrent_files=100, rewrite_all=False
    )


def test_analyze(many: SmallLake) -> None:
    found = manager(many).analyze_table("gold", "customers")
    assert found["needs_compaction"] is True and found["reason"]
    assert (found["total_files"], found["small_files"]) == (12, 12)
    assert 0 <= found["avg_file_size_mb"] <= found["total_size_mb"] < 1
    assert manager(many).analyze_table("gold", "regions")["needs_compaction"] is False


def test_the_policy_is_what_decides(many: SmallLake) -> None:
    assert manager(many, rewrite_all=True).analyze_table("gold", "regions")["needs_compaction"] is True
    assert manager(many, rewrite_all=True).compact_table("gold", "regions")["files_after_expected"] == 1


def test_a_dry_run(many: SmallLake) -> None:
    found = manager(many).compact_all_tables()
    keys = ("table", "needs_compaction", "compacted", "files_before", "files_after", "files_after_expected", "error")
    assert [tuple(result[key] for key in keys) for result in found] == [
        ("gold.customers", True, False, 12, None, 1, None),
        ("gold.regions", False, False, 1, None, 1, None),
    ]
    assert len(many.warden.version.list("gold.customers")) == 12
    assert "no table" in manager(many).compact_table("gold", "nothing")["error"]


def test_the_summary_of_a_dry_run(many: SmallLake, capsys: pytest.CaptureFixture[str]) -> None:
    assert compaction.main(["--all", "--min-file-size-mb", "5", "--config", str(many.folder)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["gold.customers: 12 files would become about 1", "gold.regions: 1 files, no compaction needed"]
    assert lines[3:8] == [
        *("COMPACTION SUMMARY", "=" * 80, "Tables processed: 2", "Tables to compact: 1", "Files: 13 -> about 2")
    ]
    assert lines[-1] == "Dry run: nothing was changed. Add --execute to apply."


@pytest.mark.spark
def test_compacting_is_measured(many: SmallLake, capsys: pytest.CaptureFixture[str]) -> None:
    found = manager(many).compact_table("gold", "customers", dry_run=False)
    assert (found["compacted"], found["files_before"], found["files_after"]) == (True, 12, 1)
    assert many.ids("gold.customers") == list(range(24))
    arguments = ["--namespace", "gold", "--execute", "--target-file-size-mb", "512", "--config", str(many.folder)]
    assert compaction.main(arguments) == 0
    said = capsys.readouterr().out
    assert "Tables compacted: 0\nFiles: 2 -> 2\n" in said and "Dry run" not in said
