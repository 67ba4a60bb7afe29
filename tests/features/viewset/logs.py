"""A lake with a table of log entries, and view sets over it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from tests.small_lake import SmallLake

TIME = pa.timestamp("us", tz="UTC")
SCHEMA = pa.schema(
    [("inserted_at", TIME), ("time", TIME), ("process_id", pa.string()), ("level", pa.int32()), ("msg", pa.string())]
)
DAY = datetime(2026, 1, 1, tzinfo=UTC)
RANGE = "inserted_at >= {begin} AND inserted_at < {end}"
SQL = f"SELECT time, process_id, level, msg FROM raw.logs WHERE {RANGE}"
DEFINITION = {"name": "entries", "source": "raw.logs", "insert_time": "inserted_at", "event_time": "time"}


class Logs:
    """Log entries that are inserted once a minute, and a view set."""

    def __init__(self, lake: SmallLake) -> None:
        self.lake = lake
        self.viewset = lake.warden.viewset
        lake.catalog.create_namespace("raw")
        lake.catalog.create_table("raw.logs", SCHEMA)

    def insert(self, *minutes: int, level: int = 1, process: str = "p1") -> None:
        """Insert an entry at each of these minutes of the day."""
        at = [DAY + timedelta(minutes=minute) for minute in minutes]
        columns: dict[str, list[Any]] = {
            "inserted_at": at,
            "time": at,
            "process_id": [process] * len(at),
            "level": [level] * len(at),
            "msg": [f"m{minute}" for minute in minutes],
        }
        self.lake.catalog.load_table("raw.logs").append(pa.table(columns, schema=SCHEMA))

    def define(self, sql: str = SQL, **more: Any) -> dict[str, Any]:
        """Register the view set `entries`; answers with the result."""
        result: dict[str, Any] = self.viewset.register({**DEFINITION, "sql": sql, **more}).apply().result
        return result

    def write(self, hours: int = 4, **more: Any) -> dict[str, Any]:
        end = (DAY + timedelta(hours=hours)).isoformat()
        result: dict[str, Any] = (
            self.viewset.materialize("entries", begin="2026-01-01", end=end, delta="1h", **more).apply().result
        )
        return result

    def held(self, instance: str = "global") -> dict[tuple[int, str], int]:
        """By hour and schema hash, how many rows each partition has."""
        found: dict[tuple[int, str], int] = {}
        for row in self.viewset.partitions("entries"):
            if row.view_instance_id == instance:
                key = (row.begin_insert_time - DAY) // timedelta(hours=1), row.file_schema_hash
                found[key] = found.get(key, 0) + row.num_rows
        return found

    def rows(self) -> list[dict[str, Any]]:
        table = self.lake.catalog.load_table("viewsets.entries")
        found: list[dict[str, Any]] = table.scan().to_arrow().to_pylist()
        return sorted(found, key=lambda row: (row["view_instance_id"], row["time"], row.get("msg") or ""))
