"""The only place that sequences: lease → every table of the plan → journal.

An operation is held by a lease of its own while it runs, and each table by another; what is done to one table is
in `table_run.py`. Tables are taken one after another, or several side by side, each in a thread of its own.
A run that was killed anywhere is taken up again by running it again.
"""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from lakewarden.errors import Interrupted, LakewardenError, LeaseHeld, StateUnavailable
from lakewarden.lifecycle.failpoints import reach
from lakewarden.lifecycle.ground import Clock, Fence, Reader, Stamp, Tell, Writer
from lakewarden.lifecycle.interrupts import deferred, listening
from lakewarden.lifecycle.journal import Journal, Record
from lakewarden.lifecycle.leases import Keeper, Leases
from lakewarden.lifecycle.plan import Plan
from lakewarden.lifecycle.progress import Watcher, unwatched
from lakewarden.lifecycle.request import Operation
from lakewarden.lifecycle.run import Cancelled, Report, Run, Stop, defect, refusal
from lakewarden.lifecycle.states import UNFINISHED, State, check_apply, check_resume
from lakewarden.lifecycle.table_run import Means, TableRun, patience
from lakewarden.lifecycle.tombstones import Tombstones

if TYPE_CHECKING:
    from lakewarden.engine.storage import Storage

log = logging.getLogger(__name__)


