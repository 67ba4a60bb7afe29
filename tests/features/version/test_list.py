"""`version list`.

Covers `features/version/history.py`.
"""

from __future__ import annotations

import pytest

from lakewarden.errors import TableNotFound
from tests.small_lake import ANY_FORMAT, SmallLake


@ANY_FORMAT
def test_lists_every_version_newest_first_with_its_names(orders: SmallLake) -> None:
    first = orders.warden.version.list("sales.orders")[-1].snapshot_id
    orders.warden.version.tag(f"sales.orders@{first}", "v1").apply()
    orders.warden.version.branch(f"sales.orders@{first}", "audit").apply()

    rows = orders.warden.version.list("sales.orders")

    assert [row.rows for row in rows] == [6, 4, 2]
    assert [row.files is not None and row.files > 0 for row in rows] == [True] * 3
    assert rows[0].branches == ["main"]
    assert (rows[2].tags, rows[2].branches) == (["v1"], ["audit"])
    assert rows == sorted(rows, key=lambda row: row.committed_at, reverse=True)
    assert {row.operation for row in rows} == {"append"}


def test_limit_and_tagged(lake: SmallLake) -> None:
    lake.create()
    lake.warden.version.tag("sales.orders", "v3").apply()
    lake.append()

    assert len(lake.warden.version.list("sales.orders", limit=2)) == 2
    assert [row.tags for row in lake.warden.version.list("sales.orders", tagged=True)] == [[], ["v3"]]


def test_shows_versions_that_no_branch_leads_to(lake: SmallLake) -> None:
    lake.create()
    versions = [row.snapshot_id for row in lake.warden.version.list("sales.orders")]
    lake.warden.version.rollback(f"sales.orders@{versions[-1]}").apply()
    lake.warden.version.untag("sales.orders", f"before-rollback-{versions[0]}").apply()

    assert [row.snapshot_id for row in lake.warden.version.list("sales.orders")] == versions


def test_a_table_without_versions_has_none(lake: SmallLake) -> None:
    lake.create(appends=0)
    assert lake.warden.version.list("sales.orders") == []


def test_unknown_table_names_the_nearest(lake: SmallLake) -> None:
    lake.create()
    with pytest.raises(TableNotFound) as refused:
        lake.warden.version.list("sales.ordrs")
    assert refused.value.hint == "Did you mean sales.orders?"


@pytest.mark.spark
def test_says_who_wrote_it_and_counts_only_live_rows(lake: SmallLake) -> None:
    sql = lake.warden.ground.spark.sql
    sql("CREATE NAMESPACE main.web")
    sql("CREATE TABLE main.web.events (id BIGINT) USING iceberg TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')")
    sql("INSERT INTO main.web.events SELECT id FROM range(10)")
    sql("DELETE FROM main.web.events WHERE id IN (3, 4)")

    newest, first = lake.warden.version.list("web.events")

    assert newest.who.startswith("lakewarden (spark 4.1")  # the application's name, and its engine
    assert (first.rows, newest.rows) == (10, 8)
