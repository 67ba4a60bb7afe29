"""A table with a history: partitions filled at a steady rate until now, with names as they were predicted."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from tests.services.mariadb import Shop

NOW = datetime(2026, 11, 16, 9, 30, tzinfo=UTC)
RATE = 29.1
PERIOD = 30
FIRST = 1000


def position_at(moment: datetime, rate: float = RATE, filled: int = 10, part: float = 0.5) -> int:
    """The greatest id at a time, of a table that is `part` of a partition beyond its `filled` ones at NOW."""
    days = (moment - NOW) / timedelta(days=1)
    return FIRST + int(rate * PERIOD * (filled + part) + rate * days)


def bounds(rate: float = RATE, filled: int = 10) -> list[int]:
    """The lower bound of each partition that follows the first, up to and including that after the active one."""
    return [FIRST + int(rate * PERIOD * number) for number in range(filled + 2)]


def reached(bound: int, rate: float = RATE, filled: int = 10, part: float = 0.5) -> datetime:
    return NOW - timedelta(days=(FIRST + rate * PERIOD * (filled + part) - bound) / rate)


def create(
    shop: Shop,
    table: str = "orders",
    early: Callable[[int], float] = lambda number: 0.0,
    start: bool = True,
    empty: int = 2,
    filled: int = 10,
    rows: bool = True,
) -> None:
    """Ten filled partitions, an active one and empty ones, the last of which is MAXVALUE."""
    lower = bounds(filled=filled)
    names = [f"p_{reached(bound) - timedelta(days=early(number)):%Y%m%d}" for number, bound in enumerate(lower)]
    first = "p_start" if start else f"p_{reached(FIRST - int(RATE * PERIOD)):%Y%m%d}"
    parts = [(first, str(lower[0]))]
    parts += [(name, str(upper)) for name, upper in zip(names, lower[1:], strict=False)]
    tail = [names[-1], *(f"p_{NOW + timedelta(days=PERIOD * (n + 0.5)):%Y%m%d}" for n in range(1, empty))]
    tops = [str(lower[-1] + int(RATE * PERIOD * (n + 1))) for n in range(empty - 1)]
    parts += list(zip(tail, [f"({top})" for top in tops] + ["MAXVALUE"], strict=True))
    listed = ", ".join(f"PARTITION {n} VALUES LESS THAN {b if b[0] in '(M' else f'({b})'}" for n, b in parts)
    shop.run(
        f"CREATE TABLE {table} (id BIGINT UNSIGNED NOT NULL PRIMARY KEY, created DATETIME NOT NULL) "
        f"PARTITION BY RANGE (id) ({listed})"
    )
    if rows:
        fill(shop, NOW, table)


def fill(shop: Shop, moment: datetime, table: str = "orders") -> None:
    """Rows up to a time: the greatest id is what counts, and a row in each filled partition."""
    top = position_at(moment)
    ids = sorted({*(bound for bound in bounds() if bound <= top), top, FIRST - 1})
    shop.run(f"INSERT IGNORE INTO {table} VALUES {', '.join(f'({id}, FROM_UNIXTIME({seconds(id)}))' for id in ids)}")


def seconds(id: int) -> float:
    """When a row arrived, as the date query returns it."""
    return reached(id).timestamp()


def partitions(shop: Shop, table: str = "orders") -> list[tuple[str, str]]:
    return [
        (str(name), str(bound))
        for name, bound in shop.run(
            "SELECT PARTITION_NAME, PARTITION_DESCRIPTION FROM information_schema.PARTITIONS WHERE TABLE_SCHEMA = "
            f"DATABASE() AND TABLE_NAME = '{table}' ORDER BY PARTITION_ORDINAL_POSITION"
        )
    ]
