"""An operation that has had enough: it stops between two actions, is verified so far, and says what is left."""

from __future__ import annotations

from datetime import timedelta

import pytest

from lakewarden.errors import LakewardenError, SomeFailed
from lakewarden.lifecycle.action import Action
from lakewarden.lifecycle.states import State, Stop
from tests.lifecycle.house import House, Mark

MOMENT = timedelta(seconds=10)


def ten_seconds_each(house: House) -> None:
    """Let every action take ten seconds."""
    Mark.hooks.append(lambda action: house.pass_time(MOMENT))


def test_it_stops_between_two_actions_and_is_done_with_the_rest_listed(any_house: House) -> None:
    ten_seconds_each(any_house)

    report = any_house.start("t", "u", "v", budget="30s")

    assert report.state is State.DONE
    assert report.result == {
        "actions": 3,
        "subjects": 2,
        "marks": 3,
        "last": "mark u a",
        "left": 3,
        "stopped": "budget",
    }
    assert report.left == ("u: mark u b", "v: mark v a", "v: mark v b")
    assert any_house.steps() == [
        ("t a", "verified"),
        ("t b", "verified"),
        ("u a", "verified"),
        ("u b", "pending"),
        ("v a", "pending"),
        ("v b", "pending"),
    ]
    assert [action.says for what, action in Mark.seen if what == "verify"] == ["mark t a", "mark t b", "mark u a"]
    assert any_house.journal.get("op-0").state is State.DONE
    assert any_house.leases.held() == []
    assert report.document()["left"] == list(report.left)


def test_a_budget_that_suffices_is_not_spoken_of(house: House) -> None:
    ten_seconds_each(house)
    report = house.start("t", budget="20s")
    assert report.result == {"actions": 2, "subjects": 1, "marks": 2, "last": "mark t b"}
    assert "left" not in report.document()


def test_one_action_is_always_done_so_that_any_budget_comes_to_an_end(house: House) -> None:
    for done in range(1, 4):
        assert len(house.start("t", "u", budget="0s").left) == 4 - done
        assert len(house.lake.tables.refs) == done
    assert house.start("t", "u", budget="0s").left == ()


def test_what_was_applied_is_verified_though_the_rest_is_left(house: House) -> None:
    ten_seconds_each(house)
    with pytest.raises(SomeFailed, match="1 of 2 failed, 2 actions on others not done") as failed:
        house.start("t", "u", budget="10s", lies=True)
    assert "not the case after applying: mark t a" in failed.value.message
    record = house.journal.get("op-0")
    assert (record.state, [str(step.progress) for step in record.steps]) == (
        State.FAILED,
        ["done", "pending", "pending", "pending"],
    )


def test_a_resumed_run_has_its_budget_anew_and_verifies_what_the_first_applied(any_house: House) -> None:
    house = any_house

    def interrupt(action: Action) -> None:
        house.pass_time(MOMENT)
        if (action.subject, action.arguments["ref"]) == ("t", "b"):
            raise KeyboardInterrupt

    Mark.hooks.append(interrupt)
    with pytest.raises(LakewardenError, match="stopped after 1 of 4"):
        house.start("t", "u", budget="20s")
    house.pass_time(timedelta(days=1))  # it lay there for a day
    Mark.hooks.clear()
    ten_seconds_each(house)

    report = house.runner.run("op-0")

    assert report.left == ("u: mark u b",)
    assert [state for _, state in house.steps()] == ["verified", "verified", "verified", "pending"]


def test_what_an_earlier_run_applied_is_verified_even_where_nothing_more_is_begun(house: House) -> None:
    """Its tables were worked on side by side, and it was stopped halfway through all of them."""

    def interrupt(action: Action) -> None:
        if (action.subject, action.arguments["ref"]) == ("u", "b"):
            raise KeyboardInterrupt

    Mark.hooks.append(interrupt)
    id = house.store("t", "u", budget="10s")
    with pytest.raises(LakewardenError):
        house.runner.run(id)
    steps = house.journal.get(id).steps
    assert [str(step.progress) for step in steps] == ["verified", "verified", "done", "pending"]
    house.journal.step(id, steps[0])
    for step in (steps[0], steps[1]):  # as if t had been stopped before its first action, and come back to later
        house.journal.step(id, type(step)(step.action, step.subject, step.says, position=step.position))
    house.lake.tables.refs = {("u", "a"): 1}
    Mark.hooks.clear()
    ten_seconds_each(house)

    report = house.runner.run(id)

    assert report.left == ("t: mark t b", "u: mark u b")
    assert [state for _, state in house.steps(id)] == ["verified", "pending", "verified", "pending"]


def test_what_was_verified_before_a_budget_ended_is_not_looked_at_again(house: House) -> None:
    def fail_t(action: Action) -> None:
        house.pass_time(MOMENT)
        if action.subject == "t":
            raise LakewardenError("t is broken")

    Mark.hooks.append(fail_t)
    with pytest.raises(SomeFailed, match="1 of 2 failed, 1 action on others not done"):
        house.start("t", "u", budget="20s")
    assert [state for _, state in house.steps()] == ["failed", "pending", "verified", "pending"]
    house.lake.tables.refs.clear()  # what was done to u is taken back by somebody
    Mark.hooks.clear()
    Mark.seen.clear()

    report = house.runner.run("op-0")

    assert (report.state, report.result["actions"], report.left) == (State.DONE, 4, ())
    assert {action.says for _, action in Mark.seen} == {"mark t a", "mark t b", "mark u b"}


def test_a_cancel_wins_over_a_budget(house: House) -> None:
    id = house.store("t", budget="10s", silent=True)

    def cancel(action: Action) -> None:
        house.pass_time(MOMENT)
        house.journal.request_stop(id, Stop.CANCEL)

    Mark.hooks.append(cancel)
    with pytest.raises(LakewardenError, match="was cancelled after 1 of 2 actions"):
        house.runner.run(id)
    assert house.journal.get(id).state is State.CANCELLED


def test_what_is_left_is_not_taken_up_again_but_planned_anew(house: House) -> None:
    ten_seconds_each(house)
    house.start("t", "u", budget="10s")
    free, held = house.runner.unfinished()
    assert (free, held) == ([], [])
