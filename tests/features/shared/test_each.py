"""One plan for many tables: a table that cannot be planned for does not hold up the others."""

from __future__ import annotations

import pytest

from lakewarden.engine.base.table_name import TableName
from lakewarden.errors import LakewardenError
from lakewarden.features.retention.expire import Expire
from lakewarden.features.shared.each import refusal
from lakewarden.lifecycle.action import Action
from lakewarden.lifecycle.plan import Plan
from tests.small_lake import SmallLake


@pytest.fixture
def two(lake: SmallLake) -> SmallLake:
    for name in ("sales.good", "sales.bad"):
        lake.create(name, appends=0)
    return lake


def plan_one(name: TableName) -> Plan:
    if name.within_lake == "sales.bad":
        raise LakewardenError("it is broken", "Fix it.")
    return Plan("one", str(name), (Action("act", str(name), "uuid", "act", {}),), warnings=(f"look at {name}",))


def test_what_is_wrong_with_one_of_many_is_a_finding(two: SmallLake) -> None:
    plan = Expire(table="sales.*").plan_each(two.warden.ground, plan_one)
    assert (plan.kind, plan.target) == ("retention.expire", "sales.*")
    assert plan.subjects == ("main.sales.good",) and plan.warnings == ("look at main.sales.good",)
    assert [(found.subject, found.message) for found in plan.refused] == [("main.sales.bad", "it is broken. Fix it.")]


def test_what_is_wrong_with_the_only_one_is_raised(two: SmallLake) -> None:
    with pytest.raises(LakewardenError, match="it is broken"):
        Expire(table="sales.bad").plan_each(two.warden.ground, plan_one)
    plan = Expire(table="sales.good").plan_each(two.warden.ground, plan_one)
    assert (plan.kind, plan.target) == ("retention.expire", "main.sales.good")


def test_a_refusal_without_a_hint_is_its_message() -> None:
    assert refusal("sales.bad", LakewardenError("it is broken")).message == "it is broken"
