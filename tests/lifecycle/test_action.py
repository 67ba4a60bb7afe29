"""Actions as values: their arguments, and what their ids stand for."""

from __future__ import annotations

from dataclasses import replace

from lakewarden.lifecycle.action import Action, Facts
from lakewarden.lifecycle.plan import Plan

LISTS: Facts = {"requests": ("er-1", "er-2"), "none": (), "at": "7205759403792793600", "size": 12, "nothing": None}


def an_action(arguments: Facts = LISTS) -> Action:
    return Action("hide", "main.crm.people", "table:u", "hide rows", arguments)


def test_arguments_may_be_lists_which_a_plan_keeps_as_json() -> None:
    action = an_action()
    assert action.texts("requests") == ("er-1", "er-2")
    assert action.texts("none") == action.texts("not given") == ()
    plan = Plan("erasure.hide", "main.crm.people", (action,))
    assert plan.document()["actions"][0]["arguments"]["requests"] == ["er-1", "er-2"]
    assert Plan.from_json(plan.to_json()) == plan and Plan.from_json(plan.to_json()).id == plan.id


def test_numbers_are_read_from_numbers_and_from_ids_as_text() -> None:
    action = an_action()
    assert action.number("at") == 7205759403792793600
    assert (action.number("size"), action.number("nothing"), action.number("not given")) == (12, 0, 0)


def test_an_id_stands_for_what_is_done_and_not_for_how_it_is_held_or_told() -> None:
    action = an_action()
    assert replace(action, lease="table:v", says="in other words", expects={"rows": 3}).id == action.id
    assert replace(action, subject="main.crm.others").id != action.id
    assert an_action({**LISTS, "requests": ("er-1,er-2",)}).id != action.id
