"""`retention expire`: what changed between its plan and its apply is found, and keeps what it must keep."""

from __future__ import annotations

import pytest

from lakewarden.errors import DeletionForbidden, StalePlan
from tests.small_lake import SmallLake


@pytest.fixture
def with_ended_tag(lake: SmallLake) -> SmallLake:
    """A table whose first version has a tag with a keep period that is over."""
    lake.create("sales.orders", appends=4)
    table = lake.catalog.load_table("sales.orders")
    first = min(table.metadata.snapshots, key=lambda snapshot: snapshot.sequence_number)
    table.manage_snapshots().create_tag(first.snapshot_id, "release", max_ref_age_ms=1).commit()
    return lake


def test_a_tag_that_was_moved_meanwhile_stays(with_ended_tag: SmallLake) -> None:
    lake = with_ended_tag
    planned = lake.warden.retention.expire("sales.orders", keep_last=1, keep_days=0, expire_tags=True)
    assert planned.plan.actions[0].texts("tags") == ("release",)
    lake.catalog.load_table("sales.orders").manage_snapshots().remove_tag("release").commit()
    lake.catalog.load_table("sales.orders").manage_snapshots().create_tag(lake.head(), "release").commit()
    before = lake.metadata_files()
    with pytest.raises(StalePlan, match="tag release, which was to expire, moved from"):
        planned.apply()
    assert lake.refs()["release"] == lake.head()
    assert lake.metadata_files() == before


def test_a_tag_that_is_as_it_was_goes(with_ended_tag: SmallLake) -> None:
    lake = with_ended_tag
    lake.warden.retention.expire("sales.orders", keep_last=1, keep_days=0, expire_tags=True).apply()
    assert set(lake.refs()) == {"main"}


def test_deletion_that_was_forbidden_meanwhile(lake: SmallLake) -> None:
    lake.create("sales.orders", appends=4)
    planned = lake.warden.retention.expire("sales.orders", keep_last=1, keep_days=0)
    with lake.catalog.load_table("sales.orders").transaction() as change:
        change.set_properties({"gc.enabled": "false"})
    with pytest.raises(DeletionForbidden, match="gc.enabled=false"):
        planned.apply()
    assert len(lake.warden.version.list("sales.orders")) == 4


def test_a_table_that_is_registered_twice(lake: SmallLake) -> None:
    """The other one's versions need the files that this one's expiry would remove."""
    lake.create("sales.orders", appends=4)
    lake.catalog.register_table("sales.again", lake.catalog.load_table("sales.orders").metadata_location)
    with pytest.raises(DeletionForbidden, match="shares its location with main.sales.again"):
        lake.warden.retention.expire("sales.orders", keep_last=1, keep_days=0)
    assert lake.ids("sales.again") == list(range(8))
