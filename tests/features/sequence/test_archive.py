"""`sequence archive` on a real server and with real Spark.

Covers `features/sequence/archives.py`, `features/sequence/copying.py`, `features/sequence/retirement.py` and
`engine/spark/database_rows.py`.
"""

from __future__ import annotations

from contextlib import suppress
from decimal import Decimal
from pathlib import Path

import pytest
import yaml

from lakewarden import Warden
from lakewarden.engine.spark.database_rows import DatabaseRows, driver_jar, read
from lakewarden.errors import LakewardenError, UnfitDatabase
from lakewarden.features.sequence import copying
from lakewarden.lifecycle import failpoints
from tests.features.sequence.old_orders import EVERY, OldOrders
from tests.services.mariadb import Shop
from tests.small_lake import SmallLake

pytestmark = pytest.mark.spark


def test_partitions_past_retention_are_copied_once(orders: OldOrders) -> None:
    planned = orders.warden.sequence.archive()
    assert [action.arguments["partition"] for action in planned.plan.actions] == [
        "p_20260101",
        "p_20260201",
        "p_20260301",
    ]
    assert orders.warden.sequence.archive().plan.id == planned.plan.id

    report = planned.apply()

    assert report.result["rows"] == 299
    assert orders.warden.sequence.archive().is_empty
    rows = orders.archived()
    assert [int(row["id"]) for row in rows] == list(range(1, 300))
    assert rows[9]["customer"] == "customer 10" and rows[9]["amount"] == Decimal("12.5000") and rows[9]["cents"] == 1250
    assert rows[9]["note"] == "Ünï 10" and rows[8]["note"] is None
    assert rows[9]["lakewarden_partition"] == "p_20260101"
    assert orders.ids() == list(range(1, 350))  # nothing left the database