class Runner:
    """Applies planned operations. Everything it works with is handed in."""

    def __init__(
        self,
        *,
        journal: Journal,
        leases: Leases,
        tombstones: Tombstones,
        reader: Reader,
        open_writer: Callable[[Stamp, Fence, Tell], Writer],
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
        self.reader = reader
        self.tombstones = tombstones
        self._open_writer = open_writer
        self._find_operation = find_operation
        self._clock = clock
        self._new_id = new_id
        self.actor = actor
        self._holder = holder
        self.lease_timeout = lease_timeout
        self._sleep = sleep

    def plan(self, operation: Operation) -> Plan:
        return operation.plan(self.reader)

    def store(self, operation: Operation, plan: Plan) -> Record:
        """Write a plan down as an operation to apply later; the same plan is written down once."""
        waiting = self.journal.planned(plan.id)
        if waiting is not None and waiting.request == operation.model_dump_json():
            return waiting
        record = Record.planned(self._new_id(), plan, operation.model_dump_json(), self.actor, self._clock())
        self.journal.add(record)
        return record

    def storage(self, lake: str) -> Storage:
        """A lake's files, for controls: without a lease, so only for what nobody else changes."""
        return self._open_writer(Stamp("", "", self.actor), lambda: None, lambda *_: None).storage(lake)

    def note(self, kind: str, target: str, request: str, result: dict[str, Any]) -> str:
        """Write down what a control did that leaves no other trace; answers with the record's id."""
        now = self._clock()
        record = Record.planned(self._new_id(), Plan(kind, target), request, self.actor, now)
        done = replace(record, state=State.DONE, started_at=now, finished_at=now, applied_by=self.actor, result=result)
        self.journal.add(done)
        return done.id

    def start(self, operation: Operation, plan: Plan, wait: timedelta = timedelta()) -> Report:
        """Apply a plan right away; it is written down in the same moment as running. An empty one is done."""
        if not plan.actions:
            refused = refusal(plan)
            if refused:
                raise refused
            return Report(None, plan.kind, State.DONE, {"actions": 0, "tables": 0})
        waiting = self.journal.planned(plan.id)
        if waiting is not None and waiting.request == operation.model_dump_json():  # else said otherwise: a budget, say
            return self.run(waiting.id, wait)
        new = Record.planned(self._new_id(), plan, operation.model_dump_json(), self.actor, self._clock())
        return self._run(new, operation, wait, self._add_running)

    def apply(self, id: str, wait: timedelta = timedelta()) -> Report:
        """Apply a plan that was stored and that nobody applied yet."""
        record = self.journal.get(id)
        check_apply(record.id, record.state)
        return self.run(record.id, wait)

    def resumable(self, id: str) -> Record:
        """An operation that stopped halfway; raises where there is nothing to go on with."""
        record = self.journal.get(id)
        check_resume(record.id, record.state)
        return record

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
        with (
            listening(signal.SIGINT),
            keeper.hold(_key(record.id), f"operation {record.id}", patience(wait, self._means())) as fence,
            deferred() as lifted,
        ):
            reach("operation.leased")
            taken_up = record.started_at is not None
            run = Run(begin(record), operation, keeper, fence, wait, self._clock(), self.watch, taken_up)
            try:
                with lifted():
                    run.tell("started")
                    return self._sequence(run)
            except KeyboardInterrupt:
                return self._pause(run)
            except Cancelled:
                raise self._cancelled(run) from None

    def _add_running(self, record: Record) -> Record:
        running = replace(record, state=State.RUNNING, started_at=self._clock(), applied_by=self.actor)
        self.journal.add(running)
        return replace(running, plan=running.plan.without_files())

    def _move_running(self, record: Record) -> Record:
        return self.journal.move(record.id, State.RUNNING, self._clock(), applied_by=self.actor)

    def _pause(self, run: Run) -> Report:
        """An interrupt: stop between two actions, unless it came when all was over."""
        run.fence()
        record = self.journal.get(run.record.id)
        if record.state is State.DONE:
            return Report.of(record)
        if record.state in UNFINISHED:
            self.journal.move(record.id, State.PAUSED, self._clock(), result=run.result())
        raise Interrupted(
            f"operation {record.id} stopped after {len(run.outcomes)} of {len(run.plan.actions)} actions",
            hint=f"Continue with: lakewarden operation resume {record.id}",
        ) from None

    def _cancelled(self, run: Run) -> Interrupted:
        """Somebody asked it to stop, and every table is left between two actions."""
        run.fence()
        self.journal.move(run.record.id, State.CANCELLED, self._clock(), result=run.result())
        return Interrupted(
            f"operation {run.record.id} was cancelled after {len(run.outcomes)} of {len(run.plan.actions)} actions",
            hint="What was applied stays applied. Plan again to do the rest.",
        )

    def _sequence(self, run: Run) -> Report:
        reach("operation.running")
        at_once = min(run.operation.side_by_side(), len(run.tables))
        means = self._means()
        tables = [TableRun(run, table, means, number < at_once) for number, table in enumerate(run.tables)]
        if at_once > 1:
            self._side_by_side(run, tables, at_once)
        else:
            for table in tables:
                self._one(run, table)
        return self._finish(run)

    def _side_by_side(self, run: Run, tables: list[TableRun], at_once: int) -> None:
        """Several tables at once. What ends the whole run comes up when every thread is between two actions."""
        with ThreadPoolExecutor(at_once, thread_name_prefix=run.record.id) as threads:
            begun = [threads.submit(self._one, run, table) for table in tables]
            try:
                for ended in as_completed(begun):
                    ended.result()
            except BaseException as error:
                run.halt(Stop.CANCEL if isinstance(error, Cancelled) else Stop.INTERRUPT)
                threads.shutdown(cancel_futures=True)
                raise

    def _one(self, run: Run, table: TableRun) -> None:
        """One table; what goes wrong on it does not stop the others."""
        try:
            table.finish()
        except Cancelled:
            raise
        except LakewardenError as error:
            run.mind_interrupt()
            if isinstance(error, LeaseHeld) and run.leaves_held:
                table.skip(error)
            else:
                table.fail(error)
        except Exception as error:
            run.mind_interrupt()
            log.exception("operation %s met a defect on %s", run.record.id, table.name)
            table.fail(defect(run, table.name, error))

    def _finish(self, run: Run) -> Report:
        id, now, result = run.record.id, self._clock(), run.result()
        reach("operation.finishing")
        run.fence()
        error = run.failure()
        if error is not None:
            findings = tuple(run.findings)
            self.journal.move(id, State.FAILED, now, findings=findings, result=result, error=error.document())
            run.tell("failed", says=error.message)
            raise error
        if self.journal.get(id).state is State.RUNNING:  # an earlier run had verified what was left
            self.journal.move(id, State.VERIFYING, now)
        done = self.journal.move(id, State.DONE, now, result=result)
        reach("operation.done")
        run.tell("finished")
        return Report.of(done)

    def _means(self) -> Means:
        return Means(self.journal, self.reader, self._open_writer, self._clock, self._sleep, self.actor)


def _key(operation: str) -> str:
    """The lease that whoever runs an operation holds."""
    return f"operation:{operation}"


def _refuse(held: LeaseHeld) -> None:
    raise held
