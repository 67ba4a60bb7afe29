"""Looking up tables and versions of them by name, without a JVM.

Covers `engine/base/faults.py`, `engine/base/route.py` and `engine/catalog/contents.py`.
"""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from threading import Barrier
from typing import Any

import pyarrow as pa
import pytest
import yaml
from sqlalchemy import text

from lakewarden.engine.base.table_name import TableName
from lakewarden.engine.catalog.tables import find_snapshot
from lakewarden.engine.commit.refs import RefChange, SetRef
from lakewarden.errors import (
    BadReference,
    BrokenTable,
    CatalogUnavailable,
    LakeNotFound,
    NotFound,
    StorageUnavailable,
    TableNotFound,
    UnsupportedTable,
    VersionNotFound,
)
from lakewarden.features.lake.init import Init
from lakewarden.quantities import from_millis
from lakewarden.warden import Warden
from tests.engine.lakes import Lake, lake, local, read_only
from tests.small_lake import SmallLake

__all__ = ["lake"]


class Orders:
    """A lake with sales.orders in it, which has three versions at different times."""

    def __init__(self, lake: Lake) -> None:
        self.lake = lake
        lake.create("sales.orders", appends=0)
        for _ in range(3):
            lake.append()
            time.sleep(0.003)
        self.snapshots = list(lake.table().metadata.snapshots)
        self.ids = [int(snapshot.snapshot_id) for snapshot in self.snapshots]

    def at(self, text: str) -> int:
        return int(self.lake.tables.resolve(f"sales.orders@{text}").snapshot.snapshot_id)

    def name_it(self, name: str, snapshot: int, kind: Any = "tag") -> None:
        uuid = str(self.lake.table().metadata.table_uuid)
        set_ref = SetRef(name, kind, snapshot)
        self.lake.direct.publish(RefChange("main.sales.orders", uuid, expects={name: None}, set=(set_ref,)))

    def moment(self, version: int) -> datetime:
        return from_millis(self.snapshots[version].timestamp_ms)


@pytest.fixture
def orders(lake: Lake) -> Orders:
    return Orders(lake)


class TestRefs:
    def test_no_ref_is_the_head(self, orders: Orders) -> None:
        resolved = orders.lake.tables.resolve("sales.orders")
        assert resolved.snapshot.snapshot_id == orders.ids[2]
        assert resolved.name == TableName("main", ("sales",), "orders")

    def test_by_snapshot_id(self, orders: Orders) -> None:
        assert [orders.at(str(each)) for each in orders.ids] == orders.ids

    def test_by_branch_and_tag(self, orders: Orders) -> None:
        orders.name_it("v1", orders.ids[0])
        orders.name_it("fix", orders.ids[1], "branch")
        assert (orders.at("v1"), orders.at("fix"), orders.at("main")) == (orders.ids[0], orders.ids[1], orders.ids[2])

    @pytest.mark.parametrize(
        "name", ["20240101", "2024", "42", "007", "2024-01-01", "2024-01-01T10:00", "a.b", "a@b", "`", "é"]
    )
    def test_a_name_wins_over_what_else_it_looks_like(self, orders: Orders, name: str) -> None:
        orders.name_it(name, orders.ids[0])
        assert orders.at(name if "`" not in name else "````") == orders.ids[0]

    def test_a_name_that_is_another_snapshots_id(self, orders: Orders) -> None:
        orders.name_it(str(orders.ids[0]), orders.ids[0])
        assert orders.at(str(orders.ids[0])) == orders.ids[0]  # both say the same
        orders.name_it(str(orders.ids[1]), orders.ids[2])
        with pytest.raises(BadReference, match=f"{orders.ids[1]} is both a tag and another snapshot's id") as caught:
            orders.at(str(orders.ids[1]))
        assert caught.value.hint

    def test_an_unknown_name(self, orders: Orders) -> None:
        orders.name_it("month-end", orders.ids[0])
        with pytest.raises(VersionNotFound, match="has no tag, branch, snapshot or time 'mont-end'") as near:
            orders.at("mont-end")
        assert near.value.hint == "Did you mean month-end?"
        with pytest.raises(VersionNotFound) as far:
            orders.at("xyz")
        assert far.value.hint == "It has main, month-end; lakewarden version list main.sales.orders shows all."

    @pytest.mark.parametrize("ref", ["1", "0", "9" * 40, "²", "١٢"])
    def test_an_unknown_snapshot(self, orders: Orders, ref: str) -> None:
        with pytest.raises(VersionNotFound, match=f"main.sales.orders has no snapshot '{ref}'"):
            orders.at(ref)

    def test_names_are_case_sensitive(self, orders: Orders) -> None:
        orders.name_it("V1", orders.ids[0])
        with pytest.raises(VersionNotFound):
            orders.at("v1")

    def test_many_names_are_not_all_told(self, orders: Orders) -> None:
        for number in range(10):
            orders.name_it(f"release-{number}", orders.ids[0])
        with pytest.raises(VersionNotFound) as caught:
            orders.at("?")
        assert " …;" in caught.value.hint and "release-9" not in caught.value.hint


