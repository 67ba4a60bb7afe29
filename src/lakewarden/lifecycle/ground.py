"""What requests are handed to work with: records of separate parts, one for reading and one for writing.

A question and a plan get a `Reader`: by type they cannot change anything. An action gets a `Writer`,
made by the runner for that one action, which stamps and fences whatever it publishes. Both are put
together in `warden.py`; tests put together their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from lakewarden.config import Settings
    from lakewarden.engine.changes import Commits
    from lakewarden.engine.live_files import Files
    from lakewarden.engine.procedures import Procedures
    from lakewarden.engine.rewrite import Rewriter
    from lakewarden.engine.rows import Rows
    from lakewarden.engine.spark_cleansing import SparkCleansing
    from lakewarden.engine.storage import Storage, StoredFiles
    from lakewarden.engine.table_statements import TableStatements
    from lakewarden.engine.tables import Tables
    from lakewarden.lifecycle.journal import JournalReader
    from lakewarden.lifecycle.tombstones import TombstoneReader, Tombstones

Clock = Callable[[], datetime]
Fence = Callable[[], None]
Tell = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Check:
    """One line of the doctor: what was looked at, how it is, and what to do if it is not well."""

    part: str
    state: Literal["ok", "warning", "failed"]
    found: str
    advice: str = ""


@dataclass(frozen=True)
class Probe:
    """Looks at one part of the installation, and never raises."""

    look: Callable[[], Sequence[Check]]
    starts_spark: bool = False


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
    def tombstones(self) -> TombstoneReader: ...
    @property
    def probes(self) -> Sequence[Probe]: ...
    @property
    def clock(self) -> Clock: ...

    def storage(self, lake: str) -> StoredFiles:
        """The files of one lake, to look at."""
        ...


class Writer(Reader, Protocol):
    """What an action may change the lake with."""

    @property
    def commits(self) -> Commits: ...
    @property
    def procedures(self) -> Procedures: ...
    @property
    def spark_cleansing(self) -> SparkCleansing: ...
    @property
    def stamp(self) -> Stamp: ...
    @property
    def tombstones(self) -> Tombstones: ...

    def rewriter(self, lake: str) -> Rewriter:
        """What writes files of a lake anew, on Spark."""
        ...

    def statements(self, table: str) -> TableStatements:
        """What changes a table by statements on Spark, each a commit of its own."""
        ...

    def sweep(self, table: str) -> int:
        """Remove what earlier runs of this very action wrote to a table's folders and never published.

        The runner's to call, once the action holds: what an earlier run had sent before it was lost can land no more.
        """
        ...

    def storage(self, lake: str) -> Storage:
        """The files of one lake, to change: behind the action's fence."""
        ...

    def progress(self, done: int, total: int, says: str = "") -> None:
        """Tell how far a long action is, after each piece of its work. An interrupt may come out of this."""
        ...


@dataclass(frozen=True)
class Stamp:
    """Whose work a commit is: goes into snapshot summaries, and is looked for after a crash."""

    operation: str
    action: str
    actor: str

    @property
    def file_prefix(self) -> str:
        """How the names of files begin that an action writes: whose they are is known even if it never landed."""
        return f"lw-{self.operation}-{self.action}"

    def properties(self) -> dict[str, str]:
        return {
            "lakewarden.operation": self.operation,
            "lakewarden.action": self.action,
            "lakewarden.actor": self.actor,
        }
