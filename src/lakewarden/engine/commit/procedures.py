"""Iceberg's procedures on Spark, for tables whose files or metadata only Spark can write.

They commit on the current head and are idempotent: running one again does the rest. What they would do beyond the plan
is checked beforehand, and refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from lakewarden.engine.base.quoting import identifier, literal
from lakewarden.engine.catalog.snapshot_removal import (
    LINEAGE,
    iceberg_would_also_take,
    kept_lineage,
    note_property,
    still_needed,
)
from lakewarden.engine.spark.session import translating_spark
from lakewarden.errors import BrokenTable, SparkUnavailable, StalePlan
from lakewarden.lifecycle.failpoints import reach
from lakewarden.quantities import to_millis

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from lakewarden.engine.base.table_name import TableName
    from lakewarden.engine.catalog.tables import Tables
    from lakewarden.engine.spark.session import Spark
    from lakewarden.lifecycle.basics import Fence

_MANY = 2**31 - 1
_UNREADABLE = re.compile(r"NotFound|NoSuchKey|does not exist|Checksum|not a Parquet file|Failed to (open|fetch|read)")
_FILE = re.compile(r"\w+:/\S+\.(parquet|orc|avro|puffin)")
_LONG_AGO = "1970-01-01 00:00:00"


class Procedures:
    """Calls Iceberg's procedures, each after checking the fence."""

    def __init__(self, tables: Tables, spark: Spark, fence: Fence) -> None:
        self._tables = tables
        self._spark = spark
        self._fence = fence

    def expire_snapshots(
        self,
        table_name: str,
        snapshots: Sequence[int],
        tags: Mapping[str, int] = MappingProxyType({}),
        check: Callable[[Table], None] = lambda table: None,
    ) -> None:
        """Expire exactly these snapshots and tags. Spark deletes the files that become unreachable."""
        name = self._tables.name(table_name)
        self._spark.session()  # starting it takes long, so check afterwards
        table = self._tables.load(name)
        needed = still_needed(table.metadata, snapshots, tags)
        if needed:
            raise StalePlan(f"the plan is stale: {'; '.join(needed)}", "Nothing was expired. Plan again.")
        more = iceberg_would_also_take(table.metadata, snapshots, tags, to_millis(datetime.now(UTC)))
        if more:
            raise StalePlan(
                f"the plan is stale: Iceberg's expiry on Spark would also remove {', '.join(more)}",
                "Nothing was expired. Plan again.",
            )
        check(table)
        there = sorted({s.snapshot_id for s in table.metadata.snapshots} & set(snapshots))
        lineage = kept_lineage(table.metadata, set(there), {})
        if lineage:
            descent = json.dumps({str(child): ancestor for child, ancestor in lineage.items()})
            self._run(_altered(name, f"SET TBLPROPERTIES ({literal(LINEAGE)} = {literal(descent)})"))
        for tag in tags:
            if tag in table.metadata.refs:
                self._run(_altered(name, f"DROP TAG {identifier(tag)}"))
            if note_property(tag) in table.metadata.properties:
                self._run(_altered(name, f"UNSET TBLPROPERTIES ({literal(note_property(tag))})"))
        if there:
            ids = ", ".join(literal(snapshot) for snapshot in there)
            only = f"snapshot_ids => ARRAY({ids}), older_than => TIMESTAMP {literal(_LONG_AGO)}"
            self._run(_called(name, "expire_snapshots", f"{only}, retain_last => {literal(_MANY)}"))

    def rewrite_data_files(
        self, table: str, options: Mapping[str, str], strategy: str = "binpack", sort_order: str = "", where: str = ""
    ) -> dict[str, Any]:
        """Rewrite files of a table with these options; returns Iceberg's result."""
        name = self._tables.name(table)
        pairs = ", ".join(f"{literal(key)}, {literal(value)}" for key, value in sorted(options.items()))
        given = [f"strategy => {literal(strategy)}", f"options => map({pairs})"]
        given += [f"sort_order => {literal(sort_order)}"] if sort_order else []
        given += [f"where => {literal(where)}"] if where else []
        with _naming_unreadable_file(name):
            return self._run(_called(name, "rewrite_data_files", ", ".join(given)))

    def rewrite_manifests(self, table: str) -> dict[str, Any]:
        return self._run(_called(self._tables.name(table), "rewrite_manifests", ""))

    def _run(self, statement: str) -> dict[str, Any]:
        self._spark.session()
        self._fence()
        reach("procedure.fenced")
        with translating_spark():
            rows = self._spark.sql(statement).collect()
        reach("procedure.done")
        return rows[0].asDict() if rows else {}


@contextmanager
def _naming_unreadable_file(name: TableName) -> Iterator[None]:
    """Name the file that Spark could not read: it is buried in the stack trace."""
    try:
        yield
    except SparkUnavailable as error:
        causes = [line for line in str(error.__cause__).splitlines() if _UNREADABLE.search(line)]
        found = next((match for line in reversed(causes) if (match := _FILE.search(line))), None)
        if found is None:
            raise
        kinds = [kind[0] for line in causes if (kind := _UNREADABLE.search(line))]
        raise BrokenTable(
            f"table {name}: Spark could not read {found[0]} ({kinds[-1]})",
            "Nothing was changed. Restore that file, or roll back to a version without it.",
        ) from error


def _altered(name: TableName, what: str) -> str:
    return f"ALTER TABLE {identifier(name.lake, name.identifier)} {what}"


def _called(name: TableName, procedure: str, arguments: str) -> str:
    table = literal(".".join(identifier(part) for part in name.identifier))
    more = f", {arguments}" if arguments else ""
    return f"CALL {identifier(name.lake)}.system.{procedure}(table => {table}{more})"
