"""More of `tests/readers`: other orders of operations, long lives in format v3, and every transform of every type."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    YearTransform,
)

from tests.readers.lives import SCHEMA, create, long_life
from tests.readers.spark_goes_on import go_on
from tests.readers.tables import Row, person
from tests.readers.test_readers import Operation, ask, compact, expire, hide, look, purge
from tests.small_lake import SmallLake

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.soak]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallLake]:
    with SmallLake(tmp_path_factory.mktemp("matrix") / "lake") as lake:
        lake.catalog.create_namespace("db")
        yield lake


@pytest.mark.parametrize("operations", [[purge, compact, expire], [compact, hide, purge], [hide, expire, compact]])
@pytest.mark.parametrize("version", [1, 2, 3])
def test_other_orders(
    lake: SmallLake, request: pytest.FixtureRequest, version: int, operations: list[Operation]
) -> None:
    table = long_life(lake, f"db.t{abs(hash(request.node.callspec.id))}", version)
    ask(table)
    for operation in operations:
        if operation is hide and version != 2:
            continue  # v1 has no deletes; of vectors for NaN partitions see `tests/readers/limits.py`
        operation(table)
        look(table, operation.__name__, row_by_row=True)
    go_on(table)
    look(table, "Spark went on", row_by_row=True)


SIMPLE = ("flag", "small", "big", "d9", "d18", "d38", "day", "at", "at_tz", "text", "raw", "code")
SPECS: dict[str, dict[str, Transform[Any, Any]]] = {
    "identity": {name: IdentityTransform() for name in [*SIMPLE, "ratio", "value"]},  # Spark writes none of fixed right
    "bucket": {name: BucketTransform(7) for name in [*SIMPLE, "four"] if name != "flag"},
    "truncate": {"d9": TruncateTransform(10), "d38": TruncateTransform(10), "text": TruncateTransform(2),
                 "raw": TruncateTransform(2), "d18": TruncateTransform(50)},
    "dates": {"at": YearTransform(), "at_tz": MonthTransform(), "day": DayTransform()},
    "times": {"at": HourTransform(), "at_tz": DayTransform(), "day": MonthTransform()},
}  # fmt: skip


def twin(number: int) -> Row:
    """Rows that differ by their ids only: each partition has two."""
    return {**person(number % 10), "id": number}


@pytest.mark.parametrize("name", SPECS)
def test_every_transform_of_every_type(lake: SmallLake, name: str) -> None:
    fields = [
        PartitionField(SCHEMA.find_field(column).field_id, 1000 + place, transform, f"by_{column}")
        for place, (column, transform) in enumerate(SPECS[name].items())
    ]
    properties = {"format-version": "2", "write.delete.mode": "merge-on-read"}
    table = create(lake, f"db.{name}", SCHEMA, PartitionSpec(*fields), properties)
    table.make_row = twin
    table.insert(range(10))
    table.insert(range(10, 20))
    table.ref("TAG", "first")
    table.delete([1, 12])
    ask(table)
    for operation in (hide, compact, purge):
        operation(table)
        look(table, operation.__name__)
