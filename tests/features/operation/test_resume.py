"""`operation resume`. What a kill at every step leaves behind is in tests/lifecycle/test_crashes.py."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from lakewarden.errors import IllegalTransition, SomeFailed, StateUnavailable
from tests.cases import in_soak
from tests.small_lake import SmallLake


@pytest.mark.parametrize("signal_number", [signal.SIGINT, *in_soak(signal.SIGTERM)])
def test_an_interrupted_operation_is_paused_and_goes_on(
    any_lake: SmallLake, tmp_path: Path, signal_number: signal.Signals
) -> None:
    for name in ("sales.a", "sales.b"):
        any_lake.create(name, appends=1)
    gate = tmp_path / "gate"
    running = any_lake.start("version", "tag", "sales.*", "v1", failpoints=f"wait@action.journaled:{gate}")
    while not gate.exists():
        time.sleep(0.02)
    running.send_signal(signal_number)
    _, err = running.communicate(timeout=60)

    (row,) = any_lake.warden.operation.list()
    assert (running.returncode, row.state) == (1, "paused")
    assert f"lakewarden operation resume {row.id}" in err

    (resumed,) = any_lake.warden.operation.resume(row.id)
    assert (resumed.state, resumed.done) == ("done", 2)
    assert "v1" in any_lake.refs("sales.b")


def test_there_may_be_nothing_to_resume(any_lake: SmallLake) -> None:
    any_lake.create()
    done = any_lake.warden.version.tag("sales.orders", "v1").apply()
    planned = any_lake.warden.version.untag("sales.orders", "v1").store()

    assert any_lake.warden.operation.resume() == []
    with pytest.raises(IllegalTransition, match="nothing to resume"):
        any_lake.warden.operation.resume(done.id)
    with pytest.raises(IllegalTransition) as refused:
        any_lake.warden.operation.resume(planned)
    assert refused.value.hint == f"Apply it with: lakewarden operation apply {planned}"


def test_a_failed_one_is_tried_again_when_named(any_lake: SmallLake) -> None:
    for name in ("sales.a", "sales.b"):
        any_lake.create(name, appends=1)
    planned = any_lake.warden.version.tag("sales.*", "v1")
    moved, head = any_lake.append("sales.a"), any_lake.head("sales.b")
    outside = any_lake.catalog.load_table("sales.a")
    outside.manage_snapshots().create_tag(moved, "v1").commit()
    with pytest.raises(SomeFailed) as failed:
        planned.apply()
    assert any_lake.refs("sales.b")["v1"] == head

    outside.refresh()
    outside.manage_snapshots().remove_tag("v1").commit()
    assert any_lake.warden.operation.resume() == []
    (row,) = any_lake.warden.operation.resume(failed.value.details["operation"])

    assert (row.state, row.done) == ("done", 2)
    assert any_lake.refs("sales.a")["v1"] != moved


def test_a_row_that_another_version_wrote_can_be_listed_and_cancelled_but_not_run(any_lake: SmallLake) -> None:
    any_lake.create()
    id = any_lake.warden.version.tag("sales.orders", "v1").store()
    database = any_lake.warden.ground.database
    with database.begin() as connection:
        connection.exec_driver_sql("UPDATE operations SET plan = '{}'")

    assert [row.id for row in any_lake.warden.operation.list()] == [id]
    with pytest.raises(StateUnavailable, match="cannot be run") as refused:
        any_lake.warden.operation.apply(id)
    assert "another version" in refused.value.hint
    assert any_lake.warden.operation.cancel(id).state == "cancelled"
