"""Fills an embedded lake with a realistic history: daily loads, corrections, small files, a schema change.

All rows are made by Spark from row numbers, so every run makes the same lake.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakewarden.engine.spark.session import Spark

DAYS = 8
ORDERS_A_DAY = 4_000
_FIRST_DAY = "timestamp'2026-03-01 06:00:00'"

_TABLES = (
    """CREATE TABLE main.sales.orders (
         id BIGINT, customer_id BIGINT, amount DECIMAL(10, 2), status STRING, ordered_at TIMESTAMP)
       USING iceberg PARTITIONED BY (days(ordered_at))
       TBLPROPERTIES ('write.delete.mode' = 'merge-on-read', 'write.update.mode' = 'merge-on-read',
                      'write.distribution-mode' = 'none')""",
    "CREATE TABLE main.crm.customers (id BIGINT, name STRING, email STRING, city STRING) USING iceberg",
    """CREATE TABLE main.web.events (id BIGINT, customer_id BIGINT, page STRING, at TIMESTAMP)
       USING iceberg TBLPROPERTIES ('format-version' = '3', 'write.delete.mode' = 'merge-on-read')""",
)

_CUSTOMERS = """
    SELECT id, concat('Customer ', id) AS name, concat('c', id, '@example.org') AS email,
           element_at(array('Bern', 'Basel', 'Chur', 'Genf'), CAST(id % 4 AS INT) + 1) AS city
    FROM range({first}, {last})"""

_ORDERS = """
    SELECT /*+ REPARTITION(6) */ id, abs(hash(id)) % 500 AS customer_id,
           CAST(5 + abs(hash(id, 'amount')) % 20000 / 100 AS DECIMAL(10, 2)) AS amount,
           element_at(array('paid', 'paid', 'paid', 'open'), CAST(abs(hash(id, 's')) % 4 AS INT) + 1) AS status,
           {first_day} + make_dt_interval({day}, CAST(id % 15 AS INT), CAST(id % 60 AS INT)) AS ordered_at
    FROM range({first}, {last})"""

_EVENTS = """
    SELECT /*+ REPARTITION(4) */ id, abs(hash(id)) % 500 AS customer_id,
           element_at(array('/', '/shop', '/cart', '/pay'), CAST(id % 4 AS INT) + 1) AS page,
           {first_day} + make_dt_interval({day}, 0, CAST(id % 900 AS INT)) AS at
    FROM range({first}, {last})"""


def fill(spark: Spark) -> Iterator[str]:
    """Make the lake, step by step; yields what was just done."""
    for namespace in ("sales", "crm", "web"):
        spark.sql(f"CREATE NAMESPACE IF NOT EXISTS main.{namespace}")
    for table in _TABLES:
        spark.sql(table)
    yield "three tables: sales.orders, crm.customers, web.events (format v3)"
    spark.sql("INSERT INTO main.crm.customers" + _CUSTOMERS.format(first=0, last=400))
    spark.sql("ALTER TABLE main.crm.customers ADD COLUMN loyalty STRING AFTER city")
    more = _CUSTOMERS.format(first=400, last=500)
    spark.sql(f"INSERT INTO main.crm.customers SELECT *, 'gold' FROM ({more})")  # noqa: S608 - constants
    spark.sql("UPDATE main.crm.customers SET loyalty = 'silver' WHERE id < 50")
    yield "customers, with a column added on the way"
    for day in range(DAYS):
        load_day(spark, day)
        spark.sql("INSERT INTO main.web.events" + _EVENTS.format(**_range(day, 1_500)))
        yield f"day {day + 1} of {DAYS}"
    spark.sql("UPDATE main.sales.orders SET status = 'paid' WHERE status = 'open' AND id < 6000")
    spark.sql("DELETE FROM main.sales.orders WHERE id % 997 = 0")
    spark.sql("DELETE FROM main.web.events WHERE customer_id = 7")
    yield "corrections: rows updated and deleted"


def load_day(spark: Spark, day: int, factor: int = 1) -> None:
    """Load one day of orders; a wrong factor makes a typical bad load."""
    orders = _ORDERS.format(**_range(day, ORDERS_A_DAY))
    columns = f"id, customer_id, CAST(amount * {int(factor)} AS DECIMAL(10, 2)), status, ordered_at"
    spark.sql(f"INSERT INTO main.sales.orders SELECT {columns} FROM ({orders})")  # noqa: S608 - constants


def _range(day: int, rows: int) -> dict[str, object]:
    return {"first": day * rows, "last": (day + 1) * rows, "day": day, "first_day": _FIRST_DAY}
