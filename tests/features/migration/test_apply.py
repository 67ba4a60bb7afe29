"""`migration apply`, on real Spark.

Covers `features/migration/files.py`, `features/migration/record.py` and `engine/spark/definitions.py`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lakewarden.errors import BadValue, Conflict
from lakewarden.lifecycle import failpoints
from tests.cases import in_soak
from tests.features.backfill.shop import SQL, TOTALS, Shop
from tests.small_lake import SmallLake

CREATED = """-- the table; one statement
CREATE NAMESPACE archive;
CREATE TABLE {db}.totals (id BIGINT, region STRING, note STRING COMMENT 'a; b') USING iceberg;
ALTER TABLE {db}.totals RENAME COLUMN note TO cents_text;
ALTER TABLE {db}.totals ADD COLUMN cents BIGINT
"""


class Killed(BaseException):
    pass


def kill() -> None:
    raise Killed


@pytest.fixture
def shop(lake: SmallLake) -> Shop:
    made = Shop(lake)
    lake.catalog.drop_table("shop.totals")
    return made


def migrate(shop: Shop, sql: str = CREATED, version: str = "003") -> Path:
    path = shop.folder / f"{version}_totals.migration.sql"
    path.write_text(sql)
    return path


@pytest.mark.spark
def test_migrations_are_applied_once_and_register_their_backfills(shop: Shop) -> None:
    shop.order(1, 2)
    shop.write()
    path = migrate(shop)
    warden = shop.warden
    assert [row.status for row in warden.migration.list(database="shop")] == ["pending"]
    result = warden.migration.apply(database="shop").apply().result
    assert (result["statements"], result["migrations"]) == (4, 1)
    columns = [field.name for field in shop.lake.catalog.load_table("shop.totals").schema().fields]
    assert columns == ["id", "region", "cents_text", "cents"]
    assert warden.migration.apply(database="shop").is_empty
    assert [(row.backfill_id, row.status) for row in warden.backfill.list()] == [("shop_003", "pending")]
    path.write_text(CREATED + ";ALTER TABLE {db}.totals ADD COLUMN more INT")
    assert [row.status for row in warden.migration.list(database="shop")] == ["changed"]


@pytest.mark.spark
@pytest.mark.parametrize(
    ("point", "pass_"),
    [
        ("migration.applied", 1),
        ("migration.applied", 3),
        *in_soak(("migration.noted", 3), ("migration.applied", 2), ("migration.registered", 1)),
    ],
)
def test_a_statement_that_was_applied_before_a_kill_is_recognised(shop: Shop, point: str, pass_: int) -> None:
    """Repeated, it would fail: the namespace exists, and the column has its new name already."""
    shop.order(1, 2)
    shop.write(run_on_startup=True)
    migrate(shop)
    warden = shop.warden
    passes = iter(range(1, 5))
    failpoints.when(point, lambda: kill() if next(passes) == pass_ else None, times=4)
    with pytest.raises(Killed):
        warden.migration.apply(database="shop").apply()
    failpoints.arm("")
    (row,) = warden.operation.list(limit=1)
    warden.operation.resume(row.id)
    assert [row.status for row in warden.migration.list(database="shop")] == ["applied"]
    assert shop.ids() == [1, 2]
    assert [row.status for row in warden.backfill.list()] == ["completed"]


@pytest.mark.spark
def test_what_others_do_after_a_statement_failed_does_not_make_it_applied(shop: Shop) -> None:
    shop.lake.catalog.create_table("shop.totals", TOTALS).append(TOTALS.empty_table())
    migrate(shop, "ALTER TABLE {db}.totals CREATE TAG released; ALTER TABLE {db}.totals ADD COLUMN more INT")
    for point in ("migration.applied", "migration.noted"):
        failpoints.when(point, kill)
        with pytest.raises(Killed):
            shop.warden.migration.apply(database="shop").apply()
        failpoints.arm("")
        shop.lose_control_database()
        shop.warden.version.tag("shop.totals", name=f"nightly-{point}").apply()
        shop.lake.catalog.load_table("shop.totals").transaction().set_properties(
            {f"lakewarden.{point}": "x"}
        ).commit_transaction()
    shop.warden.migration.apply(database="shop").apply()
    assert "more" in shop.lake.catalog.load_table("shop.totals").schema().column_names
    assert "released" in shop.lake.refs("shop.totals")


@pytest.mark.spark
def test_a_backfill_that_it_runs_keeps_others_from_its_target(shop: Shop) -> None:
    uuid = shop.lake.catalog.create_table("shop.totals", TOTALS).metadata.table_uuid
    shop.order(1, 2)
    shop.write(run_on_startup=True)
    migrate(shop, "ALTER TABLE {db}.totals ADD COLUMN more INT")
    held: list[str] = []
    failpoints.when("backfill.written", lambda: held.extend(one.key for one in shop.warden.ground.leases.held()))
    shop.warden.migration.apply(database="shop").apply()
    assert f"table:{uuid}" in held and shop.ids() == [1, 2]


@pytest.mark.spark
def test_a_backfill_that_fails_leaves_no_unpublished_files(shop: Shop) -> None:
    shop.lake.catalog.create_table("shop.totals", TOTALS)
    shop.order(*range(3, 12))
    shop.write(run_on_startup=True)
    migrate(shop, "ALTER TABLE {db}.totals ADD COLUMN more INT")

    def refuse() -> None:
        raise BadValue("for a test")

    failpoints.when("backfill.published", refuse)
    with pytest.raises(BadValue, match="for a test"):
        shop.warden.migration.apply(database="shop").apply()
    assert (len(shop.ids()), shop.unreferenced()) == (3, [])


def test_what_is_no_definition_is_refused(shop: Shop) -> None:
    path = migrate(shop, "INSERT INTO {db}.totals SELECT 1")
    with pytest.raises(BadValue, match=f"{path}: not a statement that defines a table: INSERT"):
        shop.warden.migration.apply(database="shop")
    migrate(shop, "CREATE TABLE {db}.t USING iceberg AS SELECT 1")
    with pytest.raises(BadValue, match="backfill"):
        shop.warden.migration.apply(database="shop")
    migrate(shop, "ALTER TABLE {database}.t ADD COLUMN x INT")
    with pytest.raises(BadValue, match="the placeholder {database} has no value"):
        shop.warden.migration.apply(database="shop")
    migrate(shop)
    shop.write(SQL.replace("{batch_size}", "{size}"))
    with pytest.raises(BadValue, match="{size} has no value"):
        shop.warden.migration.apply(database="shop")


@pytest.mark.spark
def test_a_file_that_changed_halfway_is_refused(shop: Shop) -> None:
    migrate(shop)
    failpoints.when("migration.applied", kill)
    with pytest.raises(Killed):
        shop.warden.migration.apply(database="shop").apply()
    migrate(shop, CREATED + "; DROP TABLE {db}.orders")
    with pytest.raises(Conflict, match="was changed after"):
        shop.warden.migration.apply(database="shop")
