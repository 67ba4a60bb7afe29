"""Rows that Spark stages and the commit layer publishes: what was reported as complete, once, on whatever head.

On format v3 Iceberg itself picks what was staged.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from lakewarden.engine.catalog.snapshots import operation_of
from lakewarden.engine.commit.new_rows import Append, Overwrite
from lakewarden.engine.commit.staging import compression
from lakewarden.engine.spark import watched
from lakewarden.errors import LeaseLost, SparkUnavailable, StalePlan
from lakewarden.lifecycle.failpoints import when
from lakewarden.warden import Workbench
from tests.cases import in_soak
from tests.engine.lakes import STAMP, unfenced
from tests.engine.staged import OTHER, ROWS, Shop
from tests.small_lake import SmallLake

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def shared_lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallLake]:
    with SmallLake(tmp_path_factory.mktemp("staging") / "lake") as lake:
        lake.catalog.create_namespace("shop")
        yield lake


@pytest.fixture(params=[2, 3, *in_soak(1)], ids=lambda version: f"v{version}")
def shop(shared_lake: SmallLake, request: pytest.FixtureRequest) -> Shop:
    return Shop(shared_lake, f"t{abs(hash(request.node.nodeid))}", request.param)


@pytest.fixture(params=[2, 3], ids=lambda version: f"v{version}")
def newer(shared_lake: SmallLake, request: pytest.FixtureRequest) -> Shop:
    return Shop(shared_lake, f"t{abs(hash(request.node.nodeid))}", request.param)


@pytest.mark.parametrize("shop", [2, *in_soak(1, 3)], indirect=True)
def test_the_first_rows_of_a_table(shop: Shop) -> None:
    staged = shop.stage(0, 10)
    assert staged.rows == 10
    assert shop.table.current_snapshot() is None  # nobody sees them yet
    snapshot = shop.append(staged)
    assert shop.table.metadata.current_snapshot_id == snapshot
    assert shop.table.current_snapshot().summary["added-records"] == "10"
    shop.check(*range(10))
    shop.insert(20)
    shop.check(*range(10), 20)


def test_the_table_says_how_much_is_compressed() -> None:
    zstd = {"write.parquet.compression-codec": "zstd"}
    assert compression(zstd) == {"compression-level": "1"}
    assert compression({**zstd, "write.parquet.compression-level": "7"}) == {}
    assert compression({"write.parquet.compression-codec": "gzip"}) == {} == compression({})


def test_whatever_others_commit_meanwhile(shop: Shop) -> None:
    shop.insert(100, 101)
    staged = shop.stage(0, 10)
    shop.insert(102)
    shop.sql("DELETE FROM {t} WHERE id = 100")
    when("commit.ready", lambda: shop.insert(103))
    snapshot = shop.append(staged)
    assert shop.table.snapshot_by_id(snapshot).summary.operation.value == "append"
    shop.check(*range(10), 101, 102, 103)


def test_twice_is_once(newer: Shop) -> None:
    newer.insert(100)
    first = newer.append(newer.stage(0, 4))
    newer.insert(101)
    assert newer.append(newer.stage(0, 4)) == first
    newer.check(*range(4), 100, 101)


@pytest.mark.parametrize("newer", [2, *in_soak(3)], indirect=True)
def test_what_an_earlier_run_staged_is_swept_and_never_published(newer: Shop) -> None:
    """What an operation stages that the journal does not know, or that is running, is left alone."""
    newer.insert(100)
    left = newer.stage(0, 4)
    unknown = newer.stage(10, 14, OTHER)
    staged = newer.stage(0, 4)
    assert left.branch not in newer.table.metadata.refs and unknown.branch in newer.table.metadata.refs
    assert left.snapshot not in {snapshot.snapshot_id for snapshot in newer.table.metadata.snapshots}
    with pytest.raises(StalePlan, match="removed or changed"):
        newer.append(left)
    newer.append(staged)
    assert newer.bench(OTHER).staging.sweep(newer.name) == 1
    newer.check(*range(4), 100)


def test_parts_of_an_action_are_staged_side_by_side(shared_lake: SmallLake) -> None:
    """Each is a commit of its own, and none removes what another one has staged."""
    shop = Shop(shared_lake, "parts", 2)
    stamps = [replace(STAMP, part=part) for part in ("a", "b")]
    staged = [shop.stage(start, start + 2, stamp) for start, stamp in zip((0, 2), stamps, strict=True)]
    first, second = (shop.append(*each) for each in zip(staged, stamps, strict=True))
    assert first != second and shop.append(shop.stage(0, 2, stamps[0]), stamps[0]) == first
    shop.stage(9, 10, stamps[1])
    shop.bench().sweep(shop.name)  # once all of the action is done
    shop.check(*range(4))


def test_a_format_that_changed_since(shared_lake: SmallLake) -> None:
    """What was staged in format v2 bears no id by which Iceberg would refuse to publish it twice."""
    shop = Shop(shared_lake, "upgraded", 2)
    shop.insert(100)
    staged = shop.stage(0, 4)
    shop.sql("ALTER TABLE {t} SET TBLPROPERTIES ('format-version' = '3')")
    with pytest.raises(StalePlan, match="format version of main.shop.upgraded changed"):
        shop.append(staged)
    shop.append(shop.stage(0, 4))
    shop.format = 3
    shop.check(*range(4), 100)


def test_snapshots_that_spark_publishes_are_kept_for_a_resume(shared_lake: SmallLake) -> None:
    """Retention keeps what unfinished operations published, and knows it by its operation."""
    shop = Shop(shared_lake, "kept", 3)
    moved_to = shop.append(shop.stage(0, 4))
    staged = shop.stage(4, 8, OTHER)
    shop.insert(100)
    picked = shop.append(staged, OTHER)
    of = {s.snapshot_id: operation_of(s) for s in shop.table.metadata.snapshots}
    assert (of[moved_to], of[picked]) == (STAMP.operation, OTHER.operation)
    assert of[shop.table.snapshot_by_id(picked).parent_snapshot_id] == ""


@pytest.mark.parametrize("newer", [2, *in_soak(3)], indirect=True)
def test_a_server_that_goes_on_after_its_client_died(newer: Shop) -> None:
    """It writes to the branch of a run that is over, after that was swept: nobody ever publishes it."""
    newer.insert(100)
    late = newer.stage(0, 4)
    staged = newer.stage(0, 4)  # the run that took over
    newer.append(staged)
    session = newer.lake.warden.ground.spark.session()
    session.sql(f"ALTER TABLE {newer.name} CREATE BRANCH `{late.branch}`")
    frame = session.sql(f"SELECT {ROWS} FROM range(0, 4, 1, 1)")
    frame.writeTo(f"{newer.name}.`branch_{late.branch}`").append()
    with pytest.raises(StalePlan, match="removed or changed"):
        newer.bench(OTHER).commits.publish(Append(newer.name, newer.uuid, staged=late))
    newer.bench().sweep(newer.name)
    newer.check(*range(4), 100)


@pytest.mark.parametrize("newer", [2], indirect=True)
def test_rows_that_cannot_be_written_leave_nothing(newer: Shop) -> None:
    newer.insert(100)
    failing = "SELECT raise_error('no') AS id, NULL AS city, 1.0D AS amount"
    with pytest.raises(SparkUnavailable):
        newer.bench().staging.stage(newer.name, lambda session: session.sql(failing))
    newer.bench().sweep(newer.name)
    newer.check(100)


@pytest.mark.parametrize("newer", [2, *in_soak(3)], indirect=True)
def test_a_lease_that_is_lost_before_publishing(newer: Shop) -> None:
    newer.insert(100)
    staged = newer.stage(0, 4)

    def lost() -> None:
        raise LeaseLost("the lease was taken over", "")

    with pytest.raises(LeaseLost):
        newer.bench(fence=lost).commits.publish(Append(newer.name, newer.uuid, staged=staged))
    newer.bench().sweep(newer.name)
    newer.check(100)


@pytest.mark.parametrize("newer", [3], indirect=True)
def test_no_rows(newer: Shop) -> None:
    newer.insert(100)
    snapshot = newer.append(newer.stage(0, 0))
    assert newer.append(newer.stage(0, 0)) == snapshot
    newer.check(100)


@pytest.mark.parametrize("only_goes", [False, *in_soak(True)], ids=["replaced", "removed"])
def test_files_that_are_replaced(shop: Shop, only_goes: bool) -> None:
    shop.insert(100, 102)
    out = shop.known()
    shop.insert(101)
    rows = (0, 0) if only_goes else (0, 4)
    staged = shop.stage(*rows, replaced=out)
    shop.bench().commits.publish(Overwrite(shop.name, shop.uuid, staged=staged, removed=out))
    shop.check(*range(*rows), 101)


@pytest.mark.parametrize("newer", [2, *in_soak(3)], indirect=True)
def test_files_that_others_deleted_from_are_not_replaced(newer: Shop) -> None:
    newer.sql("ALTER TABLE {t} SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')")
    newer.insert(100, 102)
    out = newer.known()
    staged = newer.stage(0, 4, replaced=out)
    newer.sql("DELETE FROM {t} WHERE id = 100")
    with pytest.raises(StalePlan):
        newer.bench().commits.publish(Overwrite(newer.name, newer.uuid, staged=staged, removed=out))
    newer.bench().sweep(newer.name)
    newer.check(102)


@pytest.mark.parametrize("newer", [2], indirect=True)
def test_columns_go_by_name_and_must_be_there(newer: Shop) -> None:
    reordered = "SELECT 1.5D AS amount, 7L AS id, 'Rome' AS city"
    staged = newer.bench().staging.stage(newer.name, lambda session: session.sql(reordered))
    newer.append(staged)
    assert [tuple(row) for row in newer.sql("SELECT * FROM {t}")] == [(7, "Rome", 1.5)]
    with pytest.raises(SparkUnavailable):
        newer.bench(OTHER).staging.stage(newer.name, lambda session: session.sql("SELECT 'x' AS other"))
    newer.bench(OTHER).sweep(newer.name)
    newer.check(7)


@pytest.mark.parametrize("newer", [3], indirect=True)
def test_what_is_staged_says_nothing_of_the_action_yet(newer: Shop) -> None:
    """Else a run that resumes would take staged rows for published ones."""
    staged = newer.stage(0, 4)
    told = json.dumps(newer.table.snapshot_by_id(staged.snapshot).summary.additional_properties)
    assert staged.branch in told and "lakewarden.operation" not in told
    newer.bench().sweep(newer.name)


def test_an_interrupt_is_heard_while_spark_writes(shared_lake: SmallLake, monkeypatch: pytest.MonkeyPatch) -> None:
    """So is a pause that somebody asks for: both come out of reporting progress. The job ends, and nothing is there."""
    shop = Shop(shared_lake, "interrupted", 2)
    shop.insert(100)

    def slow(session: Any) -> Any:
        from pyspark.sql.functions import lit, udf

        def sleep_for(seconds: int) -> int:
            time.sleep(seconds)
            return 0

        sleep = udf(lambda id: id + sleep_for(60), "bigint")
        return session.range(0, 1, 1, 1).select(
            sleep("id").alias("id"), lit("x").alias("city"), lit(1.0).alias("amount")
        )

    def told(done: int, total: int, says: str, waits: bool = False) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(watched, "_LOOK_EVERY", 1.0)
    with pytest.raises(KeyboardInterrupt):
        Workbench(shared_lake.warden.ground, STAMP, unfenced, told).staging.stage(shop.name, slow)
    shop.bench().sweep(shop.name)
    shop.check(100)
