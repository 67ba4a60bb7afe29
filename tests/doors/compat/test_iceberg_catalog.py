"""The older tool's methods, on a real lake: the same results and the same errors as by any other door."""

from __future__ import annotations

from typing import Any

import pandas
import pyarrow as pa
import pytest
from pyiceberg.types import LongType

from lakewarden.doors.compat.iceberg_catalog import IcebergCatalog
from lakewarden.errors import (
    AlreadyExists,
    BadValue,
    ConfigProblem,
    LakewardenError,
    TableNotFound,
    VersionNotFound,
)
from lakewarden.features.version import list as version_list
from tests.reachability import aged
from tests.small_lake import SCHEMA, SmallLake


@pytest.fixture
def old(lake: SmallLake) -> IcebergCatalog:
    lake.create("sales.orders")
    return IcebergCatalog(lake.warden)


def _snapshots(old: IcebergCatalog) -> list[int]:
    return [row["snapshot_id"] for row in old.list_snapshots("sales", "orders")]


def test_it_opens_by_a_warden_a_path_or_what_the_environment_says(
    old: IcebergCatalog, lake: SmallLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEWARDEN_CONFIG", str(lake.folder / "lakewarden.yaml"))
    for given in (lake.folder, str(lake.folder / "lakewarden.yaml"), None):
        assert IcebergCatalog(given).get_snapshot_id("sales", "orders") == lake.head()
    with pytest.raises(ConfigProblem):
        IcebergCatalog(lake.folder / "none.yaml")


def test_the_current_snapshot(old: IcebergCatalog, lake: SmallLake) -> None:
    assert old.get_snapshot_id("sales", "orders") == lake.head()
    lake.create("sales.empty", appends=0)
    assert old.get_snapshot_id("sales", "empty") is None
    assert old.list_snapshots("sales", "empty") == []


def test_snapshots_are_listed_newest_first_and_all(old: IcebergCatalog, lake: SmallLake) -> None:
    rows = old.list_snapshots("sales", "orders")
    assert [row["rows"] for row in rows] == [6, 4, 2]
    assert rows[0]["snapshot_id"] == lake.head() and rows[0]["branches"] == ["main"]
    old.tag_snapshot("sales", "orders", None, "v1")
    assert old.list_snapshots("sales", "orders")[0]["tags"] == ["v1"]


def test_a_snapshot_has_its_time_and_its_summary_with_the_first_tag(old: IcebergCatalog, lake: SmallLake) -> None:
    newest = lake.catalog.load_table("sales.orders").current_snapshot()
    for tag in ("b", "a"):
        old.tag_snapshot("sales", "orders", newest.snapshot_id, tag)
    head, before, _ = old.list_snapshots("sales", "orders")
    assert head["timestamp_ms"] == newest.timestamp_ms > before["timestamp_ms"]
    assert head["summary"]["tag"] == "a" and "tag" not in before["summary"]
    assert head["summary"]["operation"] == "append" and head["summary"]["total-records"] == "6"


def test_a_tag_that_a_rollback_has_set_comes_last(old: IcebergCatalog) -> None:
    newest, before, _ = _snapshots(old)
    old.tag_snapshot("sales", "orders", newest, "production_2026_02_15")
    old.rollback_to_snapshot("sales", "orders", before)
    head = old.list_snapshots("sales", "orders")[0]
    assert head["tags"] == [f"before-rollback-{newest}", "production_2026_02_15"]
    assert head["summary"]["tag"] == "production_2026_02_15"


def test_more_snapshots_than_the_other_doors_show(
    old: IcebergCatalog, lake: SmallLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = lake.warden.version.list("sales.orders")[0]
    monkeypatch.setattr(version_list, "versions", lambda table: [row] * 60)
    assert len(old.list_snapshots("sales", "orders")) == 60


def test_tag_the_current_snapshot(old: IcebergCatalog, lake: SmallLake) -> None:
    old.tag_snapshot("sales", "orders", None, "v1")
    assert old.get_snapshot_by_tag("sales", "orders", "v1") == lake.head() == lake.refs()["v1"]
    lake.append()
    assert old.get_snapshot_by_tag("sales", "orders", "v1") != lake.head()
    [record] = lake.warden.operation.list()
    assert record.kind == "version.tag" and record.state == "done"


def test_tag_an_earlier_snapshot_for_some_days(old: IcebergCatalog, lake: SmallLake) -> None:
    first = _snapshots(old)[-1]
    aged(lake, "sales.orders", 100)
    old.tag_snapshot("sales", "orders", first, "v1", retention_days=90)
    ref = lake.catalog.load_table("sales.orders").metadata.refs["v1"]
    days = (ref.max_ref_age_ms or 0) / 86_400_000
    assert ref.snapshot_id == first and 190 <= days < 190.01  # of the snapshot's age, as Iceberg counts


def test_remove_a_tag(old: IcebergCatalog, lake: SmallLake) -> None:
    old.tag_snapshot("sales", "orders", None, "v1")
    old.remove_tag("sales", "orders", "v1")
    assert set(lake.refs()) == {"main"}


def test_roll_back(old: IcebergCatalog, lake: SmallLake) -> None:
    last, middle, first = _snapshots(old)
    old.rollback_to_snapshot("sales", "orders", first)
    assert lake.head() == first and lake.ids() == [0, 1]
    assert lake.refs()[f"before-rollback-{last}"] == last
    old.rollback_to_snapshot("sales", "orders", first)  # it is there already
    old.rollback_to_snapshot("sales", "orders", middle)  # no ancestor of what is current now
    assert lake.head() == middle and lake.ids() == [0, 1, 2, 3]


def test_roll_back_to_before_a_column_got_another_type(old: IcebergCatalog, lake: SmallLake) -> None:
    good = old.get_snapshot_id("sales", "orders")
    old.tag_snapshot("sales", "orders", good, "pre_migration_v2")
    with lake.catalog.load_table("sales.orders").update_schema(allow_incompatible_changes=True) as change:
        change.delete_column("city")
    with lake.catalog.load_table("sales.orders").update_schema() as change:
        change.add_column("city", LongType())
    table = lake.catalog.load_table("sales.orders")
    table.append(pa.table({"id": [9], "city": [9]}, schema=table.schema().as_arrow()))

    old.rollback_to_snapshot("sales", "orders", old.get_snapshot_by_tag("sales", "orders", "pre_migration_v2"))

    rows = lake.catalog.load_table("sales.orders").scan().to_arrow().sort_by("id").to_pylist()
    assert rows == [{"id": number, "city": f"city {number}"} for number in range(6)]


def test_what_is_not_there_is_told_as_by_the_other_doors(old: IcebergCatalog, lake: SmallLake) -> None:
    with pytest.raises(TableNotFound, match="no table sales.ordres"):
        old.get_snapshot_id("sales", "ordres")
    with pytest.raises(TableNotFound):
        old.list_snapshots("nowhere.at.all", "orders")
    with pytest.raises(VersionNotFound):
        old.get_snapshot_by_tag("sales", "orders", "v9")
    with pytest.raises(VersionNotFound, match="has no tag 'main'"):
        old.get_snapshot_by_tag("sales", "orders", "main")
    with pytest.raises(VersionNotFound, match="has no tag 'main'"):
        old.time_travel_by_tag("sales", "orders", "main")
    with pytest.raises(VersionNotFound):
        old.remove_tag("sales", "orders", "v9")
    with pytest.raises(VersionNotFound):
        old.rollback_to_snapshot("sales", "orders", 1)
    with pytest.raises(VersionNotFound):
        old.tag_snapshot("sales", "orders", 1, "v1")
    old.tag_snapshot("sales", "orders", None, "v1")
    with pytest.raises(AlreadyExists):
        old.tag_snapshot("sales", "orders", None, "v1")


@pytest.mark.parametrize("days", [0, -1, 1.5, 10**12])
def test_a_retention_that_cannot_be_meant(old: IcebergCatalog, lake: SmallLake, days: int) -> None:
    with pytest.raises(BadValue, match="keep"):
        old.tag_snapshot("sales", "orders", None, "v1", retention_days=days)
    assert set(lake.refs()) == {"main"}


@pytest.mark.parametrize(
    ("namespace", "table"),
    [("eu.sales", "orders"), ("sales", "a.b"), ("sales", "a`b"), ("sales", "a@v1"), ("we`ird", "o r"), ("sales", "äö")],
)
def test_names_mean_what_they_say(lake: SmallLake, namespace: str, table: str) -> None:
    parts = tuple(namespace.split("."))
    for depth in range(len(parts)):
        lake.catalog.create_namespace(parts[: depth + 1])
    made = lake.catalog.create_table((*parts, table), SCHEMA)
    made.append(SCHEMA.empty_table())
    old = IcebergCatalog(lake.warden)
    old.tag_snapshot(namespace, table, None, "v`1.x@2")
    head = lake.catalog.load_table((*parts, table)).current_snapshot().snapshot_id
    assert old.get_snapshot_by_tag(parts, table, "v`1.x@2") == old.get_snapshot_id(namespace, table) == head
    old.rollback_to_snapshot(namespace, table, head)
    old.remove_tag(namespace, table, "v`1.x@2")
    assert len(old.list_snapshots(namespace, table)) == 1


@pytest.mark.parametrize("table", ["*", "order?", "o*"])
def test_a_table_is_never_a_pattern(old: IcebergCatalog, lake: SmallLake, table: str) -> None:
    with pytest.raises(TableNotFound):
        old.tag_snapshot("sales", table, None, "v1")
    assert set(lake.refs()) == {"main"}


@pytest.mark.parametrize(("namespace", "table"), [("", "orders"), ("sales", ""), ("sales.", "orders"), ((), "orders")])
def test_an_empty_name_is_refused(old: IcebergCatalog, namespace: str, table: str) -> None:
    with pytest.raises(LakewardenError):
        old.get_snapshot_id(namespace, table)


def test_every_argument_by_its_name(old: IcebergCatalog, lake: SmallLake) -> None:
    table: dict[str, Any] = {"namespace": "sales", "table_name": "orders"}
    first = old.list_snapshots(**table)[-1]["snapshot_id"]
    old.tag_snapshot(**table, snapshot_id=first, tag="v1", retention_days=90)
    assert old.get_snapshot_by_tag(**table, tag="v1") == first
    assert len(old.time_travel(**table, snapshot_id=first)) == len(old.time_travel_by_tag(**table, tag="v1")) == 2
    old.rollback_to_snapshot(**table, snapshot_id=str(first))
    assert old.get_snapshot_id(**table) == first
    old.remove_tag(**table, tag="v1")
    assert "v1" not in lake.refs()


def test_time_travel_with_pandas_starts_no_jvm(old: IcebergCatalog, lake: SmallLake) -> None:
    middle = _snapshots(old)[1]
    old.tag_snapshot("sales", "orders", middle, "v1")
    lake.warden.erasure.request("sales.orders", key="id", value=["1"])
    for frame in (old.time_travel("sales", "orders", middle), old.time_travel_by_tag("sales", "orders", "v1")):
        assert isinstance(frame, pandas.DataFrame) and len(frame) == 3
        assert sorted(frame["id"]) == [0, 2, 3] and list(frame.columns) == ["id", "city"]
    assert "spark" not in lake.warden.ground.__dict__
    with pytest.raises(BadValue, match="engine 'polars' is not supported"):
        old.time_travel("sales", "orders", middle, "polars")  # type: ignore[call-overload]


@pytest.mark.spark
def test_time_travel_on_spark(old: IcebergCatalog) -> None:
    old.tag_snapshot("sales", "orders", _snapshots(old)[1], "v1")
    frame = old.time_travel_by_tag("sales", "orders", "v1", engine="spark")
    assert sorted(row["id"] for row in frame.collect()) == [0, 1, 2, 3]
    assert frame.columns == ["id", "city"]
