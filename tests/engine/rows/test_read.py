"""Rows through PyIceberg and through Spark: the same filter means the same on both sides.

Covers `engine/rows/hidden_filter.py` and `engine/rows/spark_filter.py`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from lakewarden.engine.rows.read import _predicate, version_schema
from tests.cases import in_soak
from tests.small_lake import SmallLake

ROWS: list[dict[str, Any]] = [
    {"id": 1, "city": "Bern", "amount": Decimal("1.50"), "day": date(2026, 1, 1), "score": 1.5, "paid": True},
    {
        "id": 2,
        "city": "a\tb",
        "amount": Decimal("20.00"),
        "day": date(2026, 2, 1),
        "score": float("nan"),
        "paid": False,
    },
    {"id": 3, "city": "it's", "amount": None, "day": None, "score": None, "paid": None},
    {"id": 4, "city": "Bern\\", "amount": Decimal("-7.25"), "day": date(1969, 12, 31), "score": -0.5, "paid": True},
    {"id": 5, "city": None, "amount": Decimal("20.00"), "day": date(2026, 2, 1), "score": 3.0, "paid": True},
]
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("city", pa.string()),
        ("amount", pa.decimal128(9, 2)),
        ("day", pa.date32()),
        ("score", pa.float64()),
        ("paid", pa.bool_()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("local", pa.timestamp("us")),
        ("place", pa.struct([("street", pa.string())])),
    ]
)
FILTERS = {
    "id > 2": {3, 4, 5},
    "id >= 2 AND id <= 3": {2, 3},
    "id < 2 OR id = 5": {1, 5},
    "NOT id = 1": {2, 3, 4, 5},
    "\"city\" = 'Bern'": {1},
    "city = 'a\tb'": {2},
    "city = 'it''s'": {3},
    "city LIKE 'Be%'": {1, 4},
    "city IN ('Bern', 'it''s')": {1, 3},
    "id NOT IN (1, 2)": {3, 4, 5},
    "city IS NULL": {5},
    "amount IS NOT NULL AND amount > 10": {2, 5},
    "amount = -7.25": {4},
    "day >= '2026-01-15'": {2, 5},
    "day > '0999-12-31' AND at > '0999-12-31T23:00:00+00:00'": {1, 2, 4, 5},
    "score IS NAN": {2},
    "score < 0": {4},
    "score > 1": {1, 5},
    "local = '2026-07-02T12:00:00'": {2},
    "local < '2026-07-02T11:59:00'": {1},
    "paid = true": {1, 4, 5},
    "at >= '2026-03-02T00:00:00+00:00'": {2, 3, 4, 5},
    "place.street = 'Gasse 3'": {3},
}


@pytest.fixture
def mixed(lake: SmallLake) -> SmallLake:
    rows = [
        row
        | {
            "at": datetime(2026, 3, row["id"], tzinfo=UTC),
            "local": datetime(2026, 7, row["id"], 12),
            "place": {"street": f"Gasse {row['id']}"},
        }
        for row in ROWS
    ]
    lake.catalog.create_namespace("web")
    lake.catalog.create_table("web.mixed", SCHEMA).append(pa.Table.from_pylist(rows, schema=SCHEMA))
    return lake


@pytest.fixture(params=["Europe/Zurich", *in_soak("UTC")])
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The host's time zone, which must make no difference."""
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.spark
@pytest.mark.usefixtures("zone")
def test_a_filter_means_the_same_through_pyiceberg_and_through_spark(mixed: SmallLake, soaking: bool) -> None:
    """`make test` tries every second filter."""
    version = mixed.warden.ground.tables.resolve("web.mixed")
    rows = mixed.warden.ground.rows
    for where, expected in list(FILTERS.items())[:: 1 if soaking else 2]:
        _, direct = rows.batches(version, where, ["id"])
        predicate = _predicate(version, version_schema(version), where)
        _, through_spark = rows._through_spark(version, predicate, ["id"], None)
        found = [
            {id for batch in batches for id in batch.column("id").to_pylist()} for batches in (direct, through_spark)
        ]
        assert found == [expected, expected], where


@pytest.mark.spark
@pytest.mark.usefixtures("zone")
def test_spark_streams_the_same_rows_with_limit_and_columns(mixed: SmallLake) -> None:
    version = mixed.warden.ground.tables.resolve("web.mixed")
    rows = mixed.warden.ground.rows
    predicate = _predicate(version, version_schema(version), "")
    _, batches = rows._through_spark(version, predicate, [], None)
    spark = sorted((row for batch in batches for row in batch.to_pylist()), key=lambda row: row["id"])
    _, batches = rows.batches(version)
    direct = sorted((row for batch in batches for row in batch.to_pylist()), key=lambda row: row["id"])
    assert repr(spark) == repr(direct)

    _, batches = rows._through_spark(version, predicate, ["city", "id"], 2)
    (batch,) = list(batches)
    assert (batch.num_rows, batch.schema.names) == (2, ["city", "id"])


@pytest.mark.spark
def test_a_version_as_a_spark_dataframe(mixed: SmallLake) -> None:
    mixed.warden.version.tag("web.mixed", "v1").apply()
    table = mixed.catalog.load_table("web.mixed")
    table.delete("id = 1")
    assert mixed.warden.dataframe("web.mixed@v1").count() == 5
    assert mixed.warden.dataframe("web.mixed").count() == 4
