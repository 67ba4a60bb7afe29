"""How the tables of these tests came about: every type, other columns, other partitions, deletes, branches and tags."""

from __future__ import annotations

from typing import Any

from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    IdentityTransform,
    Transform,
    TruncateTransform,
    VoidTransform,
)
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from tests.readers.tables import Table, person
from tests.small_lake import SmallLake

_INNER = StructType(NestedField(110, "f", FloatType()), NestedField(111, "g", LongType()))
_STRUCT = StructType(
    NestedField(101, "x", DoubleType()),
    NestedField(102, "y", StringType()),
    NestedField(103, "need", IntegerType(), required=True),
    NestedField(104, "inner", _INNER),
)
_DEEP = StructType(
    NestedField(121, "k", IntegerType()),
    NestedField(122, "v", MapType(123, StringType(), 124, FloatType(), value_required=False)),
)
EVERY_TYPE: dict[str, Any] = {
    "id": LongType(), "name": StringType(), "flag": BooleanType(), "small": IntegerType(), "big": LongType(),
    "ratio": FloatType(), "value": DoubleType(), "nans": DoubleType(), "zero": DoubleType(), "empty": StringType(),
    "d9": DecimalType(9, 2), "d18": DecimalType(18, 4), "d38": DecimalType(38, 10), "day": DateType(),
    "at": TimestampType(), "at_tz": TimestamptzType(), "text": StringType(), "raw": BinaryType(), "code": UUIDType(),
    "four": FixedType(4), "gone": StringType(), "st": _STRUCT, "li": ListType(130, DoubleType(), False),
    "ma": MapType(131, StringType(), 132, DoubleType(), value_required=False), "deep": ListType(133, _DEEP, False),
}  # fmt: skip
SCHEMA = Schema(
    *(NestedField(place, name, kind, required=name == "id") for place, (name, kind) in enumerate(EVERY_TYPE.items(), 1))
)
BY_NAME = PartitionSpec(PartitionField(2, 1000, BucketTransform(2), "name_bucket"))


def long_life(lake: SmallLake, name: str, version: int, **properties: str) -> Table:
    """Rows under four partition specs and two schemas, deletes, two branches and two tags.

    A table of format v3 was one of v2 for the first half of its life, so that it has delete files of both kinds.
    """
    way = "copy-on-write" if version == 1 else "merge-on-read"
    given = {"format-version": str(min(version, 2)), "write.delete.mode": way, **properties}
    table = create(lake, name, SCHEMA, BY_NAME, given)
    table.insert(range(8))
    table.insert(range(8, 12))
    table.ref("TAG", "first")
    table.delete([1, 5, 9])
    _other_columns(table)
    for transform, column, numbers in (
        (TruncateTransform(2), "note", range(12, 16)),
        (DayTransform(), "at", range(16, 20)),
        (IdentityTransform(), "value", range(20, 29)),
    ):
        _partition_by(table, column, transform)
        table.insert(numbers)
    if version == 3:
        table.sql("ALTER TABLE {t} SET TBLPROPERTIES ('format-version' = '3')")
    table.ref("BRANCH", "audit")
    table.insert(range(29, 31), branch="audit")
    table.delete([4, 13, 17, 21, 22])
    table.ref("TAG", "second")
    table.delete([0, 29], "audit")
    table.insert(range(31, 37))
    return table


def short_life(lake: SmallLake, name: str) -> Table:
    """Two partition specs, position deletes from before the table was one of format v3 and vectors from after it.

    No partition is NaN: see `limits.py`.
    """
    given = {"format-version": "2", "write.delete.mode": "merge-on-read"}
    table = create(lake, name, SCHEMA, BY_NAME, given)
    table.insert(range(12))
    table.delete([1, 9])
    _partition_by(table, "flag", IdentityTransform())
    table.sql("ALTER TABLE {t} SET TBLPROPERTIES ('format-version' = '3')")
    table.insert(range(12, 22))
    table.delete([4, 5, 7, 10, 13])
    table.ref("TAG", "second")
    table.insert(range(22, 34))
    return table


def long_life_without_spark(lake: SmallLake, name: str) -> Table:
    """Many small appends by PyIceberg, which counts no NaN, with a type that Spark has not."""
    schema = Schema(*(field for field in SCHEMA.fields), NestedField(200, "clock", TimeType()))
    table = create(lake, name, schema, UNPARTITIONED_PARTITION_SPEC, {"format-version": "2"})
    for start in range(0, 36, 3):
        table.append(range(start, start + 3))
        if start == 12:
            lake.warden.version.tag(name, "first").apply()
            table.rows["first"] = table.rows["main"]
    lake.warden.version.branch(name, "audit").apply()
    table.rows["audit"] = table.rows["main"]
    _other_columns(table)
    table.append(range(36, 40))
    return table


def create(lake: SmallLake, name: str, schema: Schema, spec: PartitionSpec, properties: dict[str, str]) -> Table:
    """Make a table at a path as Hadoop spells it: Spark copies none that is spelled in two ways."""
    location = f"file:{lake.folder}/lake/warehouse/{name.replace('.', '/')}"
    lake.catalog.create_table(name, schema, location, spec, properties=properties)
    return Table(lake, name, person)


def _other_columns(table: Table) -> None:
    """Wider ones, renamed ones, new ones, and one with the name of another that was dropped."""
    made = table.lake.catalog.load_table(table.name)
    with made.update_schema() as change:
        change.update_column("small", LongType())
        change.update_column("ratio", DoubleType())
        change.update_column("d9", DecimalType(12, 2))
        change.update_column(("st", "inner", "f"), DoubleType())
        change.rename_column("text", "note")
        change.rename_column(("st", "y"), "z")
        change.delete_column("gone")
        change.add_column("added", LongType())
        change.move_after("added", "name")
    with made.update_schema() as change:
        change.add_column("gone", IntegerType())
        change.add_column(("st", "y"), StringType())


def _partition_by(table: Table, column: str, transform: Transform[Any, Any]) -> None:
    made = table.lake.catalog.load_table(table.name)
    with made.update_spec() as change:
        for field in made.spec().fields:
            if not isinstance(field.transform, VoidTransform):
                change.remove_field(field.name)
        change.add_field(column, transform)
