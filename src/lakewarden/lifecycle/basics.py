"""The few words that all parts share: clocks, fences, stamps, routes, and what the doctor looks at.

It imports nothing of Lakewarden, so that everything may import it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

Clock = Callable[[], datetime]
Fence = Callable[[], None]
Tell = Callable[[int, int, str], None]

PUBLISH = "commit"  # through Lakewarden's own commit layer, without a JVM
SPARK_SQL = "spark-sql"  # through Iceberg's statements and procedures on Spark
PART = "lakewarden.part"


@dataclass(frozen=True)
class Stamp:
    """Whose work a commit is: goes into snapshot summaries, and is looked for after a crash."""

    operation: str
    action: str
    actor: str
    part: str = ""
    """Which of several commits of the action it is; each is recognised by itself."""

    @property
    def file_prefix(self) -> str:
        """How the names of files begin that an action writes: whose they are is known even if it never landed."""
        return f"lw-{self.operation}-{self.action}"

    @property
    def name(self) -> str:
        """What a commit is known by where it has one name only."""
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
