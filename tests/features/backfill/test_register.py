"""`backfill register`.

Covers `features/backfill/files.py`, `features/backfill/meta.py`, `features/backfill/registration.py` and
`config/backfills.py`.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from lakewarden.errors import BadValue, NotFound, TableNotFound
from tests.features.backfill.shop import SQL, TOTALS, Shop


@pytest.mark.spark
def test_registered_backfills_are_pending_and_known_to_the_lake(shop: Shop) -> None:
    shop.order(1)
    shop.write(priority=1)
    shop.write(version="4", checkpoint_columns=["id", "region"], sql=SQL.replace("id > {checkpoint_id}", "true"))
    rows = shop.warden.backfill.register(database="shop")
    assert [(row.backfill_id, row.is_new) for row in rows] == [("shop_003", True), ("shop_4", True)]
    assert [row.is_new for row in shop.warden.backfill.register(database="main.shop", version="3")] == [False]
    shop.lose_control_database()  # it is not needed for this
    assert [row.migration_version for row in shop.warden.backfill.list(status="pending")] == ["003", "4"]


@pytest.mark.spark
@pytest.mark.parametrize(
    ("sql", "problem"),
    [
        (SQL.replace("region,", "nothing,"), "nothing"),
        (SQL.replace("CAST(amount * 100 AS BIGINT)", "region"), "Spark refuses the SQL: .*CANNOT_SAFELY_CAST"),
        (SQL.replace("SELECT id", "SELECT {checkpoint_id}"), "selects values of the checkpoint"),
        (SQL.replace("id > {checkpoint_id}", "id > {checkpoint_id} + 1"), "003_totals.backfill.sql: .* leave out rows"),
        (SQL.replace("{db}.orders", "{db}.missing"), "no table shop.missing"),
    ],
)
def test_sql_that_does_not_fit_is_refused(shop: Shop, sql: str, problem: str) -> None:
    shop.order(1)
    shop.write(sql)
    with pytest.raises((BadValue, TableNotFound), match=problem):
        shop.warden.backfill.register(database="shop")
    assert shop.warden.backfill.list() == []


OTHER: tuple[tuple[dict[str, Any], str, str], ...] = (
    ({"target_table": "my_table"}, SQL, "target_table is my_table, but the SQL inserts into shop.totals"),
    ({"target_table": "totals"}, SQL.replace("{db}.totals", "{db}.no_such_table"), "inserts into shop.no_such_table"),
    ({"target_table": "TOTALS"}, SQL, "target_table is TOTALS, but"),  # another name to this catalog
    ({"target_table": "orders"}, SQL, "target_table is orders, but the SQL inserts into shop.totals"),
    ({}, SQL.replace("{db}.totals", "{db}.orders"), "main.shop.orders is both the source and the target"),
    ({}, SQL.replace("{db}.totals", "main.{db}.orders"), "main.shop.orders is both the source and the target"),
    ({"source_table": "totals"}, SQL, "source_table is totals, which the SQL does not read"),
    ({"source_table": "Orders"}, SQL, "source_table is Orders, which the SQL does not read"),
)


@pytest.mark.parametrize(("meta", "sql", "problem"), OTHER)
def test_a_target_or_source_that_is_not_that_of_the_sql_is_refused(
    shop: Shop, meta: dict[str, Any], sql: str, problem: str
) -> None:
    shop.order(1)
    shop.lake.catalog.create_table("shop.my_table", TOTALS)
    shop.write(sql, **meta)
    with pytest.raises(BadValue, match=problem):
        shop.warden.backfill.register(database="shop")


@pytest.mark.spark
def test_spellings_of_one_table_are_accepted_and_files_that_changed_are_refused_by_a_run(shop: Shop) -> None:
    shop.order(1, 2)
    spelled = SQL.replace("{db}.totals", "`main`.`{db}`.`totals`").replace("{db}.orders", "main.{db}.orders")
    for target, source in (("totals", "orders"), ("{db}.totals", "{db}.orders"), ("main.shop.totals", "shop.orders")):
        shop.register(spelled, target_table=target, source_table=source)
    shop.register(SQL, target_table="totals", source_table="main.shop.orders")
    for meta, sql, problem in OTHER[:5]:
        shop.write(sql, **meta)
        with pytest.raises(BadValue, match=problem):
            shop.run()
    assert (shop.ids("shop.orders"), shop.ids()) == ([1, 2], [])
    shop.write(spelled, target_table="totals", source_table="orders")
    shop.run()
    assert shop.ids() == [1, 2]


@pytest.mark.parametrize(
    ("meta", "problem"),
    [
        ({"batch_size": 0}, "batch_size: Input should be greater than or equal to 1"),
        ({"batch_size": "5"}, "batch_size: Input should be a valid integer"),
        ({"checkpoint_columns": []}, "checkpoint_columns: .* at least 1 item"),
        ({"checkpoint_columns": ["id", "ID"]}, "checkpoint_columns names a column twice"),
        ({"migration_version": "4"}, "migration_version is 4. It must be 003"),
        ({"prioritiy": 1}, "unknown key prioritiy. Did you mean priority?"),
        ({"mode": "fast"}, "mode: Input should be 'direct' or 'branch'"),
        ({"initial_checkpoint": {"no": 1}}, "initial_checkpoint must have exactly the checkpoint columns: id"),
        ({"custom_fields": {"db": 1}}, "custom_fields cannot have db"),
    ],
)
def test_errors_name_the_file_the_key_and_the_fix(shop: Shop, meta: dict[str, Any], problem: str) -> None:
    shop.write(**meta)
    with pytest.raises(BadValue, match=f"003_totals.backfill.meta: {problem}".replace("?", r"\?")):
        shop.warden.backfill.register(database="shop")


def test_files_that_are_missing_or_no_json(shop: Shop) -> None:
    path = shop.write()
    meta = path.with_name("003_totals.backfill.meta")
    meta.write_text("{")
    with pytest.raises(BadValue, match=f"{re.escape(str(meta))} is not JSON"):
        shop.warden.backfill.list()
    meta.write_text('{"batch_size": 1, "checkpoint_columns": ["id"]}')
    with pytest.raises(BadValue, match=r"migration_version is missing. Add migration_version"):
        shop.warden.backfill.list()
    meta.unlink()
    with pytest.raises(BadValue, match="has no .backfill.meta file beside it"):
        shop.warden.backfill.list()
    shop.write(version="3")
    shop.write(version="003")
    with pytest.raises(BadValue, match="have the same version 3"):
        shop.warden.backfill.list()
    for own in shop.folder.glob("*_totals.backfill.meta"):
        own.unlink()
    path.rename(path.with_name("totals.backfill.sql"))
    with pytest.raises(BadValue, match="has no .backfill.meta"):
        shop.warden.backfill.list()


def test_unknown_versions_and_databases(shop: Shop) -> None:
    shop.write()
    with pytest.raises(NotFound, match="no backfill 4 in the configured folders. There are: 003"):
        shop.warden.backfill.register(database="shop", version="4")
    with pytest.raises(NotFound, match="not registered for shop"):
        shop.warden.backfill.status(database="shop", version="3")
    with pytest.raises(NotFound, match="no namespace elsewhere"):
        shop.warden.backfill.status(database="elsewhere", version="3")