class TestTimes:
    def test_exactly_at_and_around(self, orders: Orders) -> None:
        for version, id in enumerate(orders.ids):
            moment = orders.moment(version)
            assert orders.at(moment.isoformat()) == id
            assert orders.at((moment + timedelta(microseconds=1)).isoformat()) == id
            if version:
                assert orders.at((moment - timedelta(microseconds=1)).isoformat()) == orders.ids[version - 1]

    def test_every_millisecond_is_exact(self, orders: Orders) -> None:
        """A float of seconds times 1000 is off by one for some; here all of a second are tried."""
        table = orders.lake.table()
        entry = table.metadata.snapshot_log[0]
        for millisecond in range(1_731_661_165_000, 1_731_661_166_000):
            table.metadata.snapshot_log[0] = entry.model_copy(update={"timestamp_ms": millisecond})
            moment = from_millis(millisecond).isoformat()
            reference = orders.lake.tables.reference(f"sales.orders@{moment}")
            assert find_snapshot(table, reference).snapshot_id == orders.ids[0]

    def test_zones(self, orders: Orders) -> None:
        moment = orders.moment(1)
        assert orders.at(moment.replace(tzinfo=None).isoformat()) == orders.ids[1]  # UTC where none is said
        assert orders.at(moment.isoformat().replace("+00:00", "Z")) == orders.ids[1]
        assert orders.at(moment.astimezone(timezone(timedelta(hours=5, minutes=45))).isoformat()) == orders.ids[1]
        with pytest.raises(VersionNotFound):
            orders.at(moment.replace(tzinfo=timezone(timedelta(hours=1))).isoformat())  # an hour earlier

    def test_a_date_is_its_midnight(self, orders: Orders) -> None:
        tomorrow = (datetime.now(UTC) + timedelta(days=1)).date()
        assert orders.at(tomorrow.isoformat()) == orders.ids[2]
        with pytest.raises(VersionNotFound):
            orders.at((tomorrow - timedelta(days=2)).isoformat())

    @pytest.mark.parametrize("time", ["2001-01-01", "0001-01-01", "1969-12-31T23:59:59.999Z"])
    def test_before_the_first(self, orders: Orders, time: str) -> None:
        with pytest.raises(VersionNotFound, match="main.sales.orders had no version at") as caught:
            orders.at(time)
        assert caught.value.hint == f"Its first version is from {orders.moment(0).isoformat()}."

    def test_the_end_of_time(self, orders: Orders) -> None:
        assert orders.at("9999-12-31T23:59:59.999999") == orders.ids[2]

    def test_main_is_followed_and_not_other_branches(self, orders: Orders) -> None:
        """After a rollback the table was, at that time, what main was."""
        uuid = str(orders.lake.table().metadata.table_uuid)
        back = RefChange("main.sales.orders", uuid, {"main": orders.ids[2]}, (SetRef("main", "branch", orders.ids[0]),))
        orders.lake.direct.publish(back)
        assert orders.at(datetime.now(UTC).isoformat()) == orders.ids[0]
        assert orders.at(orders.moment(2).isoformat()) == orders.ids[2]

    def test_what_has_expired(self, orders: Orders) -> None:
        table = orders.lake.table()
        path = local(table.metadata_location)
        document = json.loads(path.read_text())
        document["snapshots"] = [each for each in document["snapshots"] if each["snapshot-id"] != orders.ids[1]]
        path.write_text(json.dumps(document))
        assert orders.at(orders.moment(0).isoformat()) == orders.ids[0]
        with pytest.raises(VersionNotFound, match="the version of main.sales.orders at .* UTC has expired") as caught:
            orders.at(orders.moment(1).isoformat())
        assert caught.value.hint == "lakewarden version list main.sales.orders shows the remaining versions."
        with pytest.raises(VersionNotFound, match="has no snapshot"):
            orders.at(str(orders.ids[1]))

    def test_no_versions(self, lake: Lake) -> None:
        lake.create("sales.empty", appends=0)
        with pytest.raises(VersionNotFound, match="main.sales.empty has no versions yet"):
            lake.tables.resolve("sales.empty")
        for ref in ("main", "1", "2030-01-01"):
            with pytest.raises(VersionNotFound):
                lake.tables.resolve(f"sales.empty@{ref}")


