"""One step of a plan as a value: what it is about, what it requires and expects, and what came of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

from lakewarden.lifecycle.basics import PUBLISH
from lakewarden.lifecycle.planned_files import FileList
from lakewarden.lifecycle.requirement import AnyRequirement, document
from lakewarden.quantities import Bytes

Fact = int | float | str | bool | None
Facts = Mapping[str, Fact | tuple[Fact, ...]]


@dataclass(frozen=True)
class Estimate:
    """A prediction, labelled as one; what came true is in the operation's result."""

    files: int = 0
    bytes: Bytes = 0
    rows: int = 0
    seconds: float = 0.0

    def __add__(self, other: Estimate) -> Estimate:
        return Estimate(
            self.files + other.files,
            self.bytes + other.bytes,
            self.rows + other.rows,
            round(self.seconds + other.seconds, 3),
        )


@dataclass(frozen=True)
class Action:
    """One atomic step on one subject, usually one Iceberg commit on a table."""

    verb: str
    subject: str
    """What it is about, by the name that people know: `main.sales.orders`."""
    lease: str
    """What must be held while it runs, so that no other operation changes the same: for a table, see `table_lease`."""
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
        return digest(self.deed)

    @property
    def deed(self) -> dict[str, Any]:
        """What it does, of which its id and its plan's are made: not how that is put, nor what it may cost."""
        return {
            "verb": self.verb,
            "subject": self.subject,
            "arguments": dict(self.arguments),
            "requires": [document(need) for need in self.requires],
            **({"files": self.files.digest} if self.files.count else {}),
        }

    def number(self, argument: str) -> int:
        """An argument that is a number, or a snapshot's id as text; 0 where there is none."""
        return int(str(self.arguments.get(argument) or 0))

    def texts(self, argument: str) -> tuple[str, ...]:
        """An argument that is a list of texts; none where it was not given."""
        given = self.arguments.get(argument, ())
        return tuple(map(str, given)) if isinstance(given, tuple) else (str(given),)


@dataclass(frozen=True)
class Finding:
    """Something a verification saw that should not be so."""

    subject: str
    message: str


@dataclass(frozen=True)
class Verdict:
    """What a plan decided about one thing it looked at, and every reason for that."""

    subject: str
    item: str
    at: datetime
    verdict: str
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """What applying one action did, measured: numbers are added up into the operation's result."""

    facts: Facts = field(default_factory=dict)


def digest(value: object) -> str:
    """A few letters that stand for a value."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:12]
