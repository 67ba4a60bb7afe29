"""`operation cancel`."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from lakewarden.errors import IllegalTransition
from tests.small_lake import SmallLake


def test_a_planned_operation_ends_at_once(any_lake: SmallLake) -> None:
    any_lake.create()
    id = any_lake.warden.version.tag("sales.orders", "v1").store()

    assert any_lake.warden.operation.cancel(id).state == "cancelled"

    with pytest.raises(IllegalTransition):
        any_lake.warden.operation.apply(id)
    with pytest.raises(IllegalTransition):
        any_lake.warden.operation.cancel(id)
    assert set(any_lake.refs()) == {"main"}


def test_a_running_operation_ends_between_two_actions(any_lake: SmallLake, tmp_path: Path) -> None:
    for name in ("sales.a", "sales.b"):
        any_lake.create(name, appends=1)
    gate = tmp_path / "gate"
    running = any_lake.start("version", "tag", "sales.*", "v1", "--json", failpoints=f"wait@action.applied:{gate}")
    while not gate.exists():
        time.sleep(0.02)
    (row,) = any_lake.warden.operation.list()

    asked = any_lake.warden.operation.cancel(row.id)
    gate.unlink()
    out, _ = running.communicate(timeout=60)

    assert asked.state == "running"
    assert running.returncode == 1
    assert json.loads(out)["error"]["code"] == "interrupted"
    assert "v1" in any_lake.refs("sales.a")
    assert "v1" not in any_lake.refs("sales.b")
    assert any_lake.warden.operation.show(row.id).state == "cancelled"


def test_what_is_done_cannot_be_cancelled(lake: SmallLake) -> None:
    lake.create()
    done = lake.warden.version.tag("sales.orders", "v1").apply()
    with pytest.raises(IllegalTransition, match="is done and cannot become cancelled"):
        lake.warden.operation.cancel(done.id)
