"""`backfill run`, on real Spark.

Covers `features/backfill/planning.py`, `features/backfill/job.py`, `features/backfill/writing.py`,
`features/backfill/position.py`, `engine/sql/batches.py`, `engine/rewrite/exchange.py` and `engine/spark/time_limit.py`.
"""

from __future__ import annotations

import signal
import time
from itertools import product
from pathlib import Path

import pyarrow as pa
import pytest

from lakewarden.engine.commit.new_rows import Append
from lakewarden.engine.rewrite.driver import MissingModule
from lakewarden.engine.rewrite.exchange import Exchange
from lakewarden.errors import (
    BadValue,
    BrokenTable,
    CatalogUnavailable,
    Conflict,
    Interrupted,
    LakewardenError,
    SparkUnavailable,
    StalePlan,
    StorageUnavailable,
)
from lakewarden.lifecycle import failpoints
from tests.cases import in_soak
from tests.features.backfill.shop import SQL, TOTALS, Shop
from tests.killing import bury

pytestmark = pytest.mark.spark
RUN = ("backfill", "run", "--database", "shop", "--version", "3")


def test_each_batch_is_one_stamped_commit(shop: Shop) -> None:
    shop.order(5, 3, 8, 1, 9, 2, 7)
    shop.register()
    result = shop.run()
    assert (result["batches"], result["rows_read"], result["rows_written"]) == (3, 7, 7)
    assert shop.ids() == [1, 2, 3, 5, 7, 8, 9]
    assert [(stamp["batch"], stamp["checkpoint"], stamp["rows"], stamp["complete"]) for stamp in shop.stamps()] == [
        (1, "[3]", 3, False),
        (2, "[8]", 6, False),
        (3, "[9]", 7, True),
    ]
    status = shop.status()
    assert (status.status, status.rows_processed, status.checkpoint["id"]) == ("completed", 7, 9)
    assert shop.run() == {"actions": 0, "subjects": 0}


class Killed(BaseException):
    pass


def kill() -> None:
    raise Killed


@pytest.mark.parametrize(
    ("point", "with_control_database"),
    [
        ("exchange.written", True),
        ("commit.landed", True),
        ("commit.landed", False),
        *in_soak(
            *product(
                ("exchange.spread", "exchange.checked", "backfill.written", "commit.ready", "commit.fenced"),
                (True, False),
            )
        ),
        *in_soak(("backfill.published", True), ("action.applied", True), ("action.journaled", False)),
    ],
)
def test_killed_at_any_step_each_row_is_there_once(shop: Shop, point: str, with_control_database: bool) -> None:
    shop.order(*range(10))
    shop.register()
    shop.run(max_batches=1)
    failpoints.when(point, kill)
    with pytest.raises(Killed):
        shop.run()
    failpoints.arm("")
    if with_control_database:
        shop.warden.backfill.resume(database="shop", version="3")
    else:
        shop.lose_control_database()
        shop.run()
    assert shop.ids() == list(range(10))
    assert (shop.status().status, len(shop.stamps())) == ("completed", 4)
    assert not with_control_database or shop.unreferenced() == []
    done = shop.warden.operation.show(shop.warden.operation.list()[0].id).result
    assert done is not None and "began" not in done, done


def test_a_second_writer_of_the_same_batches_is_refused(shop: Shop) -> None:
    """Even with a control database of its own: the table itself knows where it is."""
    shop.order(*range(6))
    shop.register()
    planned = shop.warden.backfill.run(database="shop", version="3")

    def meanwhile() -> None:
        shop.lose_control_database()
        shop.run(max_batches=1)

    failpoints.when("backfill.written", meanwhile)
    with pytest.raises(LakewardenError):
        planned.apply()
    shop.run()
    assert shop.ids() == list(range(6))


