"""Spark skips manifests and files by their bounds: with wrong ones it would find fewer rows than there are."""

from __future__ import annotations

import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType, UUIDType

from tests.readers.lives import create
from tests.readers.spec import faults
from tests.readers.tables import Table
from tests.small_lake import SmallLake

pytestmark = pytest.mark.spark
SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "name", StringType()),
    NestedField(3, "code", UUIDType()),
)
BY_CODE = PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "code"))


@pytest.mark.soak
def test_uuids_are_found_although_java_orders_them_in_another_way(lake: SmallLake) -> None:
    """Java compares the halves of a UUID as signed numbers: to it those from 8 on come first.

    In a file with UUIDs of both kinds Spark does not find them, even if it wrote the file itself.
    """
    lake.catalog.create_namespace("db")
    table = create(lake, "db.uuids", SCHEMA, BY_CODE, {"format-version": "2"})
    table.insert(range(8))
    table.insert([8, 10, 11])
    found = ids_by_code(table)
    assert found == {row["code"]: [row["id"]] for row in table.rows["main"] if row["code"]}

    lake.warden.compaction.compact(table.name, rewrite_all=True).apply()

    assert ids_by_code(table) == found
    assert faults(table.metadata_location) == []


def ids_by_code(table: Table) -> dict[object, list[int]]:
    codes = [row["code"] for row in table.rows["main"] if row["code"]]
    return {code: [row.id for row in table.sql(f"SELECT id FROM {{t}} WHERE code = '{code}'")] for code in codes}
