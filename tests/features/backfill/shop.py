"""A lake with orders, a table to backfill from them, and the files of a backfill."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from lakewarden import Warden
from tests.small_lake import SmallLake

ORDERS = pa.schema([("region", pa.string()), ("id", pa.int64()), ("amount", pa.float64())])
TOTALS = pa.schema([("id", pa.int64()), ("region", pa.string()), ("cents", pa.int64())])
SQL = """-- one row for each order
INSERT INTO {db}.totals (id, region, cents)
SELECT id, region, CAST(amount * 100 AS BIGINT) FROM {db}.orders
WHERE id > {checkpoint_id}
ORDER BY id LIMIT {batch_size}
"""


class Shop:
    """Orders of a shop, and backfill 003 of its totals."""

    def __init__(self, lake: SmallLake) -> None:
        self.lake = lake
        self.folder = lake.folder / "backfills"
        self.folder.mkdir()
        lake.configure(backfills={"folders": ["backfills"]})
        lake.catalog.create_namespace("shop")
        lake.catalog.create_table("shop.orders", ORDERS)
        lake.catalog.create_table("shop.totals", TOTALS)

    @property
    def warden(self) -> Warden:
        return self.lake.warden

    def order(self, *ids: int | None, region: str | None = "north") -> None:
        rows = {"region": [region] * len(ids), "id": list(ids), "amount": [1.5] * len(ids)}
        self.lake.catalog.load_table("shop.orders").append(pa.table(rows, schema=ORDERS))

    def write(self, sql: str = SQL, version: str = "003", **meta: Any) -> Path:
        """Write the files of a backfill; answers with the path of its SQL."""
        given = {"migration_version": version, "batch_size": 3, "checkpoint_columns": ["id"], "_why": "a comment"}
        (self.folder / f"{version}_totals.backfill.meta").write_text(json.dumps(given | meta))
        path = self.folder / f"{version}_totals.backfill.sql"
        path.write_text(sql)
        return path

    def register(self, sql: str = SQL, **meta: Any) -> None:
        self.write(sql, **meta)
        self.warden.backfill.register(database="shop")

    def run(self, **more: Any) -> dict[str, Any]:
        result: dict[str, Any] = self.warden.backfill.run(**{"database": "shop", "version": "3", **more}).apply().result
        return result

    def lose_control_database(self) -> None:
        self.warden.close()
        for file in self.lake.folder.glob("lakewarden.db*"):
            file.unlink()
        self.lake.warden = Warden.open(self.lake.folder)

    def status(self) -> Any:
        return self.warden.backfill.status(database="shop", version="3")

    def ids(self, table: str = "shop.totals") -> Sequence[int | None]:
        found = self.lake.catalog.load_table(table).scan().to_arrow()["id"].to_pylist()
        return sorted(found, key=lambda id: (id is not None, id))

    def unreferenced(self) -> list[Path]:
        """The files in the target's data folder that no version has."""
        table = self.lake.catalog.load_table("shop.totals")
        known = {_path(entry["file_path"]) for entry in table.inspect.all_files().to_pylist()}
        found = (_path(table.location()) / "data").rglob("*")
        return sorted(path for path in found if path.is_file() and path not in known and path.suffix != ".crc")

    def stamps(self) -> list[dict[str, Any]]:
        key = "lakewarden.backfill.shop_003"
        snapshots = self.lake.catalog.load_table("shop.totals").metadata.snapshots
        return [json.loads(one.summary[key]) for one in snapshots if key in one.summary.additional_properties]


def _path(location: str) -> Path:
    return Path("/" + location.removeprefix("file:").lstrip("/"))
