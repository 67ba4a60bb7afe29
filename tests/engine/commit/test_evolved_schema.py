"""Columns change by id, once, on the schema that was planned on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
)

from lakewarden.engine.commit.evolved_schema import EvolveSchema, NewColumn
from lakewarden.errors import BadValue, Conflict, StalePlan
from lakewarden.lifecycle.failpoints import when
from lakewarden.warden import Workbench
from tests.cases import in_soak
from tests.engine.lakes import STAMP, Lake, lake, unfenced
from tests.readers.spec import faults
from tests.small_lake import SmallLake

__all__ = ["lake"]

PLACE = StructType(NestedField(6, "street", StringType(), required=False))
PEOPLE = Schema(
    NestedField(1, "id", IntegerType(), required=False),
    NestedField(2, "name", StringType(), required=False),
    NestedField(3, "height", FloatType(), required=False),
    NestedField(4, "city", StringType(), required=False),
    NestedField(5, "place", PLACE, required=False),
)


@pytest.fixture(params=[1, 2], ids=lambda version: f"v{version}")
def people(lake: Lake, request: pytest.FixtureRequest) -> Lake:
    lake.catalog.create_namespace("crm")
    properties = {
        "format-version": str(request.param),
        "schema.name-mapping.default": '[{"field-id": 2, "names": ["name"]}]',
    }
    spec = PartitionSpec(PartitionField(4, 1000, IdentityTransform(), "city"))
    lake.catalog.create_table("crm.people", PEOPLE, partition_spec=spec, properties=properties)
    table = lake.catalog.load_table("crm.people")
    import pyarrow as pa

    rows = [{"id": 1, "name": "Ada", "height": 1.5, "city": "Oslo", "place": {"street": "x"}}]
    table.append(pa.Table.from_pylist(rows, table.schema().as_arrow()))
    return lake


def table(lake: Lake) -> Any:
    return lake.catalog.load_table("crm.people")


def change(lake: Lake, **steps: Any) -> EvolveSchema:
    expects = steps.pop("expects", table(lake).metadata.current_schema_id)
    return EvolveSchema("main.crm.people", str(table(lake).metadata.table_uuid), expects, **steps)


def columns(lake: Lake) -> dict[int, tuple[str, str]]:
    return {field.field_id: (field.name, str(field.field_type)) for field in table(lake).schema().fields}


def test_all_at_once(people: Lake) -> None:
    """Values that were written under an old name or type are read under the new one."""
    steps = {
        "add": (NewColumn(7, "born", DateType(), "when"), NewColumn(8, "zip", StringType(), parent=5)),
        "drop": (3,),
        "rename": {2: "full_name"},
        "widen": {1: LongType()},
    }
    new = people.direct.publish(change(people, **steps))
    found = table(people)
    assert found.metadata.current_schema_id == new
    assert list(columns(people)) == [1, 2, 4, 5, 7]
    assert columns(people)[1] == ("id", "long") and columns(people)[2][0] == "full_name"
    assert found.schema().find_field(8).name == "zip" and found.schema().find_field(7).doc == "when"
    row = {"id": 1, "full_name": "Ada", "city": "Oslo", "place": {"street": "x", "zip": None}, "born": None}
    assert found.scan().to_arrow().to_pylist() == [row]
    assert "full_name" in found.metadata.properties["schema.name-mapping.default"]
    assert faults(found.metadata_location, lambda _: False) == []


def test_twice_is_once(people: Lake) -> None:
    planned = change(people, add=(NewColumn(7, "born", DateType()),), drop=(3,), rename={2: "full_name"})
    new = people.direct.publish(planned)
    before = table(people).metadata_location
    assert people.direct.publish(planned) == new
    assert table(people).metadata_location == before


@pytest.mark.parametrize("point", ["planned", "commit.ready", "commit.fenced"])
def test_a_schema_that_others_changed(people: Lake, point: str) -> None:
    planned = change(people, add=(NewColumn(7, "born", DateType()),))

    def others() -> None:
        with table(people).update_schema() as update:
            update.add_column("email", StringType())

    others() if point == "planned" else when(point, others)
    with pytest.raises(StalePlan, match="the schema of main.crm.people was 0 and is now 1"):
        people.direct.publish(planned)
    assert columns(people)[7][0] == "email"


def test_others_who_append_do_not_matter(people: Lake) -> None:
    rows = table(people).scan().to_arrow()
    when("commit.fenced", lambda: table(people).append(rows))
    people.direct.publish(change(people, rename={2: "full_name"}))
    assert table(people).scan().to_arrow()["full_name"].to_pylist() == ["Ada", "Ada"]


def test_a_dropped_column_that_is_added_again_is_another(people: Lake) -> None:
    people.direct.publish(change(people, drop=(2,)))
    people.direct.publish(change(people, add=(NewColumn(7, "name", StringType()),)))
    assert table(people).scan().to_arrow()["name"].to_pylist() == [None]


@pytest.mark.parametrize(
    ("steps", "error", "says"),
    [
        ({"drop": (4,)}, Conflict, "partitioned, sorted or identified by column city"),
        ({"rename": {77: "x"}}, BadValue, "no column with the id 77"),
        ({"widen": {2: LongType()}}, BadValue, "Cannot change column type: name"),
        ({"widen": {3: IntegerType()}}, BadValue, "Cannot change column type: height"),
        ({"add": (NewColumn(9, "born", DateType()),)}, BadValue, "id of the new column born must be 7, not 9"),
        ({"add": (NewColumn(7, "name", DateType()),)}, BadValue, "name already exists"),
        ({"rename": {2: "city"}}, BadValue, "city"),
    ],
)
def test_what_cannot_be(people: Lake, steps: dict[str, Any], error: type[Exception], says: str) -> None:
    before = table(people).metadata_location
    with pytest.raises(error, match=says):
        people.direct.publish(change(people, **steps))
    assert table(people).metadata_location == before


def test_types_that_hold_more(lake: Lake) -> None:
    lake.catalog.create_namespace("crm")
    schema = Schema(
        NestedField(1, "price", DecimalType(9, 2), required=False),
        NestedField(2, "ratio", FloatType(), required=False),
        NestedField(3, "tags", ListType(4, IntegerType(), element_required=False), required=False),
    )
    lake.catalog.create_table("crm.people", schema)
    lake.direct.publish(change(lake, widen={1: DecimalType(12, 2), 2: DoubleType(), 4: LongType()}))
    assert columns(lake) == {1: ("price", "decimal(12, 2)"), 2: ("ratio", "double"), 3: ("tags", "list<long>")}


class Killed(BaseException):
    """The process ends here."""


@pytest.mark.spark
@pytest.mark.parametrize("statements", [0, 2, *in_soak(1, 3, 4)])
def test_a_format_that_only_spark_writes(shared_lake: SmallLake, statements: int) -> None:
    """Each column is a statement, so a run may be killed between two of them: the next one runs those that are left."""
    name = f"main.crm.people{statements}"
    sql = shared_lake.warden.ground.spark.sql
    columns = "id INT, name STRING, height FLOAT, city STRING, place STRUCT<street: STRING>"
    sql(f"CREATE TABLE {name} ({columns}) USING iceberg TBLPROPERTIES ('format-version' = '3')").collect()
    sql(f"INSERT INTO {name} VALUES (1, 'Ada', 1.5, 'Oslo', named_struct('street', 'x'))").collect()
    table = shared_lake.warden.ground.tables.load(name)
    planned = EvolveSchema(
        name,
        str(table.metadata.table_uuid),
        table.metadata.current_schema_id,
        add=(NewColumn(7, "zip", StringType(), parent=5),),
        drop=(3,),
        rename={2: "full_name"},
        widen={1: LongType()},
    )
    commits = Workbench(shared_lake.warden.ground, STAMP, unfenced, lambda *_: None).commits

    def killed() -> None:
        if len(passed) == statements:
            raise Killed

    passed = when("statement.done", killed, times=4)
    if statements:
        with pytest.raises(Killed):
            commits.publish(planned)
    new = commits.publish(planned)
    assert commits.publish(planned) == new and len(passed) == 4
    (row,) = sql(f"SELECT * FROM {name}").collect()
    assert row.asDict(recursive=True) == {
        "id": 1, "full_name": "Ada", "city": "Oslo", "place": {"street": "x", "zip": None}
    }  # fmt: skip
    assert shared_lake.warden.ground.tables.load(name).schema().find_type(1) == LongType()
    with pytest.raises(StalePlan, match="the schema of"):
        commits.publish(replace(planned, add=(NewColumn(8, "more", StringType()),), drop=(), rename={}, widen={}))


@pytest.fixture(scope="module")
def shared_lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallLake]:
    with SmallLake(tmp_path_factory.mktemp("evolved") / "lake") as lake:
        lake.catalog.create_namespace("crm")
        yield lake
