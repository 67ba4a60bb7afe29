"""`version untag`."""

from __future__ import annotations

import pytest

from lakewarden.errors import StalePlan, VersionNotFound
from tests.small_lake import ANY_FORMAT, SmallLake


def test_takes_the_tag_away_and_leaves_everything_else(orders: SmallLake) -> None:
    orders.warden.version.tag("sales.orders", "v1").apply()
    orders.warden.version.tag("sales.orders", "v2").apply()
    rows = orders.ids()

    report = orders.warden.version.untag("sales.orders", "v1").apply()

    assert report.result["tags_removed"] == 1
    assert set(orders.refs()) == {"main", "v2"}
    assert orders.ids() == rows


def test_warns_where_nothing_else_leads_to_the_version(lake: SmallLake) -> None:
    lake.create()
    newest, *_, oldest = lake.warden.version.list("sales.orders")
    lake.warden.version.tag("sales.orders", "on-main").apply()
    lake.warden.version.rollback(f"sales.orders@{oldest.snapshot_id}").apply()

    assert lake.warden.version.untag("sales.orders", "on-main").plan.warnings == ()
    lake.warden.version.untag("sales.orders", "on-main").apply()
    (warning,) = lake.warden.version.untag("sales.orders", f"before-rollback-{newest.snapshot_id}").plan.warnings
    assert "nothing else protects" in warning


@ANY_FORMAT
def test_a_tag_that_is_not_there(orders: SmallLake) -> None:
    orders.warden.version.tag("sales.orders", "month-end").apply()
    with pytest.raises(VersionNotFound) as refused:
        orders.warden.version.untag("sales.orders", "month-ned")
    assert refused.value.hint == "Did you mean month-end?"


def test_a_branch_is_not_removed_by_untag(lake: SmallLake) -> None:
    lake.create()
    with pytest.raises(VersionNotFound, match="main is a branch"):
        lake.warden.version.untag("sales.orders", "main")


def test_a_tag_that_was_moved_meanwhile_stays(orders: SmallLake) -> None:
    orders.warden.version.tag("sales.orders", "v1").apply()
    planned = orders.warden.version.untag("sales.orders", "v1")
    old = orders.head()
    orders.warden.version.untag("sales.orders", "v1").apply()
    new = orders.append()
    orders.warden.version.tag("sales.orders", "v1").apply()

    with pytest.raises(StalePlan, match=f"ref v1 .* moved from {old} to {new}"):
        orders.warden.runner().start(planned.operation, planned.plan)

    assert orders.refs()["v1"] == new
