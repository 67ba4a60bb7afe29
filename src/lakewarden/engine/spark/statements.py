"""Iceberg's statements on Spark that change one table: each is a separate commit, and checks the fence first.

`spark_route.py` and `working_branch.py` decide which statements run, and in which order.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import inf
from typing import TYPE_CHECKING, Any

from lakewarden.engine.base.quoting import identifier, literal
from lakewarden.engine.catalog.snapshots import MAIN
from lakewarden.engine.spark.session import translating_spark
from lakewarden.engine.spark.time_limit import within
from lakewarden.errors import SparkUnavailable
from lakewarden.lifecycle.failpoints import reach

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakewarden.engine.base.table_name import TableName
    from lakewarden.engine.spark.session import Spark
    from lakewarden.lifecycle.basics import Fence

_ATTEMPTS = 12
_SUMMARY = "spark.sql.iceberg.snapshot-property."


class TableStatements:
    """Changes one table through Spark."""

    def __init__(self, spark: Spark, fence: Fence, name: TableName) -> None:
        self._spark, self._fence, self._name = spark, fence, name

    def create_branch(self, branch: str, snapshot: int | None) -> None:
        """Create a branch at a snapshot; in an empty table, Iceberg creates an empty snapshot for it."""
        at = f" AS OF VERSION {int(snapshot)}" if snapshot is not None else ""
        self._run_again(_altered(self._name, f"CREATE BRANCH {identifier(branch)}{at}"))

    def drop_branch(self, branch: str) -> None:
        self._run_again(_altered(self._name, f"DROP BRANCH {identifier(branch)}"))

    def create_tag(self, tag: str, snapshot: int) -> None:
        self._run(_altered(self._name, f"CREATE TAG {identifier(tag)} AS OF VERSION {int(snapshot)}"))

    def drop_tag(self, tag: str) -> None:
        self._run(_altered(self._name, f"DROP TAG {identifier(tag)}"))

    def move_tag(self, tag: str, snapshot: int) -> None:
        """Point a tag at another snapshot; it keeps its settings."""
        self._run(_altered(self._name, f"REPLACE TAG {identifier(tag)} AS OF VERSION {int(snapshot)}"))

    def fast_forward(self, branch: str, to: str) -> None:
        """Move a branch to a descendant; Iceberg refuses anything else."""
        self._run(_called(self._name, "fast_forward", f"branch => {literal(branch)}, to => {literal(to)}"))

    def set_branch(self, branch: str, snapshot: int) -> None:
        """Point a branch at any snapshot."""
        if branch == MAIN:
            self._run(_called(self._name, "set_current_snapshot", f"snapshot_id => {literal(snapshot)}"))
        else:
            self._run(_altered(self._name, f"REPLACE BRANCH {identifier(branch)} AS OF VERSION {int(snapshot)}"))

    def cherry_pick(self, snapshot: int) -> None:
        """Commit what a snapshot appended on top of main; Iceberg refuses if its `wap.id` was published before."""
        self._run(_called(self._name, "cherrypick_snapshot", f"snapshot_id => {literal(snapshot)}"))

    def append(
        self,
        branch: str,
        rows: DataFrame,
        options: Mapping[str, str],
        look: Callable[[], None] = lambda: None,
        most_seconds: float = inf,
    ) -> None:
        """Write rows to a branch in one snapshot, with write options; `look` is called regularly meanwhile."""
        self._fence()
        reach("statement.fenced")
        writer = rows.writeTo(_on(self._name, branch))
        for key, value in options.items():
            writer = writer.option(key, value)
        with translating_spark(), within(self._spark.session(), most_seconds, look):
            writer.append()
        reach("statement.done")

    def delete_files(self, branch: str, view: str) -> None:
        """Delete all rows of a branch in the files that a view lists."""
        files = identifier(view)
        self._run(f"DELETE FROM {_on(self._name, branch)} WHERE _file IN (SELECT file FROM {files})")  # noqa: S608 - names

    def add_column(self, column: Sequence[str], kind: str) -> None:
        self._run(_altered(self._name, f"ADD COLUMN {identifier(column)} {kind}"))

    def widen_column(self, column: Sequence[str], kind: str) -> None:
        self._run(_altered(self._name, f"ALTER COLUMN {identifier(column)} TYPE {kind}"))

    def drop_column(self, column: str | Sequence[str]) -> None:
        self._run(_altered(self._name, f"DROP COLUMN {identifier(column)}"))

    def rename_column(self, column: str | Sequence[str], name: str) -> None:
        self._run(_altered(self._name, f"RENAME COLUMN {identifier(column)} TO {identifier(name)}"))

    def set_properties(self, properties: Mapping[str, str]) -> None:
        pairs = ", ".join(f"{literal(key)} = {literal(value)}" for key, value in properties.items())
        self._run(_altered(self._name, f"SET TBLPROPERTIES ({pairs})"))

    def unset_properties(self, keys: Sequence[str]) -> None:
        self._run(unset_statement(self._name, keys))

    def delete_rows(self, branch: str, view: str) -> None:
        """Delete the rows of a branch whose file and position are in a view: the statement contains no values."""
        table = _on(self._name, branch)
        places = identifier(view)
        self._run(f"DELETE FROM {table} WHERE (_file, _pos) IN (SELECT file, position FROM {places})")  # noqa: S608 - names

    def append_nothing(self, branch: str) -> None:
        """Create a snapshot like the last one, whose manifests no longer list removed files."""
        table = _on(self._name, branch)
        self._run(f"INSERT INTO {table} SELECT * FROM {table} WHERE false")  # noqa: S608 - names

    def rewrite_data_files(self, branch: str, options: Mapping[str, str]) -> None:
        pairs = ", ".join(f"{literal(key)}, {literal(value)}" for key, value in sorted(options.items()))
        self._run(_called(self._name, "rewrite_data_files", f"branch => {literal(branch)}, options => map({pairs})"))

    def read(self, branch: str) -> DataFrame:
        """A branch's rows, with the file and position of each."""
        with translating_spark():
            frame = self._spark.session().table(_on(self._name, branch))
            return frame.select("*", "_file", "_pos")

    def view(self, view: str, rows: Sequence[tuple[str, int]]) -> DataFrame:
        """Register row positions as a temporary view. They are passed as data, so that no query plan shows them."""
        with translating_spark():
            frame = self._spark.session().createDataFrame(rows, "file string, position bigint")
            frame.createOrReplaceTempView(view)
            return frame

    def drop_view(self, view: str) -> None:
        with translating_spark():
            self._spark.session().catalog.dropTempView(view)

    @contextmanager
    def with_summary(self, properties: Mapping[str, str]) -> Iterator[None]:
        """Add these properties to snapshots created in the body, except by Iceberg's procedures."""
        conf = self._spark.session().conf
        for key, value in properties.items():
            conf.set(_SUMMARY + key, value)
        try:
            yield
        finally:
            for key in properties:
                conf.unset(_SUMMARY + key)

    def _run_again(self, statement: str) -> None:
        """Retry a statement that loses to other writers: Iceberg itself tries these only once."""
        for left in reversed(range(_ATTEMPTS)):
            try:
                self._run(statement)
                return
            except SparkUnavailable as error:
                if not left or "CommitFailedException" not in str(error.__cause__):
                    raise
            time.sleep(random.uniform(0.05, 0.5))

    def _run(self, statement: str) -> list[Any]:
        self._spark.session()  # starting it takes long, so check the fence afterwards
        self._fence()
        reach("statement.fenced")
        with translating_spark():
            rows = self._spark.sql(statement).collect()
        reach("statement.done")
        return rows


def unset_statement(name: TableName, keys: Sequence[str]) -> str:
    """The statement that removes properties of a table."""
    return _altered(name, f"UNSET TBLPROPERTIES IF EXISTS ({', '.join(literal(key) for key in keys)})")


def _on(name: TableName, branch: str) -> str:
    return identifier(name.lake, name.identifier, f"branch_{branch}")


def _altered(name: TableName, what: str) -> str:
    return f"ALTER TABLE {identifier(name.lake, name.identifier)} {what}"


def _called(name: TableName, procedure: str, arguments: str) -> str:
    """A call of one of Iceberg's procedures, which take the table as text."""
    table = literal(".".join(identifier(part) for part in name.identifier))
    return f"CALL {identifier(name.lake)}.system.{procedure}(table => {table}, {arguments})"