@pytest.mark.parametrize(
    ("point", "with_control_database"),
    in_soak(*product(("staging.branched", "staging.written", "backfill.written", "commit.landed"), (True, False))),
)
def test_killed_at_any_step_of_staging_each_row_is_there_once(
    shop: Shop, point: str, with_control_database: bool
) -> None:
    shop.warden.ground.spark.sql("ALTER TABLE main.shop.totals WRITE ORDERED BY id")
    test_killed_at_any_step_each_row_is_there_once(shop, point, with_control_database)
    if with_control_database:  # else it is not known whose the branch is
        assert list(shop.lake.refs("shop.totals")) == ["main"]


def test_what_a_killed_process_left_is_removed_when_it_is_resumed(shop: Shop) -> None:
    shop.order(*range(10))
    shop.register()
    shop.lake.run(*RUN, failpoints="kill@commit.landed", check=-9)
    bury(shop.lake)
    assert (len(shop.ids()), len(shop.unreferenced())) == (3, 3)  # the files of three more batches
    shop.warden.backfill.resume(database="shop", version="3")
    assert (shop.ids(), shop.unreferenced()) == (list(range(10)), [])


def test_a_run_that_comes_back_finds_its_files_or_is_refused(shop: Shop, tmp_path: Path) -> None:
    """Suspended right before a commit; another run has taken over, and has not published anything yet."""
    shop.order(*range(9))
    shop.register()
    shop.lake.run(*RUN, failpoints="kill@action.journaled", check=-9)
    bury(shop.lake)
    gate = tmp_path / "gate"
    first = shop.lake.start("operation", "resume", failpoints=f"wait@commit.fenced:{gate}")
    while not gate.exists():
        assert first.poll() is None, first.communicate()
        time.sleep(0.05)
    first.send_signal(signal.SIGSTOP)
    gate.unlink()
    bury(shop.lake)

    def come_back() -> None:
        first.send_signal(signal.SIGCONT)
        first.communicate(timeout=120)

    failpoints.when("action.journaled", come_back)  # the first batch, which is there already
    shop.warden.operation.resume()
    assert (shop.ids(), len(shop.stamps())) == (list(range(9)), 3)
    assert shop.warden.backfill.status(database="shop", version="3").status == "completed"


def test_a_new_run_removes_what_a_killed_one_of_the_backfill_left(shop: Shop) -> None:
    shop.order(*range(10))
    shop.register()
    shop.lake.run(*RUN, failpoints="kill@commit.landed", check=-9)
    assert len(shop.unreferenced()) == 3
    bury(shop.lake)
    shop.run()
    assert (shop.ids(), shop.unreferenced()) == (list(range(10)), [])


