"""Rows that the SQL fails on, on real Spark. Covers `features/backfill/bad_rows.py`."""

from __future__ import annotations

from typing import Any

import pytest

from lakewarden.errors import LakewardenError
from lakewarden.features.backfill.position import position
from tests.features.backfill.shop import SQL, Shop

pytestmark = pytest.mark.spark
CASTING = SQL.replace("amount * 100", "region")


@pytest.fixture
def mixed(shop: Shop) -> Shop:
    """Orders of which two have a region that is no number."""
    shop.order(*range(3), 4, 5, 7, 8, region="17")
    shop.order(3, 6, region="secret")
    return shop


def test_they_are_named_without_their_values(mixed: Shop) -> None:
    mixed.register(CASTING)
    with pytest.raises(
        LakewardenError,
        match=r"rows with id = \[3\] \(CAST_INVALID_INPUT, 1 row\); \[6\] \(CAST_INVALID_INPUT, 1 row\)\.",
    ) as error:
        mixed.run()
    assert "secret" not in str(error.value)
    assert mixed.ids() == [] and mixed.status().status == "failed"


def test_they_are_put_aside_and_the_rest_is_written(mixed: Shop) -> None:
    mixed.register(CASTING, on_bad_rows="quarantine", max_bad_rows=2)
    mixed.run()
    assert (mixed.ids(), mixed.status().status) == ([0, 1, 2, 4, 5, 7, 8], "completed")
    last = position(mixed.lake.catalog.load_table("shop.totals"), "shop_003")
    assert last is not None and last.aside  # whatever becomes of the record of these rows
    rows = mixed.lake.catalog.load_table("shop.totals__bad_rows").scan().to_arrow().to_pylist()
    assert [(row["checkpoint"], row["error"], row["backfill"]) for row in rows] == [
        ("[3]", "CAST_INVALID_INPUT", "shop_003"),
        ("[6]", "CAST_INVALID_INPUT", "shop_003"),
    ]


@pytest.mark.parametrize("is_sorted", [False, True])
def test_nulls_for_a_required_column_are_put_aside(shop: Shop, is_sorted: bool) -> None:
    """Whether Lakewarden's own tasks write the rows, or Spark does."""
    spark = shop.warden.ground.spark.sql
    spark("DROP TABLE main.shop.totals")
    spark("CREATE TABLE main.shop.totals (id BIGINT, region STRING NOT NULL, cents BIGINT) USING iceberg")
    if is_sorted:
        spark("ALTER TABLE main.shop.totals WRITE ORDERED BY id")
    shop.order(*range(6))
    shop.order(6, 8, region=None)
    shop.order(7)
    shop.register(on_bad_rows="quarantine")
    shop.run()
    assert (shop.ids(), shop.status().status) == ([*range(6), 7], "completed")
    rows = shop.lake.catalog.load_table("shop.totals__bad_rows").scan().to_arrow().to_pylist()
    assert [row["checkpoint"] for row in rows] == ["[6]", "[8]"]
    assert shop.lake.catalog.load_table("shop.totals").schema().find_field("region").required


def test_no_value_is_logged_while_rows_are_hidden(mixed: Shop, caplog: pytest.LogCaptureFixture) -> None:
    mixed.order(9, region="hidden")
    mixed.warden.erasure.request("shop.orders", key="region", value=["hidden"])
    mixed.register(CASTING, on_bad_rows="quarantine", max_bad_rows=2)
    mixed.run()
    assert (mixed.ids(), mixed.status().status) == ([0, 1, 2, 4, 5, 7, 8], "completed")
    assert "CAST_INVALID_INPUT" in caplog.text
    assert "secret" not in caplog.text and "'hidden'" not in caplog.text


def test_too_many_of_them_fail(mixed: Shop) -> None:
    mixed.register(CASTING, on_bad_rows="quarantine", max_bad_rows=1)
    with pytest.raises(LakewardenError, match=r"\[3\] .*; \[6\] .* and maybe more"):
        mixed.run()


def test_all_rows_with_the_checkpoint_of_a_bad_one_count(shop: Shop) -> None:
    shop.order(1, 2, 3, region="north")
    shop.order(4, 5, region="17")
    sql = CASTING.replace("id > {checkpoint_id}", "region > {checkpoint_region}").replace("BY id", "BY region")
    meta: dict[str, Any] = {"checkpoint_columns": ["region"], "on_bad_rows": "quarantine"}
    shop.register(sql, **meta, max_bad_rows=2)
    with pytest.raises(LakewardenError, match=r"\[\"north\"\] \(CAST_INVALID_INPUT, 3 rows\)"):
        shop.run()
    shop.write(sql, **meta, max_bad_rows=3)
    shop.run()
    rows = shop.lake.catalog.load_table("shop.totals__bad_rows").scan().to_arrow().to_pylist()
    assert (shop.ids(), [row["rows"] for row in rows]) == ([4, 5], [3])
