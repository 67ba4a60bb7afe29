"""`operation apply`.

Covers `features/operation/identity.py`.
"""

from __future__ import annotations

import pytest

from lakewarden.errors import IllegalTransition, StalePlan
from tests.small_lake import SmallLake


@pytest.mark.parametrize("by", ["operation", "plan"])
def test_applies_a_plan_made_earlier(any_lake: SmallLake, by: str) -> None:
    any_lake.create()
    any_lake.warden.version.tag("sales.orders", "v1").apply()
    planned = any_lake.warden.version.untag("sales.orders", "v1")
    id = planned.store()

    report = any_lake.warden.operation.apply(id if by == "operation" else planned.plan.id)

    assert (report.id, str(report.state)) == (id, "done")
    assert set(any_lake.refs()) == {"main"}


def test_the_same_plan_is_stored_once_and_applied_once(any_lake: SmallLake) -> None:
    any_lake.create()
    first = any_lake.warden.version.tag("sales.orders", "v1").store()
    assert any_lake.warden.version.tag("sales.orders", "v1").store() == first

    assert any_lake.warden.version.tag("sales.orders", "v1").apply().id == first
    with pytest.raises(IllegalTransition, match=f"{first} is done, not planned"):
        any_lake.warden.operation.apply(first)


def test_a_table_that_changed_since_makes_it_stale(any_lake: SmallLake) -> None:
    any_lake.create()
    oldest = any_lake.warden.version.list("sales.orders")[-1].snapshot_id
    was = any_lake.head()
    id = any_lake.warden.version.rollback(f"sales.orders@{oldest}").store()
    now = any_lake.append()
    files = any_lake.metadata_files()

    with pytest.raises(StalePlan, match=f"ref main of main.sales.orders moved from {was} to {now}"):
        any_lake.warden.operation.apply(id)

    assert any_lake.metadata_files() == files
    assert any_lake.refs() == {"main": now}


def test_a_table_made_anew_under_the_same_name_is_not_touched(any_lake: SmallLake) -> None:
    any_lake.create()
    id = any_lake.warden.version.tag("sales.orders", "v1").store()
    any_lake.catalog.drop_table("sales.orders")
    any_lake.create()

    with pytest.raises(StalePlan, match="was recreated: its UUID was .* and is now"):
        any_lake.warden.operation.apply(id)

    assert set(any_lake.refs()) == {"main"}


def test_a_table_that_is_gone(any_lake: SmallLake) -> None:
    any_lake.create()
    id = any_lake.warden.version.tag("sales.orders", "v1").store()
    any_lake.catalog.drop_table("sales.orders")

    with pytest.raises(StalePlan, match="main.sales.orders no longer exists"):
        any_lake.warden.operation.apply(id)
    assert any_lake.warden.operation.show(id).state == "failed"
