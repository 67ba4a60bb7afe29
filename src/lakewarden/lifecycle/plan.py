"""Plans as values: what an operation will do, what each step requires, and what it expects.

A plan is frozen and serialisable. Its id is a hash of what it would do, so that planning twice on
an unchanged lake gives the same id; estimates and times never enter it. What a door shows and what
the runner applies is the same list of actions.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Annotated, Any

from pydantic import Discriminator, TypeAdapter

from lakewarden.lifecycle.requirement import RefAt, TableIs
from lakewarden.quantities import Bytes

Requirement = Annotated[TableIs | RefAt, Discriminator("kind")]
Facts = Mapping[str, int | float | str | bool | None]

PUBLISH = "commit"  # through Lakewarden's own commit layer, without a JVM
SPARK_SQL = "spark-sql"  # through Iceberg's statements and procedures on Spark


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
    """One atomic step on one table, usually one Iceberg commit."""

    verb: str
    table: str
    says: str
    arguments: Facts
    requires: tuple[Requirement, ...] = ()
    expects: Facts = field(default_factory=dict)
    estimate: Estimate = Estimate()
    route: str = PUBLISH
    because: str = ""

    @cached_property
    def id(self) -> str:
        return _digest({"verb": self.verb, "table": self.table, **_acts(self)})

    @property
    def lease_key(self) -> str:
        """What must be held while this action runs: the table by its uuid, whatever it is called."""
        uuids = [need.uuid for need in self.requires if isinstance(need, TableIs)]
        return f"table:{uuids[0]}" if uuids else f"name:{self.table}"


@dataclass(frozen=True)
class Finding:
    """Something a verification saw that should not be so."""

    table: str
    message: str


@dataclass(frozen=True)
class Plan:
    """What an operation of this kind will do to this target, action by action."""

    kind: str
    target: str
    actions: tuple[Action, ...] = ()
    warnings: tuple[str, ...] = ()
    refused: tuple[Finding, ...] = ()
    """Tables that were asked for and cannot be done; the others still are, and the whole then counts as failed."""

    @cached_property
    def id(self) -> str:
        actions = [{"verb": a.verb, "table": a.table, **_acts(a)} for a in self.actions]
        refused = {"refused": [asdict(finding) for finding in self.refused]} if self.refused else {}
        return "plan-" + _digest({"kind": self.kind, "target": self.target, "actions": actions, **refused})

    @property
    def tables(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(action.table for action in self.actions))

    def for_table(self, table: str) -> Plan:
        """The part of this plan that concerns one table, which is applied and verified alone."""
        return Plan(self.kind, self.target, tuple(a for a in self.actions if a.table == table))

    @property
    def estimate(self) -> Estimate:
        return sum((action.estimate for action in self.actions), Estimate())

    def document(self) -> dict[str, Any]:
        """The plan as every door shows it under the key `plan`."""
        dumped = _ACTIONS.dump_python(self.actions, mode="json")
        actions = [{"id": a.id, **d} for a, d in zip(self.actions, dumped, strict=True)]
        summary = {
            "actions": len(self.actions),
            "tables": len(self.tables),
            "estimate": TypeAdapter(Estimate).dump_python(self.estimate, mode="json"),
        }
        return {
            "id": self.id,
            "kind": self.kind,
            "target": self.target,
            "actions": actions,
            "summary": summary,
            "warnings": list(self.warnings),
            "refused": [asdict(finding) for finding in self.refused],
        }

    def to_json(self) -> str:
        return _PLAN.dump_json(self).decode()

    @staticmethod
    def from_json(text: str) -> Plan:
        return _PLAN.validate_json(text)


@dataclass(frozen=True)
class Outcome:
    """What applying one action did, measured: numbers are added up into the operation's result."""

    facts: Facts = field(default_factory=dict)


def _acts(action: Action) -> dict[str, Any]:
    requires = [asdict(need) for need in action.requires]
    return {"arguments": dict(action.arguments), "requires": requires}


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:12]


_PLAN = TypeAdapter(Plan)
_ACTIONS = TypeAdapter(tuple[Action, ...])
