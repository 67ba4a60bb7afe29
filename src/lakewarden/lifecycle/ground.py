"""What requests work with, one protocol for reading and one for writing.

A question or a plan gets a `Reader`: by type it cannot change anything. An action gets a `Writer`, created by the
runner for that action, which stamps and fences everything it publishes. `warden.py` implements both; tests have their
own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from lakewarden.lifecycle.memory import Kept

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakewarden.config import Settings
    from lakewarden.engine.base.own_logs import OwnLogs
    from lakewarden.engine.catalog.tables import Tables
    from lakewarden.engine.commit.change import Commits
    from lakewarden.engine.commit.procedures import Procedures
    from lakewarden.engine.commit.staging import Staging
    from lakewarden.engine.comparison.compare import Comparisons
    from lakewarden.engine.files.live_files import Files
    from lakewarden.engine.history.spark_route import SparkCleansing
    from lakewarden.engine.rewrite.driver import Rewriter
    from lakewarden.engine.rewrite.exchange import Exchange
    from lakewarden.engine.rows.read import Rows
    from lakewarden.engine.spark.database_rows import DatabaseRows
    from lakewarden.engine.spark.definitions import Definitions
    from lakewarden.engine.spark.statements import TableStatements
    from lakewarden.engine.sql.batches import Batches
    from lakewarden.engine.sql.queries import Queries
    from lakewarden.engine.storage.storage import Storage, StoredFiles
    from lakewarden.lifecycle.basics import Clock, Probe, Stamp
    from lakewarden.lifecycle.journal import JournalReader
    from lakewarden.state.stores import StateReader, StateWriter


class Reader(Protocol):
    """Everything a question or a plan may read."""

    @property
    def settings(self) -> Settings: ...
    @property
    def tables(self) -> Tables: ...
    @property
    def files(self) -> Files: ...
    @property
    def rows(self) -> Rows: ...
    @property
    def comparisons(self) -> Comparisons: ...
    @property
    def queries(self) -> Queries: ...
    @property
    def batches(self) -> Batches: ...
    @property
    def journal(self) -> JournalReader: ...
    @property
    def state(self) -> StateReader: ...
    @property
    def probes(self) -> Sequence[Probe]: ...
    @property
    def clock(self) -> Clock: ...

    def storage(self, lake: str) -> StoredFiles:
        """Read access to the files of one lake."""
        ...

    def kept(self, kind: type[Kept]) -> Kept:
        """The value of this type that an operation keeps while it runs; outside a run, a new one."""
        ...


class Writer(Reader, Protocol):
    """What an action may change."""

    @property
    def commits(self) -> Commits: ...
    @property
    def staging(self) -> Staging: ...
    @property
    def procedures(self) -> Procedures: ...
    @property
    def spark_cleansing(self) -> SparkCleansing: ...
    @property
    def logs(self) -> OwnLogs: ...
    @property
    def stamp(self) -> Stamp: ...
    @property
    def state(self) -> StateWriter: ...

    def rewriter(self, lake: str) -> Rewriter:
        """Rewrites files of a lake on Spark."""
        ...

    def exchange(self, lake: str) -> Exchange:
        """Writes new rows to files of a lake on Spark, sorted out by a number."""
        ...

    def definitions(self, lake: str) -> Definitions:
        """Changes the schema of a lake by statements of its users, each a separate commit."""
        ...

    def statements(self, table: str) -> TableStatements:
        """Changes a table by Spark statements, each a separate commit."""
        ...

    def database_rows(self, rows: DatabaseRows) -> Callable[[SparkSession], DataFrame]:
        """Reads rows of a database on Spark, for `staging`."""
        ...

    def part(self, name: str) -> Writer:
        """The same writer for one of several commits of the action, which is recognised separately after a crash."""
        ...

    def sweep(self, table: str) -> int:
        """Remove what earlier runs of this action wrote to a table's folders and never published.

        For `tidy`, once the action holds: then nothing that a lost run had sent can still be committed.
        """
        ...

    def storage(self, lake: str) -> Storage:
        """Write access to the files of one lake, under the action's fence."""
        ...

    def fence(self) -> None:
        """Raise if the action lost its lease: to call right before a change outside the lake, such as a statement."""
        ...

    def progress(self, done: int, total: int, says: str = "", waits: bool = False) -> None:
        """Report the progress of a long action, after each piece of work. May raise an interrupt.

        An action that `waits` says why: the journal has it until the next report, so that other processes can see it.
        """
        ...
