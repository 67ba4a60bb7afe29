"""`lakewarden demo`, as a newcomer runs it.

Covers `doors/cli/demo_lake.py`.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lakewarden import Warden
from lakewarden.doors.cli import demo_lake
from lakewarden.doors.cli.main import run


@pytest.mark.spark
@pytest.mark.slow
def test_makes_a_lake_shows_it_and_can_be_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "demo-lake"
    monkeypatch.setattr(demo_lake, "DAYS", 4)
    assert run(["demo", str(folder)]) == 0
    look(folder, 4, *capsys.readouterr())
    assert run(["demo", str(folder)]) == 1
    assert "--fresh" in capsys.readouterr().err


@pytest.mark.spark
@pytest.mark.own_processes
@pytest.mark.slow
@pytest.mark.soak
def test_in_a_process_that_starts_spark(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "lakewarden", "demo"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    look(tmp_path / "demo-lake", demo_lake.DAYS, done.stdout, done.stderr)


def look(folder: Path, days: int, out: str, err: str) -> None:
    """What the demo printed, and the lake that it leaves."""
    assert "Traceback" not in out + err
    for shown in ("$ lakewarden table list", "after the rollback", "Nothing changed. Apply:", "policy run", "Try next"):
        assert shown in out
    with Warden.open(folder) as warden:
        tables = {row.table: row for row in warden.table.list()}
        loaded = {"main.sales.orders", "main.crm.customers", "main.web.events"}
        made = {"main.viewsets.daily_sales", "main.viewsets.daily_sales__empty", "main.sales.fees"}
        assert set(tables) == loaded | made
        assert warden.backfill.status(database="sales", version="3").status == "completed"
        assert tables["main.sales.orders"].files == days  # one a day: compacted
        assert [row.score for row in warden.table.health() if row.table in loaded] == [100, 100, 100]
        assert [batch.reason for batch in warden.orphan.list()] == ["expired"]
        assert tables["main.web.events"].format == 3
        assert {row.state for row in warden.operation.list()} == {"done", "planned"}  # the undo is only planned
        assert all("month-end" in {r.name for r in warden.table.show(table).refs} for table in loaded)


def test_never_removes_a_folder_that_is_not_a_demo(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "precious").write_text("x")
    assert run(["demo", str(tmp_path), "--fresh"]) == 1
    assert "not a demo" in capsys.readouterr().err
    assert (tmp_path / "precious").read_text() == "x"
