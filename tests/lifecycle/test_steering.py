"""Operations that are asked to pause or to end while they run, by another process or by themselves."""

from __future__ import annotations

import json
import time
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.transforms import IdentityTransform

from lakewarden.errors import IllegalTransition, Interrupted, StorageUnavailable
from lakewarden.lifecycle.action import Action
from lakewarden.lifecycle.ground import Writer
from lakewarden.lifecycle.plan import Plan
from lakewarden.lifecycle.states import State, Stop
from tests.lifecycle.house import House, Mark
from tests.small_lake import SmallLake


def ask(house: House, stop: Stop, at: str = "mark t a") -> None:
    """Have somebody ask for it while this action is applied."""

    def asks(action: Action) -> None:
        if action.says == at:
            house.runner.pause("op-0") if stop is Stop.PAUSE else house.runner.cancel("op-0")

    Mark.hooks.append(asks)


@pytest.mark.parametrize(
    ("stop", "state", "message"),
    [(Stop.PAUSE, State.PAUSED, "was paused"), (Stop.CANCEL, State.CANCELLED, "was cancelled")],
)
def test_both_are_heard_within_a_long_action(any_house: House, stop: Stop, state: State, message: str) -> None:
    ask(any_house, stop)
    with pytest.raises(Interrupted, match=f"{message} after 0 of 2 actions"):
        any_house.start("t")
    record = any_house.journal.get("op-0")
    assert (record.state, record.stop_requested) == (state, stop)
    assert any_house.steps() == [("t a", "pending"), ("t b", "pending")]
    assert any_house.leases.held() == []


