"""Checks of rows on real Spark, with values that are easy to get wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakewarden.engine.sql.row_checks import differing, duplicated, null_ratios
from tests.small_lake import SmallLake

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

pytestmark = pytest.mark.spark
COLUMNS = "id BIGINT, `a.b` STRING, amount DOUBLE, tags MAP<STRING, INT>, inner STRUCT<x: INT>"


def rows(lake: SmallLake, *values: tuple[object, ...]) -> DataFrame:
    return lake.warden.ground.spark.session().createDataFrame(list(values), COLUMNS)


ONE = (1, "x", float("nan"), {"t": 1}, (1,))
TWO = (2, None, None, None, None)


def test_rows_are_compared_as_often_as_they_are_there(lake: SmallLake) -> None:
    given = rows(lake, ONE, ONE, TWO)
    assert differing(given, rows(lake, TWO, ONE, ONE), ()) == (0, 0)
    assert differing(given, rows(lake, ONE, TWO, TWO), ()) == (1, 1)
    other = (1, "x", float("nan"), {"t": 2}, (1,))
    assert differing(given, rows(lake, other, ONE, TWO), ()) == (1, 1)
    assert differing(given, rows(lake, other, ONE, TWO), ("Tags",)) == (0, 0)


def test_keys_with_a_null_equal_no_other(lake: SmallLake) -> None:
    new = rows(lake, ONE, ONE, TWO, TWO)
    assert duplicated(new, None, ["id"]) == (2, 0)
    assert duplicated(new, rows(lake, ONE, TWO), ["id", "a.b"]) == (1, 1)
    assert duplicated(rows(lake, ONE, TWO), rows(lake, TWO), ["ID"]) == (0, 1)


def test_ratios_of_nulls(lake: SmallLake) -> None:
    assert null_ratios(rows(lake, ONE, ONE, ONE, TWO), ["a.b", "ID"]) == {"a.b": 0.25, "ID": 0.0}
    assert null_ratios(rows(lake, ONE).where("false"), ["id"]) == {"id": 0.0}
