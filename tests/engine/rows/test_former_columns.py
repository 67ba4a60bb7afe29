"""A key column that was dropped: the person's rows stay hidden in every read, as long as a file has the column.

Covers `engine/rows/former_columns.py`, and the route through Spark in `engine/rows/spark_filter.py`.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import IntegerType, LongType, NestedField, StringType, StructType

from lakewarden.engine.comparison.new_rows import Since
from lakewarden.engine.rows.former_columns import with_former
from lakewarden.errors import BrokenTable
from tests.features.erasure.people import SCHEMA, ids, person, with_people
from tests.small_lake import SmallLake

LATER = pa.schema([field for field in SCHEMA if field.name != "email"])


def drop(lake: SmallLake, *path: str, name: str = "crm.people") -> None:
    with lake.catalog.load_table(name).update_schema() as change:
        change.delete_column(path)


@pytest.fixture
def people(lake: SmallLake) -> SmallLake:
    return with_people(lake)


@pytest.mark.parametrize(
    ("key", "value", "path"),
    [
        ("email", "p4@example.org", ("email",)),
        ("code", "00000000-0000-0000-0000-000000000004", ("code",)),
        ("number", "4.5", ("number",)),
        ("born", "2000-01-05", ("born",)),
        ("user.email", "u4@example.org", ("user", "email")),
        ("user.email", "u4@example.org", ("user",)),
        ("user.age", "4", ("user",)),
    ],
)
def test_rows_stay_hidden_after_the_key_column_is_dropped(
    people: SmallLake, key: str, value: str, path: tuple[str, ...]
) -> None:
    people.warden.erasure.request("crm.people", key=key, value=[value])
    drop(people, *path)
    assert ids(people) == [0, 1, 2, 3, 5]
    assert ids(people, raw=True) == [0, 1, 2, 3, 4, 5]
    assert ids(people, columns=["id"], where="id > 2") == [3, 5]
    shown = people.warden.arrow("crm.people")
    table = people.catalog.load_table("crm.people")
    assert shown.schema == table.scan(limit=0).to_arrow_batch_reader().schema
    assert people.warden.query("SELECT count(*) AS n FROM crm.people")["n"].tolist() == [5]
    answer = people.warden.version.read("crm.people", limit=2)
    assert (answer.rows_read, answer.rows_total) == (2, 5)


def test_rows_written_after_the_column_was_dropped_belong_to_nobody(people: SmallLake) -> None:
    people.warden.erasure.request("crm.people", key="email", value=["p4@example.org"])
    drop(people, "email")
    new = pa.Table.from_pylist([{k: v for k, v in person(9).items() if k != "email"}], schema=LATER)
    people.catalog.load_table("crm.people").append(new)
    assert ids(people) == [0, 1, 2, 3, 5, 9]


def test_a_column_that_was_renamed_and_promoted_before(people: SmallLake) -> None:
    people.warden.erasure.request("crm.people", key="user.age", value=["4"])
    with people.catalog.load_table("crm.people").update_schema() as change:
        change.rename_column(("user", "age"), "years")
    with people.catalog.load_table("crm.people").update_schema() as change:
        change.update_column(("user", "years"), LongType())
    drop(people, "user", "years")
    assert ids(people) == [0, 1, 2, 3, 5]
    assert {"email": "u5@example.org"} in people.warden.arrow("crm.people").column("user").to_pylist()


def test_a_former_partition_column_with_deleted_rows(lake: SmallLake) -> None:
    with_people(lake, rows=2)
    with lake.catalog.load_table("crm.people").update_spec() as change:
        change.add_field("email", IdentityTransform(), "by_email")
    lake.catalog.load_table("crm.people").append(pa.Table.from_pylist([person(n) for n in range(2, 6)], schema=SCHEMA))
    lake.catalog.load_table("crm.people").delete("id = 2")
    lake.warden.erasure.request("crm.people", key="email", value=["p1@example.org", "p4@example.org"])
    with lake.catalog.load_table("crm.people").update_spec() as change:
        change.remove_field("by_email")
    drop(lake, "email")
    assert ids(lake) == [0, 3, 5]


def test_fields_are_added_back_by_id_within_their_structs() -> None:
    inner = StructType(NestedField(4, "mail", StringType(), True), NestedField(5, "age", IntegerType()))
    before = Schema(
        NestedField(1, "id", LongType(), True), NestedField(2, "user", StructType(NestedField(3, "at", inner)))
    )
    metadata = new_table_metadata(before, UNPARTITIONED_PARTITION_SPEC, UNSORTED_SORT_ORDER, "memory:t", {})
    now = Schema(NestedField(1, "id", LongType(), True), schema_id=1)
    made = with_former(metadata, now, [1, 4])
    assert made is not None and str(made.find_field(4)) == "4: mail: optional string".replace(
        "mail", made.find_field(4).name
    )
    assert (made.find_column_name(1), made.schema_id) == ("id", 1)
    assert with_former(metadata, now, [1]) is now
    assert with_former(metadata, now, [9]) is None


def test_a_field_keeps_its_default_which_older_files_do_not_hold() -> None:
    owner = NestedField(2, "owner", StringType(), True, initial_default="p9")
    before = Schema(NestedField(1, "id", LongType(), True), owner)
    metadata = new_table_metadata(before, UNPARTITIONED_PARTITION_SPEC, UNSORTED_SORT_ORDER, "memory:t", {})
    metadata = metadata.model_copy(update={"schemas": [before]})  # a new table takes no defaults over
    made = with_former(metadata, Schema(before.fields[0], schema_id=1), [2])
    assert made is not None
    assert (made.find_field(2).initial_default, made.find_field(2).required) == ("p9", False)


@pytest.mark.spark
class TestOnSpark:
    def test_every_route_hides_them(self, people: SmallLake) -> None:
        warden = people.warden
        warden.version.tag("crm.people", "before").apply()
        warden.erasure.request("crm.people", key="email", value=["p1@example.org", "p4@example.org"])
        warden.erasure.request("crm.people", key="user.age", value=["2"])
        drop(people, "email")
        drop(people, "user", "age")
        new: dict[str, Any] = {k: v for k, v in person(9).items() if k != "email"} | {"user": {"email": "u9"}}
        schema = people.catalog.load_table("crm.people").schema().as_arrow()
        people.catalog.load_table("crm.people").append(pa.Table.from_pylist([new], schema=schema))
        frame = warden.dataframe("crm.people")
        assert frame.columns == ["id", "born", "number", "code", "user"]
        assert sorted(row.id for row in frame.collect()) == [0, 3, 5, 9]
        assert sorted(row.id for row in warden.dataframe("crm.people@before").collect()) == [0, 3, 5]
        assert sorted(warden.query("SELECT id FROM crm.people", engine="spark")["id"]) == [0, 3, 5, 9]
        resolve = warden.ground.tables.resolve
        new_rows = warden.ground.new_rows
        table = people.catalog.load_table("crm.people")
        first, second, _ = (f"crm.people@{one.snapshot_id}" for one in table.metadata.snapshots)

        def ids_since(version: str) -> list[int]:
            return sorted(row.id for row in new_rows.frame(Since(resolve(first), resolve(version))).collect())

        assert (ids_since("crm.people"), ids_since(second)) == ([3, 5, 9], [3, 5])
        compared = warden.compare.data("crm.people", first.split("@")[1], "main", key=["id"])
        assert (compared.rows_from, compared.rows_to) == (1, 4)

    def test_files_without_field_ids_whose_column_has_another_id_now(self, lake: SmallLake) -> None:
        lake.catalog.create_namespace("crm")
        schema = pa.schema([("id", pa.int64()), ("email", pa.string())])
        table = lake.catalog.create_table("crm.people", schema)
        pa.parquet.write_table(pa.table({"id": [0, 1], "email": ["a", "b"]}), lake.folder / "x.parquet")
        table.add_files([f"file://{lake.folder}/x.parquet"])
        lake.warden.erasure.request("crm.people", key="email", value=["b"])
        assert ids(lake) == [0]
        drop(lake, "email")
        assert ids(lake) == [0]
        with lake.catalog.load_table("crm.people").update_schema() as change:
            change.add_column("email", StringType())
        for read in (lake.warden.arrow, lake.warden.version.read, lambda name: lake.warden.dataframe(name).collect()):
            with pytest.raises(BrokenTable, match="has no field id"):
                read("crm.people")

    def test_a_column_that_no_schema_of_the_table_has_any_more(self, people: SmallLake) -> None:
        people.warden.erasure.request("crm.people", key="email", value=["p4@example.org"])
        drop(people, "email")
        sql = people.warden.ground.spark.sql
        sql(
            "CALL main.system.expire_snapshots(table => 'crm.people', older_than => TIMESTAMP '2100-01-01', "
            "retain_last => 1, clean_expired_metadata => true)"
        ).collect()
        new = pa.Table.from_pylist([{k: v for k, v in person(9).items() if k != "email"}], schema=LATER)
        people.catalog.load_table("crm.people").append(new)
        sql(
            "CALL main.system.expire_snapshots(table => 'crm.people', older_than => TIMESTAMP '2100-01-01', "
            "retain_last => 1, clean_expired_metadata => true)"
        ).collect()
        assert len(people.catalog.load_table("crm.people").metadata.schemas) == 1
        assert ids(people) == [0, 1, 2, 3, 5, 9]
        assert people.warden.version.read("crm.people", limit=2).rows_total is None