def test_within_an_action_the_journal_is_looked_at_once_a_second(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    real = house.journal.stop_requested

    def look(id: str) -> Stop | None:
        looked.append(id)
        return real(id)

    monkeypatch.setattr(house.journal, "stop_requested", look)
    house.start("t", "u")
    assert len(looked) == 4 + 1  # before each of four actions, and once within the first: no time passes here


@pytest.mark.parametrize("parallel", [1, 3])
def test_what_was_paused_continues_by_its_id_only(any_house: House, parallel: int) -> None:
    house = any_house
    ask(house, Stop.PAUSE, at="mark t a")
    with pytest.raises(Interrupted, match="was paused"):
        house.start("t", "u", "v", parallel=parallel)
    Mark.hooks.clear()

    assert house.runner.unfinished() == ([], [])
    assert [record.id for record in house.runner.paused()] == ["op-0"]
    with pytest.raises(Interrupted):  # as by a bare resume that had seen it just before
        house.runner.run("op-0", by_its_id=False)
    assert house.journal.get("op-0").state is State.PAUSED

    assert house.runner.run("op-0").state is State.DONE
    assert {progress for _, progress in house.steps()} == {"verified"}
    assert house.journal.get("op-0").stop_requested is None


def test_an_interrupted_one_is_no_paused_one(house: House) -> None:
    def interrupt(action: Action) -> None:
        raise KeyboardInterrupt

    Mark.hooks.append(interrupt)
    with pytest.raises(Interrupted, match="stopped after 0 of 2"):
        house.start("t")
    free, _ = house.runner.unfinished()
    assert [record.id for record in free] == ["op-0"] and house.runner.paused() == []

    assert house.runner.pause("op-0").state is State.PAUSED  # now it is meant
    assert house.runner.unfinished() == ([], []) and [r.id for r in house.runner.paused()] == ["op-0"]


@pytest.mark.parametrize("stop", [Stop.PAUSE, Stop.CANCEL, None])
def test_an_operation_hears_that_its_run_stops(
    house: House, stop: Stop | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To discard what only this run could publish; that it fails changes nothing."""
    heard: list[str] = []

    def stopped(self: Mark, plan: Plan, lake: Writer) -> None:
        heard.append(f"{len(plan.actions)} of {lake.stamp.operation}")
        raise StorageUnavailable("not now")

    monkeypatch.setattr(Mark, "stopped", stopped)
    if stop is not None:
        ask(house, stop, at="mark t a")
        with pytest.raises(Interrupted):
            house.start("t")
    else:
        house.start("t")
    assert heard == ([] if stop is None else ["2 of op-0"])


def test_what_its_process_never_heard_is_paused_all_the_same(house: House) -> None:
    """Killed after somebody had asked for a pause: a bare resume does not continue it."""
    id = house.store("t")
    house.journal.move(id, State.RUNNING, house.now)
    house.journal.request_stop(id, Stop.PAUSE)
    assert house.runner.unfinished() == ([], [])
    assert house.runner.pause(id).state is State.PAUSED
    assert house.runner.run(id).state is State.DONE


def test_only_what_has_begun_and_not_ended_can_be_paused(house: House) -> None:
    planned = house.store("t")
    with pytest.raises(IllegalTransition, match="is planned: there is nothing to pause") as refused:
        house.runner.pause(planned)
    assert refused.value.hint == f"Discard the plan with: lakewarden operation cancel {planned}"
    house.runner.apply(planned)
    with pytest.raises(IllegalTransition, match="is done: there is nothing to pause"):
        house.runner.pause(planned)


def test_a_cancel_is_not_taken_back_by_a_pause(any_house: House) -> None:
    id = any_house.store("t")
    any_house.journal.request_stop(id, Stop.PAUSE)
    any_house.journal.request_stop(id, Stop.CANCEL)
    any_house.journal.request_stop(id, Stop.PAUSE)
    assert any_house.journal.stop_requested(id) is Stop.CANCEL


def test_an_operation_pauses_itself_after_a_count(any_house: House) -> None:
    """What it has applied is verified; each time it is resumed, it may do as much again."""
    report = any_house.start("t", "u", pause_after=3)
    assert (report.state, report.result["left"], report.result["stopped"]) == (State.PAUSED, 1, "pause")
    assert report.left == ("u: mark u b",)
    assert any_house.steps() == [("t a", "verified"), ("t b", "verified"), ("u a", "verified"), ("u b", "pending")]
    assert any_house.runner.unfinished() == ([], [])

    report = any_house.runner.run("op-0")
    assert (report.state, report.left) == (State.DONE, ())
    assert [verb for verb, action in Mark.seen if verb == "apply"] == ["apply"] * 4


def test_a_count_that_suffices_is_not_spoken_of(house: House) -> None:
    report = house.start("t", pause_after=2)
    assert (report.state, "stopped" in report.result) == (State.DONE, False)


def test_a_limit_of_time_counts_first(house: House) -> None:
    Mark.hooks.append(lambda action: house.pass_time(timedelta(seconds=10)))
    report = house.start("t", "u", pause_after=4, budget="10s")
    assert (report.state, report.result["stopped"]) == (State.DONE, "budget")


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.soak
def test_a_compaction_of_many_groups_paused_by_another_process(tmp_path: Path) -> None:
    with SmallLake(tmp_path / "lake") as lake:
        lake.catalog.create_namespace("db")
        table = lake.catalog.create_table("db.parts", pa.schema([("id", pa.int64()), ("part", pa.int32())]))
        with table.update_spec() as change:
            change.add_field("part", IdentityTransform())
        for n in range(6):
            table.append(pa.table({"id": [n], "part": pa.array([n % 3], pa.int32())}))
        each_alone = ("--rewrite-all", "--max-concurrent-files", "1")
        gate = tmp_path / "gate"
        running = lake.start(
            *("compaction", "compact", "db.parts", *each_alone, "--apply", "--json"),
            failpoints=f"wait@action.journaled:{gate}",
        )
        deadline = time.monotonic() + 120
        while not gate.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        (row,) = lake.warden.operation.list()

        asked = json.loads(lake.run("operation", "pause", row.id, "--json").stdout)
        gate.unlink()
        out, _ = running.communicate(timeout=120)

        assert (asked["state"], asked["problem"]) == ("running", "pause requested")
        assert running.returncode == 1 and json.loads(out)["error"]["message"].endswith(
            "was paused after 1 of 3 actions"
        )
        assert len(lake.catalog.load_table("db.parts").inspect.data_files()) == 5  # one group of two is one file now
        (left,) = json.loads(lake.run("operation", "resume", "--json").stdout)
        assert (left["state"], left["done"], left["problem"]) == ("paused", 1, "paused until it is resumed by its id")

        (resumed,) = lake.warden.operation.resume(row.id)
        assert (resumed.state, resumed.done) == ("done", 3)
        assert len(lake.catalog.load_table("db.parts").inspect.data_files()) == 3
        assert sorted(lake.catalog.load_table("db.parts").scan().to_arrow()["id"].to_pylist()) == list(range(6))
