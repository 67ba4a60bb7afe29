"""A backfill over Spark Connect: what the server writes after its client was killed is never published."""

from __future__ import annotations

import signal
import time

import pytest
import yaml

from tests.features.backfill.shop import SQL, Shop

SLOW = SQL.replace("SELECT id", "SELECT id + aggregate(sequence(1, 3000000), 0L, (a, b) -> (a + b) % 7) * 0")


@pytest.mark.spark
@pytest.mark.own_processes
@pytest.mark.slow
@pytest.mark.soak
def test_what_a_server_writes_after_its_client_was_killed_is_never_published(shop: Shop, spark_connect: str) -> None:
    config = shop.lake.folder / "lakewarden.yaml"
    settings = yaml.safe_load(config.read_text())
    config.write_text(yaml.safe_dump({**settings, "spark": {"remote": spark_connect}, "leases": {"timeout": "2s"}}))
    command = ("backfill", "run", "--database", "shop", "--version", "3")
    shop.order(*range(9))
    shop.write(SLOW)
    shop.lake.run("backfill", "register", "--database", "shop")
    client = shop.lake.start(*command)
    table = shop.lake.folder / "lake/warehouse/shop/totals/data"
    until = time.monotonic() + 120
    while not any(table.rglob("*.parquet")) and time.monotonic() < until:
        time.sleep(0.1)
    client.send_signal(signal.SIGKILL)  # the server is at work
    client.communicate()
    assert shop.ids() == []
    shop.write(SQL)
    time.sleep(3)
    shop.lake.run(*command)
    assert shop.ids() == list(range(9))
    time.sleep(10)
    assert shop.ids() == list(range(9)) and len(shop.stamps()) == 3
