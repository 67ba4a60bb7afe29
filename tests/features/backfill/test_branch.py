"""Backfills that write to a branch, pass gates, and are published once. On real Spark.

Covers `features/backfill/branch.py`, `features/backfill/gates.py` and `engine/sql/row_checks.py`.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import pyarrow as pa
import pytest

from lakewarden.errors import BadValue, Conflict
from lakewarden.features.backfill.gates import GateFailed
from lakewarden.lifecycle import failpoints
from tests.cases import in_soak
from tests.features.backfill.shop import SQL, TOTALS, Shop
from tests.features.backfill.test_run import Killed, kill

pytestmark = pytest.mark.spark
BRANCH = "backfill_shop_003"
RANDOM = SQL.replace("CAST(amount * 100 AS BIGINT)", "CAST(rand() * 1e15 AS BIGINT)")
OTHERS = pa.table({"id": [100], "region": ["x"], "cents": [1]}, schema=TOTALS)


def others_append(shop: Shop) -> None:
    shop.lake.catalog.load_table("shop.totals").append(OTHERS)


def on_branch(shop: Shop) -> list[int]:
    return sorted(row["id"] for row in shop.warden.version.read(f"shop.totals@{BRANCH}"))


def test_batches_are_published_to_main_by_one_commit(shop: Shop) -> None:
    others_append(shop)
    shop.order(*range(7))
    shop.register(mode="branch", gates={"unique_keys": ["id"], "max_null_ratio": {"region": 0}, "sample_batches": 2})
    shop.run(max_batches=2)
    status = shop.status()
    assert (on_branch(shop), shop.ids()) == ([0, 1, 2, 3, 4, 5], [100])
    assert (status.status, status.rows_processed, status.checkpoint["batches_completed"]) == ("paused", 6, 2)
    assert status.notes == [f"its batches are on branch {BRANCH} of the target, and not published yet"]
    shop.lose_control_database()
    shop.warden.retention.expire("shop.totals", keep_last=1, keep_days=0, reader_grace="0s").apply()
    assert [stamp["batch"] for stamp in shop.stamps()] == [2]
    result = shop.run()
    assert (result["rows_written"], result["rows_published"]) == (1, 7)
    assert (shop.ids(), list(shop.lake.refs("shop.totals"))) == ([*range(7), 100], ["main"])
    assert [(stamp["batch"], stamp["complete"], stamp["whole"]) for stamp in shop.stamps()] == [(3, True, True)]
    assert (shop.status().status, shop.status().notes, shop.run()) == ("completed", [], {"actions": 0, "subjects": 0})
    shop.order(50)
    assert shop.run(again=True)["rows_published"] == 1
    assert shop.ids() == [*range(7), 50, 100]


@pytest.mark.parametrize(
    ("point", "with_control_database"),
    [
        ("backfill.checked", True),
        *in_soak(*product(("backfill.written", "commit.ready", "commit.landed", "backfill.checked"), (True, False))),
    ],
)
def test_killed_at_any_step_each_row_is_there_once(shop: Shop, point: str, with_control_database: bool) -> None:
    shop.order(*range(5))
    shop.register(mode="branch")
    failpoints.when(point, kill)
    with pytest.raises(Killed):
        shop.run()
    failpoints.arm("")
    assert shop.ids() == []
    if with_control_database:
        shop.warden.backfill.resume(database="shop", version="3")
    else:
        shop.lose_control_database()
        shop.run()
    assert (shop.ids(), BRANCH in shop.lake.refs("shop.totals")) == (list(range(5)), False)


def test_killed_after_its_publication_nothing_is_published_twice(shop: Shop) -> None:
    shop.order(*range(5))
    shop.register(mode="branch")

    def next_commit() -> None:
        failpoints.when("commit.landed", kill)

    failpoints.when("backfill.checked", next_commit)
    with pytest.raises(Killed):
        shop.run()
    failpoints.arm("")
    assert shop.ids() == list(range(5))
    shop.lose_control_database()
    assert shop.status().status == "completed"
    assert (shop.run(), shop.ids()) == ({"actions": 0, "subjects": 0}, list(range(5)))


def test_others_append_to_and_compact_main_meanwhile(shop: Shop) -> None:
    shop.order(*range(5))
    shop.register(mode="branch")
    compact = "CALL main.system.rewrite_data_files(table => 'shop.totals', options => map('rewrite-all', 'true'))"

    def meanwhile() -> None:
        others_append(shop)
        others_append(shop)
        shop.warden.ground.spark.sql(compact)

    failpoints.when("commit.ready", meanwhile, times=3)
    shop.run()
    assert shop.ids() == [*range(5), *[100] * 6]


@pytest.mark.parametrize(
    ("gates", "changed", "problem"),
    [
        ({}, "id <> 3", "gate row_parity failed: the SQL gives 4 rows, the branch has 5"),
        (
            {"unique_keys": ["region"]},
            "true",
            r"gate unique_keys failed: 1 keys \(region\) occur more than once, 0 are on main already",
        ),
        (
            {"max_null_ratio": {"region": 0.1, "id": 0.5}},
            "true",
            "gate max_null_ratio failed: 20.00% of region are NULL, 10.00% are allowed",
        ),
    ],
)
def test_a_gate_that_fails_leaves_main_as_it_was(shop: Shop, gates: dict[str, Any], changed: str, problem: str) -> None:
    """Its rows stay on the branch; once the gate is changed, it is resumed."""
    shop.order(1, 2, 3, 4)
    shop.order(5, region=None)
    shop.register(
        SQL.replace("WHERE", "WHERE {cutover} AND"), custom_fields={"cutover": True}, mode="branch", gates=gates
    )
    if changed != "true":
        shop.run(max_batches=2)
        sql = SQL.replace("WHERE", f"WHERE {changed} AND")
        shop.write(sql, mode="branch", gates=gates)
    with pytest.raises(GateFailed, match=problem):
        shop.run()
    assert (shop.ids(), on_branch(shop)) == ([], [1, 2, 3, 4, 5])
    assert shop.status().status == "failed" and "gate" in shop.status().error_log[0]
    sql = SQL.replace("WHERE", "WHERE {cutover} AND")
    shop.write(sql, custom_fields={"cutover": True}, mode="branch", gates={"row_parity": True})
    shop.run()
    assert (shop.ids(), shop.status().status) == ([1, 2, 3, 4, 5], "completed")


def test_a_sampled_batch_must_be_what_the_sql_gives(shop: Shop) -> None:
    """SQL that is not the same each time is not compared, unless that is asked for."""
    shop.order(1, 2, 3)
    shop.register(RANDOM, mode="branch")
    planned = shop.warden.backfill.run(database="shop", version="3")
    assert "no batch is compared" in planned.plan.warnings[0]
    shop.register(RANDOM, mode="branch", gates={"sample_batches": 1})
    with pytest.raises(GateFailed, match="in the batch up to .3., 3 rows that the SQL gives are missing, and 3 others"):
        shop.run()
    shop.write(RANDOM, mode="branch", gates={"sample_batches": 1, "sample_ignores": ["cents"]})
    shop.warden.backfill.resume(database="shop", version="3")
    assert shop.ids() == [1, 2, 3]


def test_keys_that_main_has_already(shop: Shop) -> None:
    others_append(shop)
    shop.order(99, 100)
    shop.register(mode="branch", gates={"unique_keys": ["id"]})
    with pytest.raises(GateFailed, match=r"0 keys \(id\) occur more than once, 1 are on main already"):
        shop.run()


def test_a_branch_that_others_changed_is_not_published(shop: Shop) -> None:
    shop.order(1, 2, 3)
    shop.register(mode="branch")
    shop.run(max_batches=1)
    shop.lake.catalog.load_table("shop.totals").append(OTHERS, branch=BRANCH)
    with pytest.raises(Conflict, match=f"others have committed to branch {BRANCH}"):
        shop.run()
    shop.write(mode="direct")
    with pytest.raises(Conflict, match=f"branch {BRANCH} has batches of backfill shop_003 that are not published"):
        shop.run()


def test_the_mode_does_not_change_between_batches(shop: Shop) -> None:
    shop.order(*range(6))
    shop.register()
    shop.run(max_batches=1)
    shop.write(mode="branch")
    with pytest.raises(Conflict, match="published to main directly. Complete it with mode: direct first"):
        shop.run()


@pytest.mark.parametrize(
    ("meta", "problem"),
    [
        ({"gates": {}}, "gates needs mode: branch"),
        ({"mode": "branch", "gates": {"row_paritty": True}}, "unknown key gates.row_paritty. Did you mean row_parity"),
        ({"mode": "branch", "gates": {"max_null_ratio": {"id": 5}}}, "gates.max_null_ratio.id: Input should be less"),
        ({"mode": "branch", "gates": {"unique_keys": ["idd"]}}, "gates.unique_keys: the target has no column idd"),
    ],
)
def test_mistakes_are_named_at_registration(shop: Shop, meta: dict[str, Any], problem: str) -> None:
    shop.order(1)
    with pytest.raises(BadValue, match=problem):
        shop.register(**meta)


def test_a_partitioned_target_and_a_source_without_rows(shop: Shop) -> None:
    shop.lake.catalog.drop_table("shop.totals")
    shop.warden.ground.spark.sql(
        "CREATE TABLE main.shop.totals (id BIGINT, region STRING, cents BIGINT) USING iceberg PARTITIONED BY (region)"
    )
    shop.order(1)
    shop.lake.catalog.load_table("shop.orders").delete("id = 1")
    shop.register(mode="branch")
    shop.run()
    assert (shop.ids(), shop.status().status) == ([], "completed")
    shop.order(1, 2, 3, region="a")
    shop.order(4, 5, region="b")
    shop.run(again=True)
    assert (shop.ids(), set(shop.lake.refs("shop.totals"))) == ([1, 2, 3, 4, 5], {"main"})


def test_a_purge_erases_from_the_branch_too(shop: Shop) -> None:
    """Its stamps stay, and what is left is published."""
    shop.order(1, 2, 3, region="gone")
    shop.order(*range(4, 9))
    shop.register(mode="branch")
    shop.run(max_batches=2)
    for table in ("shop.orders", "shop.totals"):
        shop.warden.erasure.request(table, key="region", value=["gone"])
    shop.warden.erasure.purge("shop.totals", now=True).apply()
    assert on_branch(shop) == [4, 5, 6]
    shop.run()
    assert (shop.ids(), shop.status().status) == ([4, 5, 6, 7, 8], "completed")


def test_a_migration_runs_it_to_its_publication(shop: Shop) -> None:
    shop.order(*range(5))
    (shop.folder / "003_note.migration.sql").write_text("ALTER TABLE {db}.totals ADD COLUMN note STRING")
    shop.write(mode="branch", run_on_startup=True)
    shop.warden.migration.apply(database="shop").apply()
    assert (shop.ids(), shop.status().status, list(shop.lake.refs("shop.totals"))) == (
        list(range(5)),
        "completed",
        ["main"],
    )