class TestNames:
    def test_an_unknown_table(self, lake: Lake) -> None:
        lake.create("gold.customers")
        with pytest.raises(TableNotFound, match="no table gold.custmers in lake 'main'") as near:
            lake.tables.load("gold.custmers")
        assert near.value.hint == "Did you mean gold.customers?"
        with pytest.raises(TableNotFound) as far:
            lake.tables.resolve("x.y@v1")
        assert far.value.hint == "lakewarden table list shows all 1 tables."

    def test_uuid_and_ref_of_what_is_not_there(self, lake: Lake) -> None:
        table = lake.create("gold.customers")
        assert lake.tables.uuid("gold.customers") == str(table.metadata.table_uuid)
        assert lake.tables.uuid("gold.x") is None
        assert lake.tables.ref("gold.customers", "v1") is None
        assert lake.tables.ref("gold.customers", "main") == table.current_snapshot().snapshot_id

    def test_nested_namespaces(self, lake: Lake) -> None:
        for name in ("a.b.c.t", "a.b.t", "a.t", "ab.t", "z.t"):
            lake.create(name, appends=1)
        assert [n.within_lake for n in lake.tables.names()] == ["a.b.c.t", "a.b.t", "a.t", "ab.t", "z.t"]
        assert [n.within_lake for n in lake.tables.names(namespace="a")] == ["a.b.c.t", "a.b.t", "a.t"]
        assert [n.within_lake for n in lake.tables.names(namespace="a.b")] == ["a.b.c.t", "a.b.t"]
        assert lake.tables.resolve("a.b.c.t").name == TableName("main", ("a", "b", "c"), "t")
        assert lake.tables.resolve("main.a.b.t@main").name == TableName("main", ("a", "b"), "t")

    def test_namespaces_with_wildcards_in_them(self, lake: Lake) -> None:
        for name in ("a_b.t", "axb.t", "a%.t", "a_b.c.t", "axb.c.t"):
            lake.create(name, appends=0)
        assert [n.within_lake for n in lake.tables.names(namespace="a_b")] == ["a_b.c.t", "a_b.t"]
        assert [n.within_lake for n in lake.tables.names(namespace="a%")] == ["a%.t"]

    def test_an_empty_namespace(self, lake: Lake) -> None:
        lake.catalog.create_namespace("empty")
        assert lake.tables.names(namespace="empty") == []

    def test_a_namespace_that_is_not_there(self, lake: Lake) -> None:
        lake.create("gold.customers")
        with pytest.raises(NotFound, match="no namespace golt in lake main") as near:
            lake.tables.names(namespace="golt")
        assert near.value.hint == "Did you mean gold?" and near.value.exit_code == 2
        with pytest.raises(NotFound) as far:
            lake.tables.names(namespace="x.y.z")
        assert far.value.hint == "There are: gold."

    @pytest.mark.parametrize("namespace", [".", "a..b", ".a", "a.", "'", "`a`", "%", "\0", "a" * 2000])
    def test_what_cannot_be_a_namespace(self, lake: Lake, namespace: str) -> None:
        with pytest.raises(NotFound):
            lake.tables.names(namespace=namespace)

    @pytest.mark.parametrize("name", ["sales.it's", "sales.a b", "sales.雪", "sales.a\\b", "sales.%"])
    def test_odd_names(self, lake: Lake, name: str) -> None:
        lake.create(name, appends=1)
        assert lake.tables.resolve(name).snapshot is not None
        assert [n.within_lake for n in lake.tables.names()] == [name]

    def test_a_view_is_not_a_table(self, lake: Lake) -> None:
        lake.create("sales.orders")
        with lake.catalog.engine.begin() as connection:
            connection.execute(text("UPDATE iceberg_tables SET iceberg_type = 'VIEW' WHERE table_name = 'orders'"))
        assert lake.tables.names() == []
        with pytest.raises(TableNotFound):
            lake.tables.load("sales.orders")


