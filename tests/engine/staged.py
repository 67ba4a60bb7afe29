"""A table that Spark stages rows for, and what every reader must see of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from lakewarden.engine.commit.new_rows import Append
from lakewarden.engine.commit.staging import STAGED, StagedRows
from lakewarden.engine.files.live_files import Files
from lakewarden.engine.files.manifests import Manifests
from lakewarden.warden import Workbench
from tests.engine.lakes import STAMP, unfenced
from tests.reachability import orphans
from tests.readers.engines import Ref, engines
from tests.readers.spec import faults
from tests.small_lake import SmallLake

OTHER = replace(STAMP, operation="op-20261115-101112-ffffff")
ROWS = "id, IF(id % 2 = 0, 'Oslo', NULL) AS city, IF(id % 3 = 0, double('NaN'), id / 2) AS amount"


class Shop:
    """A table without rows, and an action that publishes some."""

    def __init__(self, lake: SmallLake, name: str, format: int) -> None:
        self.lake, self.name, self.format = lake, f"main.shop.{name}", format
        self.sql("CREATE TABLE {t} (id BIGINT, city STRING, amount DOUBLE) USING iceberg PARTITIONED BY (city) "
                 f"TBLPROPERTIES ('format-version' = '{format}')")  # fmt: skip
        self.uuid = str(self.table.metadata.table_uuid)

    def sql(self, statement: str) -> list[Any]:
        rows: list[Any] = self.lake.warden.ground.spark.sql(statement.format(t=self.name)).collect()
        return rows

    @property
    def table(self) -> Any:
        return self.lake.warden.ground.tables.load(self.name)

    def bench(self, stamp: Any = STAMP, fence: Callable[[], None] = unfenced) -> Workbench:
        return Workbench(self.lake.warden.ground, stamp, fence, lambda *_: None)

    def stage(self, start: int, stop: int, stamp: Any = STAMP, replaced: Any = ()) -> StagedRows:
        query = f"SELECT {ROWS} FROM range({start}, {stop}, 1, 2)"
        return self.bench(stamp).staging.stage(self.name, lambda session: session.sql(query), replaced)

    def append(self, staged: StagedRows, stamp: Any = STAMP) -> int:
        return self.bench(stamp).commits.publish(Append(self.name, self.uuid, staged=staged))

    def known(self) -> dict[str, frozenset[str]]:
        table = self.table
        files = Files(Manifests()).of(table, table.current_snapshot())
        return {file.path: file.deletes_identity for file in files.data}

    def insert(self, *ids: int) -> None:
        self.sql(f"INSERT INTO {{t}} SELECT {ROWS} FROM (SELECT explode(array{ids}) AS id)".replace(",)", ")"))

    def check(self, *ids: int, is_swept: bool = True) -> None:
        """What Spark, PyIceberg and DuckDB read, what is stored, and that nothing is left of the staging."""
        table = self.table
        ref = Ref(
            self.name.removeprefix("main."),
            "main",
            "branch",
            table.metadata.current_snapshot_id,
            table.metadata_location,
        )
        readers = {
            engine.name: engine for engine in engines(self.lake.warden.ground.spark.session(), self.lake.catalog)
        }
        for reader in ("spark", "pyiceberg", "duckdb"):
            rows = readers[reader].read(ref)
            assert sorted(row["id"] for row in rows) == sorted(ids), reader
            assert sum(row["amount"] != row["amount"] for row in rows) == sum(id % 3 == 0 for id in ids), reader
        assert faults(table.metadata_location) == []
        assert [ref for ref in table.metadata.refs if ref != "main"] == []
        if self.format < 3 and is_swept:
            assert not any(STAGED in s.summary.additional_properties for s in table.metadata.snapshots)
            assert orphans(table) == set()
