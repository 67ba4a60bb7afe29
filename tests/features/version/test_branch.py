"""`version branch`."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakewarden.errors import AlreadyExists
from tests.features.version.test_tag import ends_in
from tests.small_lake import ANY_FORMAT, SCHEMA, SmallLake


def test_starts_a_branch_that_can_be_read_by_name(orders: SmallLake) -> None:
    oldest = orders.warden.version.list("sales.orders")[-1]

    report = orders.warden.version.branch(f"sales.orders@{oldest.snapshot_id}", "audit", keep="30d").apply()

    assert report.result["branches"] == 1
    assert orders.refs()["audit"] == oldest.snapshot_id
    assert len(orders.warden.version.read("sales.orders@audit")) == 2
    (branch,) = [ref for ref in orders.warden.table.show("sales.orders").refs if ref.name == "audit"]
    assert branch.kind == "branch" and ends_in(branch, days=30)


@ANY_FORMAT
def test_a_name_that_is_taken_by_a_tag_is_refused(orders: SmallLake) -> None:
    orders.warden.version.tag("sales.orders", "v1").apply()
    with pytest.raises(AlreadyExists, match="already has a tag v1"):
        orders.warden.version.branch("sales.orders", "v1")


def test_a_branch_that_is_written_to_before_it_is_verified_stands_all_the_same(lake: SmallLake) -> None:
    lake.create()
    planned = lake.warden.version.branch("sales.orders", "audit")
    (action,) = planned.plan.actions
    planned.apply()
    rows = pa.table({"id": [99], "city": ["Chur"]}, schema=SCHEMA)
    lake.catalog.load_table("sales.orders").append(rows, branch="audit")

    assert lake.refs()["audit"] != lake.head()
    assert planned.operation.holds(action, lake.warden.ground)
