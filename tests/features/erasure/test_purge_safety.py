"""`erasure purge` where it could take too much or get stuck: columns that grew, staged versions, files of others."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.types import DecimalType, LongType

from tests.small_lake import SmallLake


@pytest.mark.parametrize(
    ("kind", "wider", "other"),
    [
        pytest.param(pa.int32(), LongType(), 2**40, id="int"),
        pytest.param(pa.decimal128(4, 2), DecimalType(20, 2), Decimal("123456789.25"), id="decimal"),
    ],
)
def test_a_key_column_that_grew_since_the_request(lake: SmallLake, kind: Any, wider: Any, other: Any) -> None:
    """A value that the type of the request has no room for is somebody else's, and stays."""
    lake.catalog.create_namespace("crm")
    table = lake.catalog.create_table("crm.people", pa.schema([("id", kind)]))
    table.append(pa.table({"id": pa.array([5, 6], kind)}))
    asked = lake.warden.erasure.request("crm.people", key="id", value=["5"]).id
    with table.update_schema() as change:
        change.update_column("id", wider)
    grown = pa.int64() if kind == pa.int32() else pa.decimal128(20, 2)
    table.refresh()
    table.append(pa.table({"id": pa.array([5, other], grown)}))
    result = lake.warden.erasure.purge("crm.people").apply().result
    assert result["rows_dropped_by_tombstones"] == 2
    left = {row["id"] for row in lake.warden.version.read("crm.people", raw=True)}
    assert left == {6, other}
    assert lake.warden.erasure.show(asked).state == "closed"
