"""`version show`."""

from __future__ import annotations

import pyarrow as pa

from tests.features.version.test_tag import ends_in
from tests.small_lake import ANY_FORMAT, SmallLake


@ANY_FORMAT
def test_shows_one_version_in_full(orders: SmallLake) -> None:
    oldest = orders.warden.version.list("sales.orders")[-1]
    orders.warden.version.tag(f"sales.orders@{oldest.snapshot_id}", "v1", keep="90d", note="first load").apply()

    shown = orders.warden.version.show("sales.orders@v1")

    assert shown.snapshot_id == oldest.snapshot_id
    assert shown.parent_snapshot_id is None
    assert (shown.rows, shown.rows_added) == (2, 2)
    assert shown.on_main
    assert [(ref.name, ref.kind, ref.note) for ref in shown.refs] == [("v1", "tag", "first load")]
    assert ends_in(shown.refs[0], days=90)
    assert [column.name for column in shown.columns] == ["id", "city"]


def test_shows_the_schema_the_version_was_written_with(lake: SmallLake) -> None:
    lake.create()
    lake.warden.version.tag("sales.orders", "narrow").apply()
    table = lake.catalog.load_table("sales.orders")
    with table.update_schema() as update:
        update.union_by_name(pa.schema([("country", pa.string())]))
    table.append(pa.table({"id": [9], "city": ["Chur"], "country": ["CH"]}))

    assert [c.name for c in lake.warden.version.show("sales.orders@narrow").columns] == ["id", "city"]
    assert [c.name for c in lake.warden.version.show("sales.orders").columns] == ["id", "city", "country"]


def test_tells_a_version_that_is_not_on_main(lake: SmallLake) -> None:
    lake.create()
    newest, *_, oldest = lake.warden.version.list("sales.orders")
    lake.warden.version.rollback(f"sales.orders@{oldest.snapshot_id}").apply()

    assert not lake.warden.version.show(f"sales.orders@{newest.snapshot_id}").on_main
