"""`table show`."""

from __future__ import annotations

import pyarrow as pa
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType, TimestamptzType

from tests.small_lake import SmallLake


def test_shows_what_the_metadata_says(lake: SmallLake, any_format: int) -> None:
    lake.create("sales.orders", any_format)
    lake.warden.version.tag("sales.orders", "v1", note="first").apply()

    shown = lake.warden.table.show("sales.orders")

    assert (shown.table, shown.format, shown.rows, shown.snapshots) == ("main.sales.orders", any_format, 6, 3)
    assert shown.current_snapshot_id == lake.head()
    assert [(ref.name, ref.note) for ref in shown.refs] == [("main", ""), ("v1", "first")]
    assert shown.changed_by.startswith("spark-sql (format v3" if any_format == 3 else "commit")


def test_shows_partitions_as_they_are_written_in_sql(lake: SmallLake) -> None:
    schema = Schema(
        NestedField(1, "id", LongType(), required=True, doc="the order's number"),
        NestedField(2, "city", StringType()),
        NestedField(3, "at", TimestamptzType()),
    )
    spec = PartitionSpec(
        PartitionField(2, 1000, IdentityTransform(), "city"),
        PartitionField(3, 1001, DayTransform(), "day"),
        PartitionField(1, 1002, BucketTransform(16), "bucket"),
    )
    lake.catalog.create_namespace("web")
    lake.catalog.create_table("web.events", schema, partition_spec=spec)

    shown = lake.warden.table.show("web.events")

    assert shown.partitioned_by == ["city", "day(at)", "bucket(16, id)"]
    assert (shown.columns[0].required, shown.columns[0].comment) == (True, "the order's number")
    assert shown.rows == 0


def test_names_with_dots_and_backticks(lake: SmallLake) -> None:
    lake.catalog.create_namespace("odd")
    lake.catalog.create_table(("odd", "a.b`c"), pa.schema([("id", pa.int64())]))
    assert lake.warden.table.show("odd.`a.b``c`").table == "main.odd.`a.b``c`"