def test_a_commit_whose_result_is_unknown_keeps_its_files(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.order(*range(10))
    shop.register()

    def lost(*_: object) -> None:
        raise CatalogUnavailable("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(Append, "publish", lost)
        with pytest.raises(CatalogUnavailable):
            shop.run()
    assert (shop.ids(), len(shop.unreferenced())) == ([], 4)
    shop.warden.backfill.resume(database="shop", version="3")
    assert (shop.ids(), shop.unreferenced()) == (list(range(10)), [])


def test_a_pause_leaves_no_unpublished_files(shop: Shop) -> None:
    shop.order(*range(10))
    shop.register()
    failpoints.when("backfill.published", lambda: shop.warden.backfill.pause(database="shop", version="3"))
    with pytest.raises(Interrupted):
        shop.run()
    assert (shop.ids(), shop.unreferenced()) == ([0, 1, 2], [])
    failpoints.when("backfill.written", refuse)
    with pytest.raises(BadValue):
        shop.warden.backfill.resume(database="shop", version="3")
    assert (shop.ids(), shop.unreferenced()) == ([0, 1, 2], [])
    shop.warden.backfill.resume(database="shop", version="3")
    assert (shop.ids(), shop.unreferenced()) == (list(range(10)), [])


def refuse() -> None:
    raise BadValue("for a test")


def test_files_that_others_deleted_are_written_again(shop: Shop) -> None:
    shop.order(*range(9))
    shop.register()

    def remove() -> None:
        for path in shop.unreferenced():
            path.unlink()

    failpoints.when("backfill.published", remove)
    shop.run()
    assert (shop.ids(), len(shop.stamps()), shop.unreferenced()) == (list(range(9)), 3, [])


@pytest.mark.parametrize(
    "error",
    [
        MissingModule("no pyarrow"),
        StorageUnavailable("no access"),
        BrokenTable("a slice is gone"),
        LakewardenError("TypeError: of an older pyarrow"),
        SparkUnavailable("Python worker exited unexpectedly"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_where_tasks_cannot_write_files_spark_does(
    shop: Shop, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise error

    monkeypatch.setattr(Exchange, "write", refuse)
    monkeypatch.setattr("lakewarden.features.backfill.job.pause_before", lambda attempt: 0.0)
    staged = failpoints.when("staging.written", lambda: None)
    shop.order(*range(9))
    shop.register()
    shop.run()
    assert (shop.ids(), len(shop.stamps()), len(staged)) == (list(range(9)), 3, 1)


def test_files_of_a_staging_branch_that_was_removed_are_not_published(shop: Shop) -> None:
    shop.order(*range(9))
    shop.warden.ground.spark.sql("ALTER TABLE main.shop.totals WRITE ORDERED BY id")
    shop.register()

    def remove() -> None:
        (branch,) = set(shop.lake.refs("shop.totals")) - {"main"}
        shop.warden.ground.spark.sql(f"ALTER TABLE main.shop.totals DROP BRANCH `{branch}`")

    failpoints.when("backfill.written", remove)
    with pytest.raises(StalePlan, match="were removed or changed"):
        shop.run()
    assert shop.ids() == []
    shop.run()
    assert shop.ids() == list(range(9))


def test_rows_that_arrive_later_come_with_again_once(shop: Shop) -> None:
    shop.order(*range(4))
    shop.register()
    failpoints.when("backfill.written", lambda: shop.order(1, 100))
    shop.run()
    assert (shop.ids(), shop.status().late_rows) == ([0, 1, 2, 3], 2)
    assert shop.run() == {"actions": 0, "subjects": 0}
    assert shop.run(again=True)["rows_written"] == 2
    assert (shop.ids(), shop.status().late_rows) == ([0, 1, 1, 2, 3, 100], 0)
    assert shop.run(again=True) == {"actions": 0, "subjects": 0}
    shop.order(50)
    orders = shop.lake.catalog.load_table("shop.orders")
    orders.delete("id = 2")  # not an append: rows are compared
    shop.run(again=True)
    assert shop.ids() == [0, 1, 1, 2, 3, 50, 100]


def test_what_a_run_reads_does_not_expire_and_nothing_else_takes_its_place(shop: Shop) -> None:
    def expire() -> int:
        shop.warden.retention.expire("shop.orders", keep_last=1, keep_days=0, reader_grace="0s").apply()
        return len(shop.lake.catalog.load_table("shop.orders").metadata.snapshots)

    shop.order(*range(4))
    shop.register()
    shop.run()
    shop.order(1, 100, 101, 102)
    failpoints.when("backfill.published", lambda: shop.warden.backfill.pause(database="shop", version="3"))
    with pytest.raises(Interrupted):
        shop.run(again=True)
    shop.order(50)
    assert (shop.ids(), expire()) == ([0, 1, 1, 2, 3, 100, 101], 3)
    shop.lose_control_database()
    assert expire() == 1
    with pytest.raises(Conflict, match="a version that backfill shop_003 has read is gone"):
        shop.run()
    assert shop.ids() == [0, 1, 1, 2, 3, 100, 101]


def test_what_checkpoints_mean_is_not_changed_within_a_run(shop: Shop) -> None:
    shop.order(*range(6))
    shop.register()
    shop.run(max_batches=1)
    planned = shop.warden.backfill.run(database="shop", version="3")
    sql = SQL.replace("id > {checkpoint_id}", "{range_predicate}")
    shop.write(sql, checkpoint_columns=["region", "id"])
    with pytest.raises(StalePlan):
        planned.apply()
    with pytest.raises(Conflict, match="read shop.orders by id up to batch 1; its files say shop.orders by region, id"):
        shop.run()
    assert shop.status().rows_processed == 3
    shop.write(sql)
    shop.run()
    assert shop.ids() == list(range(6))


def test_a_target_that_was_rolled_back_is_noticed(shop: Shop) -> None:
    shop.order(*range(6))
    shop.register()
    shop.run()
    first = shop.lake.catalog.load_table("shop.totals").metadata.snapshots[0].snapshot_id
    shop.warden.version.rollback(f"shop.totals@{first}").apply()
    assert shop.status().notes == ["the target was rolled back behind batch 2: run it with --again"]
    assert shop.status().status == "paused"
    with pytest.raises(Conflict, match="rolled back behind batch 2"):
        shop.run()
    shop.run(again=True)
    assert (shop.ids(), shop.status().notes) == (list(range(6)), [])


def test_a_position_survives_any_expiry_and_a_rollback_behind_it_is_noticed(shop: Shop) -> None:
    def expire_by_spark() -> None:
        call = "CALL main.system.expire_snapshots(table => 'shop.totals', older_than => now(), retain_last => 1)"
        shop.warden.ground.spark.sql(call).collect()

    others = pa.table({"id": [100], "region": ["x"], "cents": [1]}, schema=TOTALS)
    shop.lake.catalog.load_table("shop.totals").append(others)
    shop.warden.version.tag("shop.totals", name="before").apply()
    shop.order(*range(6))
    shop.register()
    shop.run()
    shop.lake.catalog.load_table("shop.totals").append(others)
    expire_by_spark()
    shop.lose_control_database()
    assert (shop.stamps(), shop.status().status) == ([], "completed")
    assert shop.run() == {"actions": 0, "subjects": 0}
    shop.warden.version.rollback("shop.totals@before", not_ancestor=True).apply()
    for appended in (0, 1):
        assert shop.status().notes == ["the target was rolled back behind batch 2: run it with --again"]
        with pytest.raises(Conflict, match="rolled back behind batch 2"):
            shop.run()
        if not appended:
            shop.lake.catalog.load_table("shop.totals").append(others)
    shop.run(again=True)
    assert (shop.ids(), shop.status().status) == ([*range(6), 100, 100], "completed")


def test_a_batch_without_rows_is_progress(shop: Shop) -> None:
    shop.order(*range(9))
    shop.register(SQL.replace("WHERE", "WHERE (id < 2 OR id = 7) AND"))
    assert shop.run()["rows_written"] == 3
    assert [stamp["batch"] for stamp in shop.stamps()] == [1, 2, 3]
    assert (shop.ids(), shop.status().status) == ([0, 1, 7], "completed")


def test_tables_without_rows_are_read_as_they_were(shop: Shop) -> None:
    """The source has no version, and the target none when the first run with rows begins."""
    missing = "NOT EXISTS (SELECT 1 FROM {db}.totals t WHERE t.id = orders.id) AND id >"
    shop.register(SQL.replace("id >", missing))
    shop.run()
    assert (shop.ids(), shop.status().status, shop.run(again=True)) == ([], "completed", {"actions": 0, "subjects": 0})
    shop.order(1, 2, 3, 4)
    assert shop.status().late_rows == 4
    shop.run(again=True, max_batches=1)
    shop.run()
    assert (shop.ids(), shop.status().status) == ([1, 2, 3, 4], "completed")
    shop.order(4, 5)
    shop.run(again=True)
    assert shop.ids() == [1, 2, 3, 4, 5]


def test_a_source_whose_rows_were_deleted_is_complete(shop: Shop) -> None:
    shop.order(1)
    shop.lake.catalog.load_table("shop.orders").delete("id = 1")
    shop.register()
    shop.run()
    assert (shop.ids(), shop.status().status) == ([], "completed")


def test_rows_hidden_by_erasure_are_not_read(shop: Shop) -> None:
    shop.order(1, 2, region="gone")
    shop.order(3, 4)
    shop.register()
    shop.warden.erasure.request("shop.orders", key="region", value=["gone"])
    shop.run()
    assert shop.ids() == [3, 4]


def test_values_with_apostrophes_are_selected_and_a_self_join_reads_the_whole_source(shop: Shop) -> None:
    """Each batch is a query of its own then, with the values of its checkpoint filled in."""
    regions = ["d'Or", "n\\orth", "z", "ü'"]
    for id, region in enumerate(regions):
        shop.order(id, region=region)
    sql = (
        "INSERT INTO {db}.totals SELECT o.id, concat('{checkpoint_region}', '<', o.region), last.id FROM {db}.orders o "
        "LEFT JOIN {db}.orders AS last ON last.id = 3 WHERE o.region > '{checkpoint_region}' LIMIT {batch_size}"
    )
    shop.register(sql, checkpoint_columns=["region"], batch_size=1, initial_checkpoint={"region": "a"})
    planned = shop.warden.backfill.run(database="shop", version="3")
    assert "each batch is a query of its own, because its SQL selects" in planned.plan.warnings[0]
    planned.apply()
    rows = shop.lake.catalog.load_table("shop.totals").scan().to_arrow().sort_by("id").to_pylist()
    assert [row["region"] for row in rows] == [f"{a}<{b}" for a, b in zip(["a", *regions], regions, strict=False)]
    assert {row["cents"] for row in rows} == {3}


def test_a_window_of_ids_leaves_out_no_row_where_they_are_sparse(shop: Shop) -> None:
    shop.order(1, 50, 1000, 1001, 2000)
    shop.register(SQL.replace("id > {checkpoint_id}", "id > {checkpoint_id} AND id <= {checkpoint_id} + {batch_size}"))
    shop.run()
    assert shop.ids() == [1, 50, 1000, 1001, 2000]


def test_a_partitioned_target(shop: Shop) -> None:
    shop.lake.catalog.drop_table("shop.totals")
    spark = shop.warden.ground.spark
    spark.sql(
        "CREATE TABLE main.shop.totals (id BIGINT, region STRING, cents BIGINT) USING iceberg PARTITIONED BY (region)"
    )
    shop.order(1, 2, 3, region="a")
    shop.order(4, 5, region="b")
    shop.register()
    shop.run()
    assert shop.ids() == [1, 2, 3, 4, 5]
    assert (len(shop.stamps()), shop.status().status) == (2, "completed")
    assert set(shop.lake.refs("shop.totals")) == {"main"}


def test_others_append_to_and_compact_the_target_meanwhile(shop: Shop) -> None:
    shop.order(*range(9))
    shop.register()
    others = pa.table({"id": [100], "region": ["x"], "cents": [1]}, schema=TOTALS)
    batches = iter(range(3))

    def meanwhile() -> None:
        shop.lake.catalog.load_table("shop.totals").append(others)
        if next(batches) == 1:
            compact = (
                "CALL main.system.rewrite_data_files(table => 'shop.totals', options => map('rewrite-all', 'true'))"
            )
            shop.warden.ground.spark.sql(compact)

    failpoints.when("commit.ready", meanwhile, times=3)
    shop.run()
    assert shop.ids() == [*range(9), 100, 100, 100]


def test_expiry_and_purge_keep_the_position(shop: Shop) -> None:
    shop.order(1, 2, 3, region="gone")
    shop.order(*range(4, 10))
    shop.register()
    shop.run(max_batches=2)
    shop.lose_control_database()
    others = pa.table({"id": [100], "region": ["x"], "cents": [1]}, schema=TOTALS)
    shop.lake.catalog.load_table("shop.totals").append(others)
    shop.warden.retention.expire("shop.totals", keep_last=1, keep_days=0, reader_grace="0s").apply()
    assert shop.stamps() == []
    status = shop.status()
    assert (status.status, status.rows_processed, status.checkpoint["id"]) == ("paused", 6, 6)
    shop.run(max_batches=1)
    shop.warden.erasure.request("shop.totals", key="region", value=["gone"])
    shop.warden.erasure.purge("shop.totals", now=True).apply()
    shop.lose_control_database()
    assert (shop.status().status, shop.run()) == ("completed", {"actions": 0, "subjects": 0})
    assert shop.ids() == [*range(4, 10), 100]


BY_REGION = SQL.replace("id > {checkpoint_id}", "region > {checkpoint_region}").replace(
    "ORDER BY id", "ORDER BY region"
)


def test_a_purge_forgets_a_checkpoint_and_its_position_is_found_again(shop: Shop) -> None:
    erased = 'bäqx"s@example.org'
    for id, region in enumerate(("anna@example.org", erased, "carl@example.org", "dora@example.org")):
        shop.order(id, region=region)
    shop.register(BY_REGION, checkpoint_columns=["region"], batch_size=1)
    shop.run(max_batches=2)
    shop.warden.erasure.request("shop.totals", key="region", value=[erased])
    shop.warden.erasure.purge("shop.totals", now=True).apply()
    metadata = shop.lake.catalog.load_table("shop.totals").metadata
    assert "qx" not in str([one.summary for one in metadata.snapshots]) + str(metadata.properties)
    assert shop.status().checkpoint["region"] is None
    shop.run(max_batches=1)
    assert (shop.ids(), shop.status().checkpoint["region"]) == ([0, 2], "carl@example.org")
    for table in ("shop.totals", "shop.orders"):
        shop.warden.erasure.request(table, key="region", value=["carl@example.org"])
    shop.warden.erasure.purge("shop.totals", now=True).apply()
    with pytest.raises(Conflict, match="was erased since, and rows of its source changed"):
        shop.run()
    assert (shop.status().status, shop.ids()) == ("paused", [0])


def test_a_purge_forgets_the_last_checkpoint_in_summaries_and_properties(shop: Shop) -> None:
    for id, region in enumerate(("anna@example.org", "bert@example.org")):
        shop.order(id, region=region)
    shop.register(BY_REGION, checkpoint_columns=["region"])
    shop.run()
    others = pa.table({"id": [100], "region": ["x"], "cents": [1]}, schema=TOTALS)
    shop.lake.catalog.load_table("shop.totals").append(others)
    shop.warden.retention.expire("shop.totals", keep_last=1, keep_days=0, reader_grace="0s").apply()
    shop.warden.erasure.request("shop.totals", key="region", value=["bert@example.org"])
    shop.warden.erasure.purge("shop.totals", now=True).apply()
    table = shop.lake.catalog.load_table("shop.totals")
    assert "bert" not in table.metadata.model_dump_json() and "forgotten" in table.metadata.model_dump_json()
    assert (shop.status().status, shop.run(), shop.ids()) == ("completed", {"actions": 0, "subjects": 0}, [0, 100])


def test_one_job_writes_many_batches_of_a_partitioned_and_sorted_target(shop: Shop) -> None:
    shop.order(*range(0, 9, 2), region="north")
    shop.order(*range(1, 9, 2), region="south")
    spark = shop.warden.ground.spark.sql
    spark("ALTER TABLE main.shop.totals ADD PARTITION FIELD region")
    spark("ALTER TABLE main.shop.totals WRITE ORDERED BY id DESC")
    shop.register()
    jobs = failpoints.when("staging.written", lambda: None)
    shop.run()
    table = shop.lake.catalog.load_table("shop.totals")
    assert (shop.ids(), len(shop.stamps()), len(jobs)) == (list(range(9)), 3, 1)
    assert list(table.metadata.refs) == ["main"]  # nothing is left of the staging branch
    files = table.inspect.files().to_pylist()
    assert len(files) == 6 and {file["sort_order_id"] for file in files} == {1}
    for file in files:
        read = spark(f"SELECT id, region FROM parquet.`{file['file_path']}`").collect()
        assert [row["id"] for row in read] == sorted((row["id"] for row in read), reverse=True)
        assert len({row["region"] for row in read}) == 1