class TestLakes:
    @pytest.fixture
    def two(self, tmp_path: Path) -> Warden:
        """Two lakes in one installation, with a table of the same name in each."""
        Init(directory=tmp_path).make()
        Init(directory=tmp_path / "other", name="eu").make()
        here = yaml.safe_load((tmp_path / "lakewarden.yaml").read_text())
        here["lakes"]["eu"] = {
            "catalog": {"type": "sql", "uri": "sqlite:///other/lake/catalog.db"},
            "warehouse": "other/lake/warehouse",
        }
        (tmp_path / "lakewarden.yaml").write_text(yaml.safe_dump(here, sort_keys=False))
        warden = Warden.open(tmp_path)
        for name, tables in {"main": ["sales.orders", "sales.items"], "eu": ["sales.orders", "main.x"]}.items():
            catalog = warden.ground.catalogs.get(name)
            for table in tables:
                catalog.create_namespace_if_not_exists(table.split(".")[0])
                catalog.create_table(table, pa.schema([("id", pa.int64())])).append(pa.table({"id": [1]}))
        return warden

    def test_listing_over_both(self, two: Warden) -> None:
        names = [str(name) for name in two.ground.tables.names()]
        assert names == ["eu.main.x", "eu.sales.orders", "main.sales.items", "main.sales.orders"]
        assert [str(name) for name in two.ground.tables.names("eu")] == ["eu.main.x", "eu.sales.orders"]
        assert [str(name) for name in two.ground.tables.names(namespace="sales")] == [
            "eu.sales.orders",
            "main.sales.items",
            "main.sales.orders",
        ]
        assert [str(name) for name in two.ground.tables.names(namespace="main")] == ["eu.main.x"]

    def test_the_same_name_in_both(self, two: Warden) -> None:
        tables = two.ground.tables
        assert tables.uuid("sales.orders") == tables.uuid("main.sales.orders") != tables.uuid("eu.sales.orders")
        assert tables.resolve("eu.main.x").name == TableName("eu", ("main",), "x")

    def test_an_unknown_lake(self, two: Warden) -> None:
        with pytest.raises(LakeNotFound, match="no lake 'ue'"):
            two.ground.tables.names("ue")
        with pytest.raises(TableNotFound, match="no table us.sales.orders in lake 'main'"):
            two.ground.tables.load("us.sales.orders")  # no lake of that name, so it is a namespace

    def test_one_that_is_gone_is_told_by_name(self, two: Warden, tmp_path: Path) -> None:
        (tmp_path / "other/lake/catalog.db").unlink()
        fresh = Warden.open(tmp_path)
        with pytest.raises(CatalogUnavailable, match="lake eu: its catalog .*other/lake/catalog.db does not exist"):
            fresh.ground.tables.names()
        assert fresh.ground.tables.uuid("main.sales.orders")


