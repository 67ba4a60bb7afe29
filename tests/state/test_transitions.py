"""Any sequence of moves leaves a journal in a database where the same moves leave one in memory."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from lakewarden.errors import LakewardenError
from lakewarden.lifecycle.action import Finding
from lakewarden.lifecycle.journal import Progress
from lakewarden.lifecycle.states import State, Stop
from lakewarden.state.database import Database
from lakewarden.state.journal import SqlJournal
from tests.examples import examples
from tests.lifecycle.memory_stores import MemoryJournal
from tests.state.records import NOON, a_plan, an_operation

words = st.text(max_size=8).filter(lambda text: "\0" not in text and text.isprintable())
documents = st.dictionaries(words, st.none() | st.booleans() | st.integers() | words | st.floats(allow_nan=False))
facts = st.fixed_dictionaries(
    {},
    optional={
        "error": st.none() | documents,
        "result": st.none() | documents,
        "findings": st.lists(st.builds(Finding, words, words), max_size=2).map(tuple),
    },
)
OPERATIONS = ["op-0", "op-1", "op-2"]
some_operation = st.sampled_from(OPERATIONS)


class Journals(RuleBasedStateMachine):
    """The same things done to both journals must have the same end, be it an answer or a refusal."""

    @initialize()
    def open(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.database = Database(f"sqlite:///{Path(self.folder.name)}/state.db")
        self.lasting, self.memory = SqlJournal(self.database), MemoryJournal()
        self.now = NOON

    def both(self, act: Callable[[Any], Any]) -> None:
        told: list[Any] = []
        for journal in (self.memory, self.lasting):
            try:
                told.append(act(journal))
            except LakewardenError as error:
                told.append((error.code, error.message))
        assert told[0] == told[1]

    @precondition(lambda self: len(self.memory.list()) < len(OPERATIONS))
    @rule(tables=st.lists(st.sampled_from(["a.b", "c.d"]), unique=True), minutes=st.integers(0, 3))
    def plan(self, tables: list[str], minutes: int) -> None:
        record = an_operation(OPERATIONS[len(self.memory.list())], a_plan(*tables), minutes)
        self.both(lambda journal: journal.add(record))

    @rule(id=some_operation, state=st.sampled_from(State), facts=facts)
    def move(self, id: str, state: State, facts: dict[str, Any]) -> None:
        self.now += timedelta(microseconds=1)
        self.both(lambda journal: journal.move(id, state, self.now, **facts))

    @rule(id=some_operation, which=st.integers(0, 3), progress=st.sampled_from(Progress), facts=documents)
    def step(self, id: str, which: int, progress: Progress, facts: dict[str, Any]) -> None:
        template = an_operation("any", a_plan("a.b", "c.d")).steps[which]
        changed = replace(template, progress=progress, facts=facts, at=self.now)
        self.both(lambda journal: journal.step(id, changed))

    @rule(id=some_operation, table=st.sampled_from(["a.b", "c.d"]))
    def verified(self, id: str, table: str) -> None:
        self.now += timedelta(microseconds=1)
        steps = [step for step in an_operation("any", a_plan("a.b", "c.d")).steps if step.subject == table]
        self.both(lambda journal: journal.verified(id, steps, self.now))

    @rule(kinds=st.lists(st.sampled_from(["version.tag", "other.kind"]), max_size=2))
    def last_done(self, kinds: list[str]) -> None:
        self.both(lambda journal: journal.last_done(kinds))

    @rule(id=some_operation, which=st.integers(0, 3))
    def files(self, id: str, which: int) -> None:
        action = a_plan("a.b", "c.d").actions[which].id
        self.both(lambda journal: journal.files(id, action))

    @rule(id=some_operation, stop=st.sampled_from([Stop.PAUSE, Stop.CANCEL]))
    def ask_to_stop(self, id: str, stop: Stop) -> None:
        self.both(lambda journal: journal.request_stop(id, stop))

    @rule(
        states=st.lists(st.sampled_from(State), max_size=2), table=st.sampled_from(["", "a.b"]), limit=st.integers(1, 3)
    )
    def search(self, states: list[State], table: str, limit: int) -> None:
        self.both(lambda journal: journal.list(states=states, subjects=[table] if table else [], limit=limit))

    @invariant()
    def the_same_is_known(self) -> None:
        if hasattr(self, "memory"):
            self.both(lambda journal: journal.list())

    def teardown(self) -> None:
        if hasattr(self, "database"):
            self.database.close()
            self.folder.cleanup()


TestJournals = Journals.TestCase
TestJournals.settings = examples(24, stateful_step_count=25, suppress_health_check=[HealthCheck.too_slow])
