"""What requests are handed to work with: records of separate parts, one for reading and one for writing.

A question and a plan get a `Reader`: by type they cannot change anything. An action gets a `Writer`,
made by the runner for that one action, which stamps and fences whatever it publishes. Both are put
together in `warden.py`; tests put together their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from lakewarden.lifecycle.memory import Kept

if TYPE_CHECKING:
    from lakewarden.config import Settings
    from lakewarden.engine.catalog.tables import Tables
    from lakewarden.engine.commit.change import Commits
    from lakewarden.engine.commit.procedures import Procedures
    from lakewarden.engine.commit.staging import Staging
    from lakewarden.engine.files.live_files import Files
    from lakewarden.engine.history.spark_route import SparkCleansing
    from lakewarden.engine.rewrite.driver import Rewriter
    from lakewarden.engine.rows.read import Rows
    from lakewarden.engine.spark.statements import TableStatements
    from lakewarden.engine.storage.storage import Storage, StoredFiles
    from lakewarden.lifecycle.basics import Clock, Probe, Stamp
    from lakewarden.lifecycle.journal import JournalReader
    from lakewarden.state.stores import StateReader, StateWriter


class Reader(Protocol):
    """Everything a question or a plan may look at."""

    @property
    def settings(self) -> Settings: ...
    @property
    def tables(self) -> Tables: ...
    @property
    def files(self) -> Files: ...
    @property
    def rows(self) -> Rows: ...
    @property
    def journal(self) -> JournalReader: ...
    @property
    def state(self) -> StateReader: ...
    @property
    def probes(self) -> Sequence[Probe]: ...
    @property
    def clock(self) -> Clock: ...

    def storage(self, lake: str) -> StoredFiles:
        """The files of one lake, to look at."""
        ...

    def kept(self, kind: type[Kept]) -> Kept:
        """The one value of this kind that an operation keeps while it runs; where nothing runs, a new one."""
        ...


class Writer(Reader, Protocol):
    """What an action may change the lake with."""

    @property
    def commits(self) -> Commits: ...
    @property
    def staging(self) -> Staging: ...
    @property
    def procedures(self) -> Procedures: ...
    @property
    def spark_cleansing(self) -> SparkCleansing: ...
    @property
    def stamp(self) -> Stamp: ...
    @property
    def state(self) -> StateWriter: ...

    def rewriter(self, lake: str) -> Rewriter:
        """What writes files of a lake anew, on Spark."""
        ...

    def statements(self, table: str) -> TableStatements:
        """What changes a table by statements on Spark, each a commit of its own."""
        ...

    def part(self, name: str) -> Writer:
        """The same for one of several commits of the action: recognised by itself after a crash."""
        ...

    def sweep(self, table: str) -> int:
        """Remove what earlier runs of this very action wrote to a table's folders and never published.

        For `tidy`, once the action holds: what an earlier run had sent before it was lost can land no more.
        """
        ...

    def storage(self, lake: str) -> Storage:
        """The files of one lake, to change: behind the action's fence."""
        ...

    def progress(self, done: int, total: int, says: str = "") -> None:
        """Tell how far a long action is, after each piece of its work. An interrupt may come out of this."""
        ...
