"""A runner with everything that it works with at hand, and an operation that does as little as one can."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime, timedelta
from threading import Lock
from typing import Any, ClassVar, Literal

from lakewarden.lifecycle.action import Action, Finding, Outcome
from lakewarden.lifecycle.basics import ActionProgress, Fence, Stamp
from lakewarden.lifecycle.journal import Journal
from lakewarden.lifecycle.leases import Leases
from lakewarden.lifecycle.memory import Memory
from lakewarden.lifecycle.plan import Plan
from lakewarden.lifecycle.planned_files import FileList, PlannedFile
from lakewarden.lifecycle.progress import Event
from lakewarden.lifecycle.request import Operation
from lakewarden.lifecycle.requirement import RefAt, TableIs, table_lease
from lakewarden.lifecycle.runner import Runner
from lakewarden.lifecycle.states import Stop
from lakewarden.quantities import Duration
from tests.lifecycle.memory_stores import MemoryJournal, MemoryLeases


class FakeTables:
    """Tables that are nothing but refs and snapshots."""

    def __init__(self) -> None:
        self.refs: dict[tuple[str, str], int] = {}
        self.snapshots: dict[tuple[str, int], object] = {}

    def at_one_moment(self) -> AbstractContextManager[None]:
        return nullcontext()

    def uuid(self, name: str) -> str:
        return f"uuid of {name}"

    def ref(self, name: str, ref: str) -> int | None:
        return self.refs.get((name, ref))

    def load(self, name: str) -> Any:
        tables = self

        class Table:
            def snapshot_by_id(self, id: int) -> object | None:
                return tables.snapshots.get((name, id))

        return Table()


class FakeLake:
    def __init__(self) -> None:
        self.tables = FakeTables()


class FakeWriter(FakeLake):
    """What one action writes with."""

    def __init__(self, lake: FakeLake, stamp: Stamp, fence: Fence, tell: ActionProgress) -> None:
        self.tables, self.stamp, self.fence, self._tell = lake.tables, stamp, fence, tell

    def progress(self, done: int, total: int, says: str = "", waits: bool = False) -> None:
        self._tell(done, total, says, waits)

    def sweep(self, table: str) -> int:
        return 0


class Mark(Operation):
    """Set refs on some tables, in an action each."""

    tables: list[str]
    refs: tuple[str, ...] = ("a", "b")
    lies: bool = False
    budget: Duration | None = None
    pause_after: int | None = None
    parallel: int = 1
    files: int = 0
    skips: bool = False
    silent: bool = False
    hooks: ClassVar[list[Callable[[Action], None]]] = []
    seen: ClassVar[list[tuple[str, Action]]] = []

    def plan(self, lake: Any) -> Plan:
        actions = [
            Action(
                verb="mark",
                subject=table,
                lease=table_lease(f"uuid of {table}"),
                says=f"mark {table} {ref}",
                arguments={"ref": ref},
                requires=(TableIs(table, f"uuid of {table}"), RefAt(table, ref, None)),
                expects={"marks": 1},
                files=FileList.of(PlannedFile(f"{table}/{ref}/{n}", n, "data") for n in range(self.files)),
            )
            for table in self.tables
            for ref in self.refs
        ]
        return Plan(self.kind(), ",".join(self.tables), tuple(actions))

    def holds(self, action: Action, lake: Any) -> bool:
        self.seen.append(("holds", action))
        return bool(lake.tables.ref(action.subject, action.arguments["ref"]) == 1)

    def apply(self, action: Action, lake: Any) -> Outcome:
        self.seen.append(("apply", action))
        for hook in self.hooks:
            hook(action)
        if not self.silent:
            lake.progress(1, 2, "half of it")
        if not self.lies:
            lake.tables.refs[(action.subject, action.arguments["ref"])] = 1
        return Outcome({"marks": 1, "last": action.says})

    def verify(self, plan: Plan, lake: Any) -> list[Finding]:
        self.seen.extend(("verify", action) for action in plan.actions)
        return super().verify(plan, lake)

    def skips_held(self) -> bool:
        return self.skips

    def limit_reached(self, elapsed: timedelta, begun: int) -> Literal[Stop.BUDGET, Stop.PAUSE] | None:
        if self.pause_after is not None and begun >= self.pause_after:
            return Stop.PAUSE
        return Stop.BUDGET if self.budget is not None and elapsed >= self.budget else None


class House:
    """A runner and all that it was handed."""

    def __init__(self, journal: Journal | None = None, leases: Leases | None = None) -> None:
        Mark.hooks.clear()
        Mark.seen.clear()
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        self.lake = FakeLake()
        self.journal = journal or MemoryJournal()
        self.leases = leases or MemoryLeases(lambda: self.now)
        self.events: list[Event] = []
        self.stamps: list[Stamp] = []
        self.slept: list[float] = []
        self.ids = iter(f"op-{number}" for number in range(100))
        self._lock = Lock()
        self.runner = Runner(
            journal=self.journal,
            leases=self.leases,
            open_reader=lambda memory: self.lake,  # type: ignore[arg-type,return-value]
            open_writer=self._writer,
            find_operation=lambda kind: Mark,
            clock=lambda: self.now,
            new_id=lambda: next(self.ids),
            actor="somebody",
            holder="here",
            lease_timeout=timedelta(seconds=60),
            watch=self.events.append,
            sleep=self.sleep,
        )

    def _writer(self, memory: Memory, stamp: Stamp, fence: Fence, tell: ActionProgress) -> Any:
        self.stamps.append(stamp)
        return FakeWriter(self.lake, stamp, fence, tell)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.pass_time(timedelta(seconds=10))

    def pass_time(self, time: timedelta) -> None:
        with self._lock:
            self.now += time

    def start(self, *tables: str, **fields: Any) -> Any:
        operation = Mark(tables=list(tables), **fields)
        return self.runner.start(operation, self.runner.plan(operation))

    def store(self, *tables: str, **fields: Any) -> str:
        operation = Mark(tables=list(tables), **fields)
        return self.runner.store(operation, self.runner.plan(operation)).id

    def steps(self, id: str = "op-0") -> list[tuple[str, str]]:
        return [(step.says.removeprefix("mark "), str(step.progress)) for step in self.journal.get(id).steps]
