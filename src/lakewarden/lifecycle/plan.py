"""Plans as values: what an operation will do, what each step requires, and what it expects.

A plan is frozen and serialisable. Its id is a hash of what it would do, so that planning twice on
an unchanged lake gives the same id; estimates and times never enter it. What a door shows and what
the runner applies is the same list of actions.

The files that an action concerns may be very many, so a plan's JSON holds only their number, size and digest.
The journal keeps the files themselves beside it, and the runner loads those of the table it works on.
"""

from __future__ import annotations

import hashlib
import json
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from functools import cached_property
from itertools import islice
from operator import attrgetter
from typing import Annotated, Any

from pydantic import Discriminator, TypeAdapter

from lakewarden.errors import StateUnavailable
from lakewarden.lifecycle.requirement import LayoutIs, RefAt, SnapshotKept, TableIs
from lakewarden.quantities import Bytes

Requirement = Annotated[TableIs | RefAt | LayoutIs | SnapshotKept, Discriminator("kind")]
Facts = Mapping[str, int | float | str | bool | None]

PUBLISH = "commit"  # through Lakewarden's own commit layer, without a JVM
SPARK_SQL = "spark-sql"  # through Iceberg's statements and procedures on Spark
_AT_ONCE = 1000  # files that are encoded together


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


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """One file that an action concerns; files that are worked on together have the same group."""

    path: str
    bytes: Bytes
    kind: str
    group: int = 0


@dataclass(frozen=True)
class FileList:
    """The files that an action concerns: how many, how large, and a digest that stands for every one of them.

    Two lists with the same digest are the same list, whether or not their items are at hand.
    """

    count: int = 0
    bytes: Bytes = 0
    digest: str = ""
    items: tuple[PlannedFile, ...] = field(default=(), repr=False, compare=False)

    @staticmethod
    def of(files: Iterable[PlannedFile]) -> FileList:
        """The list of these files; in which order they are given makes no difference."""
        items = tuple(sorted(files, key=attrgetter("group", "path", "kind", "bytes")))
        return _listed(items, _encoded(items)) if items else FileList()

    def groups(self) -> dict[int, list[str]]:
        """The paths of the files that are worked on together, by their group."""
        found: dict[int, list[str]] = {}
        for file in self.items:
            found.setdefault(file.group, []).append(file.path)
        return found


def pack_files(files: FileList) -> bytes:
    """All files of a list in a few bytes each, as a journal keeps them."""
    packer = zlib.compressobj(level=1)
    return b"".join([*map(packer.compress, _encoded(files.items)), packer.flush()])


def unpack_files(packed: bytes) -> FileList:
    """The list that was packed. Its digest is of what was read, so a damaged list is not the planned one; one that
    was veiled passes for what it was."""
    encoded = zlib.decompress(packed)
    columns = json.loads(encoded)
    kinds = map(sys.intern, columns["kind"])  # few words, many files
    items = map(PlannedFile, columns["path"], columns["bytes"], kinds, columns["group"])
    listed = _listed(tuple(items), [encoded])
    return replace(listed, digest=columns["veiled"]) if "veiled" in columns else listed


