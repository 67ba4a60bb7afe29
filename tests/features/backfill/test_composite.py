"""Composite checkpoints with NULL, duplicated and skewed prefixes: nothing is skipped or doubled."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from lakewarden.engine.sql.batches import _ranges
from lakewarden.engine.sql.tuples import TupleColumns
from tests.examples import examples
from tests.features.backfill.shop import ORDERS, Shop
from tests.small_lake import SmallLake

pytestmark = pytest.mark.spark
COLUMNS = TupleColumns(("region", "ratio", "id"), ("string", "double", "long"))
ROWS = st.lists(
    st.tuples(
        st.sampled_from([None, "", "a", "a", "a", "a'b", "ü"]),
        st.sampled_from([None, -1.5, 2.0, 2.0, float("nan")]),
        st.none() | st.integers(-2, 2),
    ),
    max_size=40,
)


def chunks(rows: list[tuple[Any, ...]], size: int) -> list[int]:
    """How many rows each batch has, by pandas: equal tuples together, NULL first and NaN last."""
    plain = [(region, math.inf if ratio is not None and math.isnan(ratio) else ratio, id) for region, ratio, id in rows]
    frame = pd.DataFrame(plain, columns=COLUMNS.names, dtype=object)
    counts = frame.groupby(list(COLUMNS.names), dropna=False, sort=False).size().reset_index(name="rows")
    counts = counts.astype({"ratio": "Float64", "id": "Int64"})
    found: list[int] = []
    for rows_of_tuple in counts.sort_values(list(COLUMNS.names), na_position="first")["rows"]:
        if found and found[-1] + rows_of_tuple <= size:
            found[-1] += int(rows_of_tuple)
        else:
            found.append(int(rows_of_tuple))
    return found


@examples(40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=ROWS, size=st.integers(1, 7), fraction=st.sampled_from([0.02, 0.3]))
def test_every_row_is_in_exactly_one_range(lake: SmallLake, rows: list[Any], size: int, fraction: float) -> None:
    """Also if the ranges come from a sample, in which few rows or none are."""
    from pyspark.sql import functions as F

    session = lake.warden.ground.spark.session()
    frame = session.createDataFrame(rows, "region string, ratio double, id bigint")
    exact, sampled = (_ranges(frame, COLUMNS, None, size, each) for each in (1.0, fraction))
    assert [each.rows for each in exact] == chunks(rows, size)
    for some in (exact, sampled):
        assert sum(each.rows for each in some) == len(rows)
        if some:
            held = [F.sum(COLUMNS.within(each.lower, each.upper).cast("int")) for each in some]
            numbered = COLUMNS.number([each.upper or () for each in some[:-1]])
            is_own = F.element_at(
                F.array(*(COLUMNS.within(each.lower, each.upper) for each in some)), numbered + F.lit(1)
            )
            assert list(frame.agg(*held).collect()[0]) == [each.rows for each in some]
            assert frame.where(~is_own).count() == 0


def test_rows_with_nan_are_found_again_after_a_pause(shop: Shop) -> None:
    """Iceberg's bounds of the file with them end before the checkpoint."""
    nan = float("nan")
    for amounts, ids in (([0.5, nan, nan, nan], [1, 2, 3, 3]), ([1.0], [4])):
        rows = {"region": ["a"] * len(ids), "id": ids, "amount": amounts}
        shop.lake.catalog.load_table("shop.orders").append(pa.table(rows, schema=ORDERS))
    sql = "INSERT INTO {db}.totals SELECT id, region, 1 FROM {db}.orders WHERE {range_predicate}"
    shop.register(sql, checkpoint_columns=["amount", "id"], batch_size=1)
    for batches in (2, 1):
        shop.run(max_batches=batches)
        shop.lose_control_database()
    assert (shop.ids(), shop.status().checkpoint["amount"]) == ([1, 2, 4], "nan")
    shop.run()
    assert (shop.ids(), shop.status().status) == ([1, 2, 3, 3, 4], "completed")


def test_a_composite_checkpoint_from_end_to_end(shop: Shop) -> None:
    rows: dict[str, list[Any]] = {
        "region": [None, None, "a", "a", "a", "b", "b'"],
        "id": [None, 1, None, 2, 2, 1, 1],
        "amount": [1.0] * 7,
    }
    shop.lake.catalog.load_table("shop.orders").append(pa.table(rows, schema=ORDERS))
    sql = (
        "INSERT INTO {db}.totals SELECT id, region, 1 FROM {db}.orders "
        "WHERE (region > '{checkpoint_region}' OR (region = '{checkpoint_region}' AND id > {checkpoint_id})) "
        "ORDER BY region, id LIMIT {batch_size}"
    )
    shop.register(sql, checkpoint_columns=["region", "id"], batch_size=2)
    shop.run(max_batches=2)
    shop.lose_control_database()
    shop.run()
    assert [stamp["rows"] for stamp in shop.stamps()] == [2, 3, 5, 7]
    found = shop.lake.catalog.load_table("shop.totals").scan().to_arrow()
    key = lambda pair: (pair[0] is not None, pair[0] or "", pair[1] is not None, pair[1] or 0)  # noqa: E731
    assert sorted(zip(found["region"].to_pylist(), found["id"].to_pylist(), strict=True), key=key) == sorted(
        zip(rows["region"], rows["id"], strict=True), key=key
    )
