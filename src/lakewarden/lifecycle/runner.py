"""The only place that sequences: lease → check → apply → verify → journal, table by table.

An operation is held by a lease of its own while it runs, and each table by another. Whether an action
is done is looked up in the lake before it is applied, so a run that was killed anywhere is taken up
again by running it again. Nothing is published by a runner whose lease was taken over: writers look
at the fence right before they commit, and the runner before it writes the journal.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from lakewarden.errors import Interrupted, LakewardenError, LeaseHeld, StalePlan, StateUnavailable, VerificationFailed
from lakewarden.lifecycle.failpoints import reach
from lakewarden.lifecycle.ground import Clock, Fence, Reader, Stamp, Writer
from lakewarden.lifecycle.journal import Journal, Progress, Record
from lakewarden.lifecycle.leases import Keeper, Leases
from lakewarden.lifecycle.plan import Action, Outcome, Plan
from lakewarden.lifecycle.progress import Event, Watcher, unwatched
from lakewarden.lifecycle.request import Operation
from lakewarden.lifecycle.requirement import TableIs
from lakewarden.lifecycle.run import Report, Run, defect, refusal
from lakewarden.lifecycle.states import UNFINISHED, State

log = logging.getLogger(__name__)


class Runner:
    """Applies planned operations. Everything it works with is handed in."""

    def __init__(
        self,
        *,
        journal: Journal,
        leases: Leases,
        reader: Reader,
        open_writer: Callable[[Stamp, Fence], Writer],
        find_operation: Callable[[str], type[Operation]],
        clock: Clock,
        new_id: Callable[[], str],
        actor: str,
        holder: str,
        lease_timeout: timedelta,
        watch: Watcher = unwatched,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.journal = journal
        self.watch = watch
        self._leases = leases
        self._reader = reader
        self._open_writer = open_writer
        self._find_operation = find_operation
        self._clock = clock
        self._new_id = new_id
        self._actor = actor
        self._holder = holder
        self.lease_timeout = lease_timeout
        self._sleep = sleep

    def plan(self, operation: Operation) -> Plan:
        return operation.plan(self._reader)

    def store(self, operation: Operation, plan: Plan) -> Record:
        """Write a plan down as an operation to apply later; the same plan is written down once."""
        waiting = self.journal.planned(plan.id)
        if waiting is not None:
            return waiting
        record = Record.planned(self._new_id(), plan, operation.model_dump_json(), self._actor, self._clock())
        self.journal.add(record)
        return record

    def start(self, operation: Operation, plan: Plan, wait: timedelta = timedelta()) -> Report:
        """Apply a plan right away; it is written down in the same moment as running. An empty one is done."""
        if not plan.actions:
            refused = refusal(plan)
            if refused:
                raise refused
            return Report(None, plan.kind, State.DONE, {"actions": 0, "tables": 0})
        waiting = self.journal.planned(plan.id)
        if waiting is not None:
            return self.run(waiting.id, wait)
        new = Record.planned(self._new_id(), plan, operation.model_dump_json(), self._actor, self._clock())
        return self._run(new, operation, wait, self._add_running)

    def run(self, id: str, wait: timedelta = timedelta()) -> Report:
        """Apply a stored operation from wherever it is to its end; raises what went wrong."""
        record = self.journal.get(id)
        if not record.plan.actions:
            raise StateUnavailable(f"operation {record.id} cannot be run", "; ".join(record.plan.warnings))
        try:
            operation = self._find_operation(record.kind).model_validate_json(record.request)
        except ValueError as error:
            raise StateUnavailable(
                f"operation {record.id} in the journal cannot be read", "Another version of Lakewarden wrote it."
            ) from error
        return self._run(record, operation, wait, self._move_running)

    def cancel(self, id: str) -> Record:
        """End an operation: at once where nobody runs it, else between two of its actions."""
        record = self.journal.get(id)
        keeper = Keeper(self._leases, record.id, self._holder, self.lease_timeout)
        try:
            with keeper.hold(_key(record.id), f"operation {record.id}", _refuse):
                return self.journal.move(record.id, State.CANCELLED, self._clock())
        except LeaseHeld:
            self.journal.request_cancel(record.id)
            return self.journal.get(record.id)

    def unfinished(self) -> tuple[list[Record], list[Record]]:
        """Operations that have begun and not ended: those that nobody runs now, and those that are held."""
        keys = {
            lease.key for lease in self._leases.held()
        }  # its own lease counts: those of its tables end on their own
        begun = self.journal.list(states=sorted(UNFINISHED), limit=1000)
        held = [record for record in begun if _key(record.id) in keys]
        return [record for record in begun if record not in held], held

    def await_dead_holders(self, wait: timedelta | None = None, only: str | None = None) -> None:
        """Wait until each held operation, or only one, has come free or is seen to be alive: its lease was renewed.

        A dead holder's lease runs out by itself; without a time given, that long is waited.
        """
        deadline = self._clock() + (self.lease_timeout * 1.2 if wait is None else wait)
        first_seen: dict[str, datetime] = {}
        keys = {_key(record.id) for record in self.unfinished()[1] if only in (None, record.id)}
        if keys and deadline > self._clock():
            log.info("%d held: waiting until leases run out, unless their holders live", len(keys))
        while True:
            held = [lease for lease in self._leases.held() if lease.key in keys]
            unclear = [
                lease for lease in held if first_seen.setdefault(lease.key, lease.expires_at) == lease.expires_at
            ]
            if not unclear or self._clock() >= deadline:
                return
            self._sleep(0.2)

    def _run(self, record: Record, operation: Operation, wait: timedelta, begin: Callable[[Record], Record]) -> Report:
        keeper = Keeper(self._leases, record.id, self._holder, self.lease_timeout)
        with keeper.hold(_key(record.id), f"operation {record.id}", self._patience(wait)) as fence:
            reach("operation.leased")
            run = Run(begin(record), operation, keeper, fence, wait)
            self._tell(run, "started")
            try:
                return self._sequence(run)
            except KeyboardInterrupt:
                return self._pause(run)

    def _add_running(self, record: Record) -> Record:
        running = replace(record, state=State.RUNNING, started_at=self._clock(), applied_by=self._actor)
        self.journal.add(running)
        return running

    def _move_running(self, record: Record) -> Record:
        return self.journal.move(record.id, State.RUNNING, self._clock(), applied_by=self._actor)

    def _pause(self, run: Run) -> Report:
        """An interrupt: stop between two actions, unless it came when all was over."""
        run.fence()
        record = self.journal.get(run.record.id)
        if record.state is State.DONE:
            return Report(record.id, record.kind, State.DONE, dict(record.result or {}))
        if record.state in UNFINISHED:
            self.journal.move(record.id, State.PAUSED, self._clock(), result=run.result())
        raise Interrupted(
            f"operation {record.id} stopped after {len(run.outcomes)} of {len(run.plan.actions)} actions",
            hint=f"Go on with: lakewarden operation resume {record.id}",
        ) from None

    def _sequence(self, run: Run) -> Report:
        reach("operation.running")
        tables = run.remaining()
        for table in tables:
            try:
                self._table(run, table, last=table == tables[-1])
            except Interrupted:
                raise
            except LakewardenError as error:
                self._fail(run, table, error)
            except Exception as error:  # a defect met on one table does not stop the others
                log.exception("operation %s met a defect on %s", run.record.id, table)
                self._fail(run, table, defect(run, table, error))
        return self._finish(run)

    def _table(self, run: Run, table: str, last: bool) -> None:
        part = run.plan.for_table(table)
        key, label = part.actions[0].lease_key, f"table {table}"
        with run.keeper.hold(key, label, self._patience(run.wait, run)) as held:

            def fence() -> None:
                run.fence()
                held()

            reach("table.leased")
            for action in part.actions:
                self._stop_if_asked(run)
                self._action(run, action, fence)
            run.fence()
            if last and not run.failures:
                self.journal.move(run.record.id, State.VERIFYING, self._clock())
            reach("table.verifying")
            self._verify(run, part, table)
            reach("table.verified")
        reach("table.released")

    def _action(self, run: Run, action: Action, fence: Fence) -> None:
        step = run.step(action)
        self._tell(run, "applying", action.table, action.says)
        self._check(action, TableIs)  # another table of the same name is none of ours
        if run.operation.holds(action, self._reader):
            outcome = Outcome(step.facts if step.progress is Progress.DONE else action.expects)
        else:
            self._check(action)
            reach("action.checked")
            fence()
            stamp = Stamp(run.record.id, action.id, self._actor)
            outcome = run.operation.apply(action, self._open_writer(stamp, fence))
        reach("action.applied")
        run.fence()
        done = replace(step, progress=Progress.DONE, facts=dict(outcome.facts), error=None, at=self._clock())
        self.journal.step(run.record.id, done)
        run.outcomes[action.id] = outcome
        reach("action.journaled")
        self._tell(run, "applied", action.table, action.says)

    def _check(self, action: Action, *kinds: type) -> None:
        """Refuse as stale unless what the action requires is so, saying what moved from what to what."""
        needs = [need for need in action.requires if not kinds or isinstance(need, kinds)]
        moved = [broken for need in needs if (broken := need.broken(self._reader))]
        if moved:
            raise StalePlan(
                f"the plan is stale: {'; '.join(moved)}",
                hint="Nothing was written for this table. Plan again, and look at what changed.",
            )

    def _verify(self, run: Run, part: Plan, table: str) -> None:
        self._tell(run, "verifying", table)
        findings = run.operation.verify(part, self._reader)
        run.findings += findings
        if findings:
            more = f" (and {len(findings) - 1} more)" if findings[1:] else ""
            raise VerificationFailed(
                f"{table}: {findings[0].message}{more}",
                hint=f"lakewarden operation show {run.record.id} lists all of it.",
            )
        run.fence()
        self.journal.verified(run.record.id, table, self._clock())

    def _finish(self, run: Run) -> Report:
        id, now, result = run.record.id, self._clock(), run.result()
        reach("operation.finishing")
        run.fence()
        error = run.failure()
        if error is not None:
            findings = tuple(run.findings)
            self.journal.move(id, State.FAILED, now, findings=findings, result=result, error=error.document())
            self._tell(run, "failed", says=error.message)
            raise error
        if self.journal.get(id).state is State.RUNNING:  # an earlier run had verified what was left
            self.journal.move(id, State.VERIFYING, now)
        self.journal.move(id, State.DONE, now, result=result)
        reach("operation.done")
        self._tell(run, "finished")
        return Report(id, run.record.kind, State.DONE, result)

    def _fail(self, run: Run, table: str, error: LakewardenError) -> None:
        run.fence()  # where the operation was taken over, its journal is not ours to write
        run.failures[table] = error
        progress = Progress.STALE if isinstance(error, StalePlan) else Progress.FAILED
        for step in run.record.steps:
            if step.table == table and step.action not in run.outcomes:
                failed = replace(step, progress=progress, error=error.document(), at=self._clock())
                self.journal.step(run.record.id, failed)
                break

    def _stop_if_asked(self, run: Run) -> None:
        if self.journal.cancel_requested(run.record.id):
            run.fence()
            done, all = len(run.outcomes), len(run.plan.actions)
            self.journal.move(run.record.id, State.CANCELLED, self._clock(), result=run.result())
            raise Interrupted(
                f"operation {run.record.id} was cancelled after {done} of {all} actions",
                hint="What was applied stays applied. Plan again to do the rest.",
            )

    def _patience(self, wait: timedelta, run: Run | None = None) -> Callable[[LeaseHeld], None]:
        """How to take it that somebody holds a lease: try again until the time to wait is over."""
        deadline = self._clock() + wait

        def retry(held: LeaseHeld) -> None:
            if self._clock() >= deadline:
                raise held
            if run:
                self._tell(run, "waiting", says=held.message)
                self._stop_if_asked(run)
            self._sleep(0.2)

        return retry

    def _tell(self, run: Run, phase: Any, table: str = "", says: str = "") -> None:
        total = len(run.plan.actions)
        self.watch(Event(run.record.id, run.record.kind, phase, len(run.outcomes), total, table, says))


def _key(operation: str) -> str:
    """The lease that whoever runs an operation holds."""
    return f"operation:{operation}"


def _refuse(held: LeaseHeld) -> None:
    raise held
