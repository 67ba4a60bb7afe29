"""`version branch`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from lakewarden.errors import AlreadyExists
from tests.features.version.test_tag import ends_in
from tests.reachability import aged
from tests.small_lake import ANY_FORMAT, SCHEMA, SmallLake


def test_starts_a_branch_that_can_be_read_by_name(orders: SmallLake) -> None:
    oldest = orders.warden.version.list("sales.orders")[-1]

    report = orders.warden.version.branch(f"sales.orders@{oldest.snapshot_id}", "audit", keep="30d").apply()

    assert report.result["branches"] == 1
    assert orders.refs()["audit"] == oldest.snapshot_id
    assert len(orders.warden.version.read("sales.orders@audit")) == 2
    assert audit_of(orders).kind == "branch" and ends_in(audit_of(orders), days=30)


def test_a_keep_period_counts_from_now_and_each_commit_adds_the_age_of_the_version(orders: SmallLake) -> None:
    oldest = orders.warden.version.list("sales.orders")[-1].snapshot_id
    aged(orders, "sales.orders", 33)
    planned = orders.warden.version.branch(f"sales.orders@{oldest}", "audit", keep="30d")
    end = datetime.now(UTC) + timedelta(days=30)
    assert planned.plan.actions[0].says.endswith(
        f", kept 30d, until {end:%Y-%m-%d}; each commit to it keeps it 63 days more, as Iceberg counts from the "
        "version's own commit"
    )

    report = planned.apply()

    ref = orders.catalog.load_table("sales.orders").metadata.refs["audit"]
    assert timedelta(days=63) <= timedelta(milliseconds=ref.max_ref_age_ms or 0) < timedelta(days=63, minutes=2)
    assert ends_in(audit_of(orders), days=30)
    assert report.result["kept_until"] == audit_of(orders).kept_until.isoformat(timespec="seconds")


def audit_of(lake: SmallLake) -> Any:
    (branch,) = [ref for ref in lake.warden.table.show("sales.orders").refs if ref.name == "audit"]
    return branch


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