def veil_files(packed: bytes, told: Callable[[str], str]) -> bytes:
    """A packed list whose paths are told otherwise, as where they tell of somebody who was erased."""
    columns = json.loads(zlib.decompress(packed))
    paths = [told(path) for path in columns["path"]]
    if paths == columns["path"]:
        return packed
    veiled = {**columns, "path": paths, "veiled": unpack_files(packed).digest}
    return zlib.compress(json.dumps(veiled, separators=(",", ":")).encode(), level=1)


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
    files: FileList = FileList()

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
class Verdict:
    """What a plan decided about one thing it looked at, and every reason for that."""

    table: str
    subject: str
    at: datetime
    verdict: str
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, repr=False)
class Plan:
    """What an operation of this kind will do to this target, action by action."""

    kind: str
    target: str
    actions: tuple[Action, ...] = ()
    warnings: tuple[str, ...] = ()
    refused: tuple[Finding, ...] = ()
    """Tables that were asked for and cannot be done; the others still are, and the whole then counts as failed."""
    verdicts: tuple[Verdict, ...] = ()
    """What was decided on the way and why; not part of what is done, nor of the plan's id."""

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
        return Plan(self.kind, self.target, self._by_table.get(table, ()))

    @cached_property
    def _by_table(self) -> dict[str, tuple[Action, ...]]:
        return {table: tuple(actions) for table, actions in _grouped(self.actions).items()}

    def without_files(self) -> Plan:
        """The same plan with its files counted but not at hand."""
        return self._with(lambda action: replace(action.files, items=()))

    def with_files(self, load: Callable[[str], FileList]) -> Plan:
        """The same plan with its files at hand, loaded by each action's id; others than the planned are refused."""

        def loaded(action: Action) -> FileList:
            files = load(action.id)
            if files != action.files:
                raise StateUnavailable(
                    f"the files of an action are not those that were planned ({action.table}: {action.says})",
                    "The control database lost or changed them. Nothing was done with them; plan again.",
                )
            return files

        return self._with(loaded)

    def _with(self, files: Callable[[Action], FileList]) -> Plan:
        actions = tuple(replace(a, files=files(a)) if a.files.count else a for a in self.actions)
        return replace(self, actions=actions)

    @property
    def estimate(self) -> Estimate:
        return sum((action.estimate for action in self.actions), Estimate())

    def document(self, files: bool = False) -> dict[str, Any]:
        """The plan as every door shows it under the key `plan`; with every file where that is asked for."""
        dumped = _ACTIONS.dump_python(self.actions, mode="json", exclude=_EVERY_ACTIONS_FILES)
        actions = [{"id": a.id, **d} for a, d in zip(self.actions, dumped, strict=True)]
        if files:
            for action, shown in zip(self.actions, actions, strict=True):
                shown["files"]["items"] = [
                    {"path": file.path, "bytes": file.bytes, "kind": file.kind, "group": file.group}
                    for file in action.files.items
                ]
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
            **({"verdicts": _VERDICTS.dump_python(self.verdicts, mode="json")} if self.verdicts else {}),
        }

    def __repr__(self) -> str:
        from lakewarden.lifecycle.plan_text import as_text

        return as_text(self)

    def _repr_html_(self) -> str:
        from lakewarden.lifecycle.plan_text import as_html

        return as_html(self)

    def to_json(self) -> str:
        return _PLAN.dump_json(self, exclude={"actions": _EVERY_ACTIONS_FILES}).decode()

    @staticmethod
    def from_json(text: str) -> Plan:
        return _PLAN.validate_json(text)


@dataclass(frozen=True)
class Outcome:
    """What applying one action did, measured: numbers are added up into the operation's result."""

    facts: Facts = field(default_factory=dict)


def _acts(action: Action) -> dict[str, Any]:
    requires = [asdict(need) for need in action.requires]
    files = {"files": action.files.digest} if action.files.count else {}
    return {"arguments": dict(action.arguments), "requires": requires, **files}


def _listed(items: tuple[PlannedFile, ...], encoded: Iterable[bytes]) -> FileList:
    digest = hashlib.sha256()
    for piece in encoded:
        digest.update(piece)
    return FileList(len(items), sum(file.bytes for file in items), digest.hexdigest()[:32], items)


def _encoded(items: Sequence[PlannedFile]) -> Iterator[bytes]:
    """JSON column by column, which is quicker to write and to read than a million small objects; in pieces.

    The whole of it would take as much memory as the files themselves.
    """
    for place, name in enumerate(("path", "bytes", "kind", "group")):
        yield f'{"]," if place else "{"}"{name}":['.encode()
        values, comma = map(attrgetter(name), items), ""
        while some := list(islice(values, _AT_ONCE)):
            yield (comma + json.dumps(some, separators=(",", ":"))[1:-1]).encode()
            comma = ","
    yield b"]}"


def _grouped(actions: Iterable[Action]) -> dict[str, list[Action]]:
    grouped: dict[str, list[Action]] = {}
    for action in actions:
        grouped.setdefault(action.table, []).append(action)
    return grouped


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:12]


_EVERY_ACTIONS_FILES = {"__all__": {"files": {"items"}}}
_PLAN = TypeAdapter(Plan)
_VERDICTS = TypeAdapter(tuple[Verdict, ...])
_ACTIONS = TypeAdapter(tuple[Action, ...])
