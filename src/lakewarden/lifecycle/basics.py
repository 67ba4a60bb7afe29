"""Types that all parts share: clocks, fences, stamps, routes, and the doctor's checks.

Imports nothing of Lakewarden, so that everything can import it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

Clock = Callable[[], datetime]
Fence = Callable[[], None]
ReportProgress = Callable[[int, int, str], None]

PUBLISH = "commit"  # through Lakewarden's own commit layer, without a JVM
SPARK_SQL = "spark-sql"  # through Iceberg's statements and procedures on Spark
PART = "lakewarden.part"


class ActionProgress(Protocol):
    """How an action reports its progress, or that it waits; see `Writer.progress`."""

    def __call__(self, done: int, total: int, says: str, waits: bool = False) -> None: ...


@dataclass(frozen=True)
class Stamp:
    """Identifies the action that made a commit: stored in snapshot summaries, and looked up after a crash."""

    operation: str
    action: str
    actor: str
    part: str = ""
    """Which of several commits of the action it is; each is recognised separately."""

    @property
    def file_prefix(self) -> str:
        """The prefix of the names of an action's files, which identifies even those never published."""
        return f"lw-{self.operation}-{self.action}"

    @property
    def name(self) -> str:
        """A single name for the commit."""
        return f"{self.file_prefix}-{self.part}" if self.part else self.file_prefix

    def properties(self) -> dict[str, str]:
        return {
            "lakewarden.operation": self.operation,
            "lakewarden.action": self.action,
            "lakewarden.actor": self.actor,
            **({PART: self.part} if self.part else {}),
        }


@dataclass(frozen=True)
class Check:
    """One line of the doctor: what was checked, the result, and what to do about it."""

    part: str
    state: Literal["ok", "warning", "failed"]
    found: str
    advice: str = ""


@dataclass(frozen=True)
class Probe:
    """Checks one part of the installation, and never raises."""

    look: Callable[[], Sequence[Check]]
    starts_spark: bool = False
