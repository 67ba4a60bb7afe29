"""A backfill over Spark Connect: what the server writes after its client was killed is never published."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

import pytest
import yaml
from pyiceberg.transforms import IdentityTransform

from tests.features.backfill.shop import SQL, Shop

SLOW = SQL.replace("SELECT id", "SELECT id + aggregate(sequence(1, 3000000 + id), 0L, (a, b) -> (a + b) % 7) * 0")
pytestmark = [pytest.mark.spark, pytest.mark.own_processes, pytest.mark.slow, pytest.mark.soak]
RUN = ("backfill", "run", "--database", "shop", "--version", "3")


def wait_for(what: Callable[[], object]) -> None:
    until = time.monotonic() + 120
    while not what():
        assert time.monotonic() < until
        time.sleep(0.1)


@pytest.fixture
def remote(shop: Shop, spark_connect: str) -> Shop:
    """A shop whose commands use a Spark Connect server."""
    config = shop.lake.folder / "lakewarden.yaml"
    settings = yaml.safe_load(config.read_text())
    config.write_text(yaml.safe_dump({**settings, "spark": {"remote": spark_connect}, "leases": {"timeout": "2s"}}))
    shop.order(*range(9))
    return shop


def test_rows_that_a_server_sorts_out_after_its_client_was_killed_are_never_published(remote: Shop) -> None:
    data = remote.lake.folder / "lake/warehouse/shop/totals/data"
    remote.write(SLOW)
    remote.lake.run("backfill", "register", "--database", "shop")
    client = remote.lake.start(*RUN)
    wait_for(lambda: any(record.kind == "backfill.run" for record in remote.warden.operation.list()))
    time.sleep(3)  # the job has begun
    client.send_signal(signal.SIGKILL)
    client.communicate()
    assert (client.returncode, list(data.rglob("*.arrow"))) == (-signal.SIGKILL, [])
    wait_for(lambda: any(data.rglob("*.arrow")))  # the server goes on
    assert remote.ids() == []
    remote.write(SQL)
    time.sleep(3)
    remote.lake.run(*RUN)
    assert (remote.ids(), len(remote.stamps())) == (list(range(9)), 3)


def test_what_a_server_writes_after_its_client_was_killed_is_never_published(remote: Shop) -> None:
    table = remote.lake.folder / "lake/warehouse/shop/totals/data"

    def staged() -> list[int]:
        """What the server has committed, to a staging branch."""
        snapshots = remote.lake.catalog.load_table("shop.totals").metadata.snapshots
        return [one.snapshot_id for one in snapshots if "lakewarden.staged" in one.summary.additional_properties]

    with remote.lake.catalog.load_table("shop.totals").update_sort_order() as order:
        order.asc("id", IdentityTransform())  # only Spark's writer sorts
    remote.write(SLOW)
    remote.lake.run("backfill", "register", "--database", "shop")
    client = remote.lake.start(*RUN)
    wait_for(lambda: any(table.rglob("*.parquet")))
    client.send_signal(signal.SIGKILL)
    client.communicate()
    assert (client.returncode, staged(), remote.ids()) == (-signal.SIGKILL, [], [])  # the server is at work
    wait_for(staged)
    assert remote.ids() == []
    remote.write(SQL)
    time.sleep(3)
    remote.lake.run(*RUN)
    assert (remote.ids(), len(remote.stamps())) == (list(range(9)), 3)


def test_a_batch_that_takes_too_long_is_interrupted(remote: Shop) -> None:
    sleeps = "SELECT id + coalesce(CAST(java_method('java.lang.Thread', 'sleep', id + 30000) AS BIGINT), 0)"
    remote.write(SQL.replace("SELECT id", sleeps), batch_size=1, timeout_seconds=5)
    remote.lake.run("backfill", "register", "--database", "shop")
    client = remote.lake.start(*RUN, "--max-batches", "1")
    _, said = client.communicate(timeout=240)
    assert client.returncode == 1 and "Spark took longer than 5 s" in said, said
    assert remote.ids() == []