class TestBroken:
    @pytest.mark.parametrize("content", [b"", b"{", b'{"format-version": 2}', b"[]", b"null", b"\xff\xfe"])
    def test_corrupt_metadata(self, lake: Lake, content: bytes) -> None:
        table = lake.create("sales.orders")
        local(table.metadata_location).write_bytes(content)
        with pytest.raises(BrokenTable, match="table main.sales.orders: ") as caught:
            lake.tables.load("sales.orders")
        assert "\n" not in caught.value.message and caught.value.hint and caught.value.exit_code == 1

    def test_metadata_of_a_later_format(self, lake: Lake) -> None:
        local(lake.create("sales.orders").metadata_location).write_bytes(b'{"format-version": 9}')
        with pytest.raises(UnsupportedTable, match="table main.sales.orders is in format v9") as caught:
            lake.tables.load("sales.orders")
        assert caught.value.hint and caught.value.exit_code == 1

    def test_truncated_metadata(self, lake: Lake) -> None:
        path = local(lake.create("sales.orders").metadata_location)
        path.write_bytes(path.read_bytes()[:-200])
        with pytest.raises(BrokenTable, match="its metadata cannot be read"):
            lake.tables.resolve("sales.orders@main")

    def test_deleted_metadata(self, lake: Lake) -> None:
        local(lake.create("sales.orders").metadata_location).unlink()
        with pytest.raises(BrokenTable, match="table main.sales.orders: a file it needs is missing"):
            lake.tables.load("sales.orders")

    def test_metadata_that_may_not_be_read(self, lake: Lake) -> None:
        path = local(lake.create("sales.orders").metadata_location)
        path.chmod(0)
        with read_only(), pytest.raises(StorageUnavailable, match="table main.sales.orders: "):
            lake.tables.load("sales.orders")

    def test_others_are_not_held_up(self, lake: Lake) -> None:
        local(lake.create("sales.a").metadata_location).unlink()
        lake.create("sales.b")
        first, second = lake.warden.table.list()
        assert first.table == "main.sales.a" and "is missing" in first.problem and first.rows is None
        assert second.table == "main.sales.b" and second.problem == "" and second.rows == 4

    def test_a_tag_at_a_snapshot_that_is_gone(self, lake: Lake) -> None:
        path = local(lake.create("sales.orders").metadata_location)
        document = json.loads(path.read_text())
        document["refs"]["v1"] = {"snapshot-id": 77, "type": "tag"}
        path.write_text(json.dumps(document))
        with pytest.raises(VersionNotFound, match="main.sales.orders@v1 points to snapshot 77, which is gone"):
            lake.tables.resolve("sales.orders@v1")

    def test_a_catalog_that_is_no_database(self, lake: Lake) -> None:
        (lake.folder / "lake/catalog.db").write_bytes(b"this is no database, whatever its name says" * 100)
        fresh = Warden.open(lake.folder)
        with pytest.raises(CatalogUnavailable, match="lake main: the catalog's database does not respond"):
            fresh.ground.tables.names()
        with pytest.raises(CatalogUnavailable, match="file is not a database"):
            fresh.ground.tables.load("a.b")


def test_many_tables_are_read_at_once_and_in_order(lake: Lake) -> None:
    names = [TableName("main", ("s",), str(number)) for number in range(40)]
    together = Barrier(4)

    def read(name: TableName) -> str:
        together.wait(timeout=30)  # which one after the other would not come through
        return name.table

    assert list(lake.tables.read_all(names, read)) == [str(number) for number in range(40)]


@pytest.mark.spark
def test_a_view_is_no_table_and_named_as_a_view(tmp_path: Path) -> None:
    with SmallLake(tmp_path / "lake") as lake:
        lake.create("sales.orders", appends=1)
        lake.warden.ground.spark.sql("CREATE VIEW main.sales.big AS SELECT * FROM main.sales.orders WHERE id > 0")
        assert [row.table for row in lake.warden.table.list()] == ["main.sales.orders"]
        with pytest.raises(TableNotFound, match=r"main\.sales\.big is a view, not a table") as told:
            lake.warden.table.show("sales.big")
        assert told.value.hint == "Use one of the tables that it reads."
        with pytest.raises(TableNotFound, match="no table sales.bag"):
            lake.warden.table.show("sales.bag")
