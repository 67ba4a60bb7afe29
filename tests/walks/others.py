"""What other engines do to a table, all of it with plain Spark SQL: they know nothing of Lakewarden."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from lakewarden.errors import LakewardenError
from lakewarden.lifecycle import failpoints
from lakewarden.warden import Planned
from tests.small_lake import SmallLake


class Others:
    """Somebody else's Spark on one table."""

    def __init__(self, lake: SmallLake, table: str) -> None:
        self._lake = lake
        self.table = table

    def sql(self, statement: str) -> list[Any]:
        """Run a statement in which {t} is the table."""
        rows: list[Any] = self._lake.warden.ground.spark.sql(statement.format(t=f"main.{self.table}")).collect()
        return rows

    @property
    def metadata(self) -> Any:
        return self._lake.catalog.load_table(self.table).metadata

    @property
    def head(self) -> int | None:
        head: int | None = self.metadata.current_snapshot_id
        return head

    def snapshots(self) -> list[int]:
        return [snapshot.snapshot_id for snapshot in self.metadata.snapshots]

    def expire(self, clean: bool = False) -> None:
        """Keep nothing but what refs point to; `clean` removes schemas that no version needs, too."""
        more = ", clean_expired_metadata => true" if clean else ""
        if self.head is not None:
            self._call("expire_snapshots", f"older_than => TIMESTAMP '2099-01-01 00:00:00', retain_last => 1{more}")

    def compact(self) -> None:
        if self.head is not None:
            self._call("rewrite_data_files", "options => map('rewrite-all', 'true', 'delete-file-threshold', '1')")

    def merge_manifests(self) -> None:
        if self.head is not None:
            self._call("rewrite_manifests", "use_caching => false")

    def roll_back(self, snapshot: int) -> None:
        self._call("set_current_snapshot", f"snapshot_id => {snapshot}")

    def upgrade(self) -> None:
        self.sql("ALTER TABLE {t} SET TBLPROPERTIES ('format-version' = '3')")

    def drop_and_add(self, column: str, kind: str) -> None:
        """The new column has the name, and nothing else of the former one."""
        self.sql(f"ALTER TABLE {{t}} DROP COLUMN {column}")
        self.sql(f"ALTER TABLE {{t}} ADD COLUMN {column} {kind}")

    def _call(self, procedure: str, arguments: str) -> None:
        self.sql(f"CALL main.system.{procedure}(table => '{self.table}', {arguments})")


def stop(planned: Planned, point: str) -> None:
    """Run what was planned until it has passed a point; it can be resumed."""

    def interrupt() -> None:
        raise KeyboardInterrupt

    passed = failpoints.when(point, interrupt)
    with suppress(LakewardenError, KeyboardInterrupt):
        planned.apply()
    failpoints.arm("")
    assert passed == [point]
