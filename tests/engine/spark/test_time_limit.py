"""Statements that take too long are interrupted, and no others of the same session."""

from __future__ import annotations

import threading
import time

import pytest

from lakewarden.engine.spark.time_limit import TookTooLong, within
from tests.small_lake import SmallLake


@pytest.mark.spark
def test_only_statements_of_the_body_are_interrupted(lake: SmallLake) -> None:
    session = lake.warden.ground.spark.session()

    def slow(id: int) -> int:
        time.sleep(60 if id == 1 else 0)
        return id

    def slower_than_the_limit(id: int) -> int:
        time.sleep(4)
        return id

    session.udf.register("slow", slow, "bigint")
    session.udf.register("slower_than_the_limit", slower_than_the_limit, "bigint")
    found: list[int] = []
    other = threading.Thread(
        target=lambda: found.append(session.sql("SELECT slower_than_the_limit(id) FROM range(7, 8)").collect()[0][0])
    )
    other.start()
    with pytest.raises(TookTooLong, match="longer than 2 s"), within(session, 2, lambda: None):
        session.sql("SELECT slow(id) FROM range(1, 2)").collect()
    other.join()
    assert found == [7]
