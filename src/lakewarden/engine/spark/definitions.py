"""Statements of users that define tables, such as those of a migration. Each is a separate commit of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakewarden.engine.base.quoting import identifier
from lakewarden.engine.spark.session import translating_spark
from lakewarden.lifecycle.failpoints import reach

if TYPE_CHECKING:
    from lakewarden.engine.spark.session import Spark
    from lakewarden.lifecycle.basics import Fence


class Definitions:
    """Changes one lake; names without a lake are tables of it."""

    def __init__(self, spark: Spark, fence: Fence, lake: str) -> None:
        self._spark, self._fence, self._lake = spark, fence, lake

    def run(self, statement: str) -> None:
        session = self._spark.session()  # starting it takes long, so check the fence afterwards
        with translating_spark():
            before = session.sql("SELECT current_catalog()").collect()[0][0]
            session.sql(f"SET CATALOG {identifier(self._lake)}")
            try:
                self._fence()
                reach("statement.fenced")
                session.sql(statement).collect()
                reach("statement.done")
            finally:
                session.sql(f"SET CATALOG {identifier(before)}")