def test_a_partition_is_read_in_several_ranges_at_once(orders: OldOrders, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some in each of several tasks, of which each writes a file."""
    monkeypatch.setattr(copying, "_ROWS_OF_A_PART", 5)
    monkeypatch.setattr(copying, "_PARTS_OF_A_TASK", 4)
    orders.warden.sequence.archive(partition=["p_20260201"]).apply()
    assert [int(row["id"]) for row in orders.archived()] == list(range(100, 200))
    assert len(orders.lake.catalog.load_table("archive.orders").inspect.files()) == 5


def test_a_lock_is_outwaited_by_short_waits(orders: OldOrders) -> None:
    """Spark's sessions wait for locks as short as others; the rows are staged again."""
    attempts: list[None] = []
    with orders.shop.connect() as other:

        def lock() -> None:
            attempts.append(None)
            other.cursor().execute("LOCK TABLES orders WRITE" if len(attempts) == 1 else "UNLOCK TABLES")

        failpoints.when("staging.branched", lock, times=2)
        orders.warden.sequence.archive(partition=["p_20260101"]).apply()
    assert len(attempts) == 2 and len(orders.archived()) == 99
    assert [*orders.lake.catalog.load_table("archive.orders").metadata.refs] == ["main"]


def test_a_row_that_changes_while_it_is_copied_is_noticed(orders: OldOrders) -> None:
    failpoints.when("staging.branched", lambda: orders.shop.run("UPDATE orders SET note = 'x' WHERE id = 7"))
    with pytest.raises(LakewardenError, match="p_20260101 .* changed while it was copied: values of note"):
        orders.warden.sequence.archive(partition=["p_20260101"]).apply()
    assert orders.archived() == []
    orders.warden.sequence.archive(partition=["p_20260101"]).apply()
    assert [row["note"] for row in orders.archived() if row["id"] == 7] == ["x"]


def test_two_that_copy_the_same_partition_publish_it_once(orders: OldOrders) -> None:
    """Even without a common control database, whose leases would keep them apart."""

    def other() -> None:
        path = orders.folder / "lakewarden.yaml"
        (orders.folder / "other").mkdir()
        text = path.read_text().replace("sqlite:///lakewarden.db", f"sqlite:///{orders.folder}/other/lakewarden.db")
        (orders.folder / "other.yaml").write_text(text)
        with Warden.open(orders.folder / "other.yaml") as warden:
            warden.sequence.archive(partition=["p_20260101"]).apply()

    failpoints.when("sequence.staged", other)
    with pytest.raises(LakewardenError, match="another process copied"):
        orders.warden.sequence.archive(partition=["p_20260101"]).apply()
    assert [int(row["id"]) for row in orders.archived()] == list(range(1, 100))


def test_what_was_archived_stays_known_when_its_snapshot_expires(archived: OldOrders) -> None:
    orders = archived
    orders.warden.retention.expire("archive.orders", keep_last=1, keep_days=0).apply()
    assert len(orders.lake.catalog.load_table("archive.orders").metadata.snapshots) == 1
    assert orders.warden.sequence.archive().is_empty
    assert [action.verb for action in orders.warden.sequence.drop().plan.actions] == ["detach"] * 3


def test_ranges_over_several_columns_and_a_file_of_the_other_tool(lake: SmallLake, shop: Shop) -> None:
    shop.run(
        "CREATE TABLE parts (shard INT, id INT, made DATE, PRIMARY KEY (shard, id)) PARTITION BY RANGE COLUMNS "
        "(shard, ID) (PARTITION p_20260101 VALUES LESS THAN (1, 50), PARTITION p_20260201 VALUES LESS THAN (2, 0), "
        "PARTITION p_20991231 VALUES LESS THAN (MAXVALUE, MAXVALUE))",
        "INSERT INTO parts SELECT shard.seq, id.seq, '2026-01-01' FROM seq_1_to_2 shard, seq_1_to_99 id",
    )
    file = lake.folder / "partitions.yaml"
    tables = {"parts": {"retention_period": {"days": 30}, "archive": {"table": "raw.parts"}}}
    file.write_text(yaml.safe_dump({"partitionmanager": {"dburl": shop.dburl, "tables": tables}}))
    verbs = lake.warden.sequence
    verbs.archive(file=str(file)).apply()  # without a date query, the last partition's name dates the one before
    rows = lake.catalog.load_table("raw.parts").scan().to_arrow().to_pylist()
    assert sorted((row["shard"], row["id"]) for row in rows) == [(1, id) for id in range(1, 50)]
    verbs.drop(file=str(file)).apply()
    assert shop.run("SELECT COUNT(*) FROM parts") == [(149,)] and len(verbs.read(file=str(file))) == 198


def test_the_password_is_in_no_output_log_plan_or_process_list(orders: OldOrders) -> None:
    seen: list[bytes] = []

    def look() -> None:
        for process in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                seen.append(process.read_bytes())

    failpoints.when("staging.written", look)
    planned = orders.warden.sequence.archive(partition=["p_20260101"])
    report = planned.apply()
    assert any(b"java" in line for line in seen)
    texts = [*map(str, seen), repr(planned), planned.plan.to_json(), repr(report)]
    texts += [
        path.read_bytes().decode(errors="replace")
        for path in (*orders.folder.glob("lakewarden.db*"), *orders.warden.ground.environment.logs.glob("*"))
    ]
    for text in texts:
        assert "s3cret" not in text and "correct horse" not in text


def test_a_login_that_spark_is_denied_shows_no_password(orders: OldOrders) -> None:
    place = ("127.0.0.1", orders.shop.server.port, orders.shop.name, "warden")
    rows = DatabaseRows(*place, "wr0ng!", "SELECT 1 AS x", (), 1, "", ())
    warden = orders.warden.ground
    with pytest.raises(LakewardenError) as refused:
        read(warden.spark.session(), rows, driver_jar(warden.settings, warden.environment))
    assert "Access denied" in str(refused.value.__cause__)
    assert "wr0ng!" not in f"{refused.value} {refused.value.__cause__}"


def test_the_command_line_client_cannot_be_archived_through(orders: OldOrders) -> None:
    orders.configure(dburl=None, mariadb=orders.shop.client)
    with pytest.raises(UnfitDatabase, match="only through dburl"):
        orders.warden.sequence.archive()


def test_a_partition_whose_rows_were_deleted_since_planning(orders: OldOrders) -> None:
    planned = orders.warden.sequence.archive(partition=["p_20260101"])
    orders.shop.run("DELETE FROM orders WHERE id < 100")
    assert planned.apply().result["rows"] == 0 and orders.archived() == []
    assert orders.warden.sequence.archive(partition=["p_20260101"]).is_empty


def test_rows_that_a_purge_removed_are_erased_in_the_database_too(archived: OldOrders) -> None:
    """As the guide says: the copy is recorded again, with the rows that are left, and then dropped."""
    archived.warden.erasure.request("archive.orders", key="id", value=["7"])
    archived.warden.erasure.purge("archive.orders").apply()
    archived.shop.run("DELETE FROM orders WHERE id = 7")
    _dropped_only_when_archived_again(archived, "98 rows against 99")
    assert archived.all_ids() == [id for id in EVERY if id != 7]


def test_a_column_that_the_database_dropped(archived: OldOrders) -> None:
    archived.shop.run("ALTER TABLE orders DROP COLUMN note")
    _dropped_only_when_archived_again(archived, "values of note")
    assert archived.all_ids() == EVERY


def _dropped_only_when_archived_again(orders: OldOrders, differs: str) -> None:
    orders.configure(grace="0s")
    with pytest.raises(LakewardenError, match=f"{differs}.*archive it again"):
        orders.warden.sequence.drop(partition=["p_20260101"]).apply()
    orders.warden.sequence.archive(again=True, partition=["p_20260101"]).apply()
    head = orders.lake.head("archive.orders")
    orders.warden.sequence.archive(again=True, partition=["p_20260101"]).apply()
    assert orders.lake.head("archive.orders") == head  # unchanged rows are not copied
    for _ in range(2):
        orders.warden.sequence.drop(partition=["p_20260101"]).apply()
    assert orders.tables() == ["orders"] and "p_20260101" not in orders.partitions()


@pytest.mark.own_processes
@pytest.mark.slow
@pytest.mark.soak
def test_over_spark_connect(orders: OldOrders, spark_connect: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The password travels there in the plan, and is in nothing that the server wrote."""
    config = orders.folder / "lakewarden.yaml"
    config.write_text(yaml.safe_dump({**yaml.safe_load(config.read_text()), "spark": {"remote": spark_connect}}))
    orders.lake.run("sequence", "archive")
    orders.lake.run("sequence", "archive")  # the driver is there already
    assert [int(row["id"]) for row in orders.archived()] == list(range(1, 300))
    written = [path for path in tmp_path_factory.getbasetemp().glob("connect*/**/*") if path.is_file()]
    assert any(path.name == "log" for path in written)
    for path in written:
        content = path.read_bytes()
        assert b"s3cret" not in content and b"correct horse" not in content, path
