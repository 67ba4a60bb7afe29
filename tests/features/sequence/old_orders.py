"""A database table with old partitions, in an installation with a lake to archive them in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from lakewarden import Warden
from tests.services.mariadb import Shop
from tests.small_lake import SmallLake

QUERY = "SELECT UNIX_TIMESTAMP(ordered) FROM orders WHERE id > '?' ORDER BY id LIMIT 1;"
COLUMNS = """
id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT, ordered DATETIME(6) NOT NULL, customer VARCHAR(40) NOT NULL,
amount DECIMAL(20,4), note TEXT, cents BIGINT GENERATED ALWAYS AS (amount * 100) VIRTUAL,
PRIMARY KEY (id), KEY (customer)
"""
PARTITIONS = """
PARTITION BY RANGE (id) (
  PARTITION p_20260101 VALUES LESS THAN (100), PARTITION p_20260201 VALUES LESS THAN (200),
  PARTITION p_20260301 VALUES LESS THAN (300), PARTITION p_20991231 VALUES LESS THAN MAXVALUE)
"""
FILL = """
INSERT INTO orders (id, ordered, customer, amount, note)
SELECT seq, '2026-01-01' + INTERVAL seq * 7 HOUR, CONCAT('customer ', seq), seq * 1.25,
  IF(seq % 3, CONCAT('Ünï ', seq), NULL)
FROM seq_1_to_349
"""
EVERY = list(range(1, 350))


class OldOrders:
    """Orders since 2026, 99 in the first partition and 100 in each of the next two, which are all past retention."""

    def __init__(self, lake: SmallLake, shop: Shop, **settings: Any) -> None:
        self.lake, self.shop = lake, shop
        shop.run(f"CREATE TABLE orders ({COLUMNS}) DEFAULT CHARSET utf8mb4 {PARTITIONS}", FILL)
        self.configure(**settings)

    def configure(self, **settings: Any) -> None:
        table = {"retention": {"days": 30}, "earliest_utc_timestamp_query": QUERY, **settings.pop("table", {})}
        given = {"dburl": self.shop.dburl, "tables": {"orders": table}, **settings}
        path = self.lake.folder / "lakewarden.yaml"
        path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | {"sequences": given}))
        self.lake.warden.close()
        self.lake.warden = Warden.open(self.lake.folder)

    @property
    def warden(self) -> Warden:
        return self.lake.warden

    @property
    def folder(self) -> Path:
        return self.lake.folder

    def archived(self, name: str = "archive.orders") -> list[dict[str, Any]]:
        """The rows of the archive, as any PyIceberg user sees them."""
        rows: list[dict[str, Any]] = self.lake.catalog.load_table(name).scan().to_arrow().to_pylist()
        return sorted(rows, key=lambda row: int(row["id"]))

    def ids(self, source: str = "orders") -> list[int]:
        return [row[0] for row in self.shop.run(f"SELECT id FROM {source} ORDER BY id")]

    def tables(self) -> list[str]:
        return [row[0] for row in self.shop.run("SHOW TABLES")]

    def partitions(self) -> list[str]:
        return [
            row[0]
            for row in self.shop.run(
                "SELECT PARTITION_NAME FROM information_schema.PARTITIONS WHERE TABLE_NAME = 'orders' "
                "AND TABLE_SCHEMA = DATABASE() ORDER BY PARTITION_ORDINAL_POSITION"
            )
        ]

    def all_ids(self) -> list[int]:
        return sorted(int(row["id"]) for row in self.warden.sequence.read())
