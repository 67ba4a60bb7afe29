"""One step of a plan as a value: its subject, requirements and expectations, and its outcome."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

from lakewarden.erased_values import ERASED
from lakewarden.lifecycle.basics import PUBLISH
from lakewarden.lifecycle.planned_files import FileList
from lakewarden.lifecycle.requirement import AnyRequirement, document
from lakewarden.quantities import Bytes

Fact = int | float | str | bool | None
Facts = Mapping[str, Fact | tuple[Fact, ...]]


@dataclass(frozen=True)
class Estimate:
    """A prediction. The measured result is in the operation."""

    files: int = 0
    bytes: Bytes = 0
    rows: int = 0
    seconds: float = 0.0
    memory: Bytes = 0
    """Of one Spark task, if that is known."""

    def __add__(self, other: Estimate) -> Estimate:
        return Estimate(
            self.files + other.files,
            self.bytes + other.bytes,
            self.rows + other.rows,
            round(self.seconds + other.seconds, 3),
            max(self.memory, other.memory),
        )


@dataclass(frozen=True)
class Action:
    """One atomic step on one subject, usually one Iceberg commit on a table."""

    verb: str
    subject: str
    """The name that users know: `main.sales.orders`."""
    lease: str
    """The lease to hold while it runs, so that no other operation changes the same; for a table see `table_lease`."""
    says: str
    arguments: Facts
    requires: tuple[AnyRequirement, ...] = ()
    expects: Facts = field(default_factory=dict)
    estimate: Estimate = Estimate()
    route: str = PUBLISH
    because: str = ""
    files: FileList = field(default_factory=FileList)

    @cached_property
    def id(self) -> str:
        return digest(self.effect)

    @property
    def effect(self) -> dict[str, Any]:
        """What it does: the input for its id and the plan's id, without wording and estimates."""
        return {
            "verb": self.verb,
            "subject": self.subject,
            "arguments": dict(self.arguments),
            "requires": [document(need) for need in self.requires],
            **({"files": self.files.digest} if self.files.count else {}),
        }

    @property
    def is_redacted(self) -> bool:
        """Whether an erased value was removed from its arguments, so that it cannot be applied."""
        return ERASED in json.dumps(dict(self.arguments))

    def number(self, argument: str) -> int:
        """An integer argument, or a snapshot id as text; 0 if it is missing."""
        return int(str(self.arguments.get(argument) or 0))

    def texts(self, argument: str) -> tuple[str, ...]:
        """An argument that is a list of texts; empty if it is missing."""
        given = self.arguments.get(argument, ())
        return tuple(map(str, given)) if isinstance(given, tuple) else (str(given),)


@dataclass(frozen=True)
class Finding:
    """A problem found by a verification."""

    subject: str
    message: str


@dataclass(frozen=True)
class Verdict:
    """What a plan decided about one item, and why."""

    subject: str
    item: str
    at: datetime
    verdict: str
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """What applying an action did, measured; numbers are added up in the operation's result."""

    facts: Facts = field(default_factory=dict)


def digest(value: object) -> str:
    """A short hash of a value."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:12]
