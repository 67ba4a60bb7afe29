"""Runs operations: lease → every subject of the plan → journal.

A running operation holds a lease, and another for each subject; `subject_run.py` works on one subject. Subjects run one
after another, or several in parallel threads. A killed run is resumed by running it again.
"""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from lakewarden.errors import Barred, Interrupted, LakewardenError, LeaseHeld, StateUnavailable
from lakewarden.lifecycle.basics import ActionProgress, Clock, Fence, Stamp
from lakewarden.lifecycle.failpoints import reach
from lakewarden.lifecycle.ground import Reader, Writer
from lakewarden.lifecycle.interrupts import deferred, listening
from lakewarden.lifecycle.journal import Journal, Record
from lakewarden.lifecycle.leases import Keeper, Leases
from lakewarden.lifecycle.memory import Memory
from lakewarden.lifecycle.plan import Plan
from lakewarden.lifecycle.progress import Watcher, unwatched
from lakewarden.lifecycle.report import Report
from lakewarden.lifecycle.request import Operation
from lakewarden.lifecycle.run import Halted, Run, defect, refusal
from lakewarden.lifecycle.states import UNFINISHED, State, Stop, check_apply, check_pause, check_resume
from lakewarden.lifecycle.subject_run import RunContext, SubjectRun, patience

log = logging.getLogger(__name__)


class Runner:
    """Applies planned operations, with everything it needs passed in."""

    def __init__(
        self,
        *,
        journal: Journal,
        leases: Leases,
        open_reader: Callable[[Memory], Reader],
        open_writer: Callable[[Memory, Stamp, Fence, ActionProgress], Writer],
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
        self._open_reader = open_reader
        self._open_writer = open_writer
        self._find_operation = find_operation
        self._clock = clock
        self._new_id = new_id
        self.actor = actor
        self._holder = holder
        self.lease_timeout = lease_timeout
        self._sleep = sleep

    def plan(self, operation: Operation) -> Plan:
        return operation.plan(self._open_reader(Memory()))

    def store(self, operation: Operation, plan: Plan) -> Record:
        """Record a plan as an operation to apply later; the same plan is recorded once."""
        waiting = self.journal.planned(plan.id)
        if waiting is not None and waiting.request == operation.model_dump_json():
            return waiting
        record = Record.planned(self._new_id(), plan, operation.model_dump_json(), self.actor, self._clock())
        self.journal.add(record)
        return record

    def start(self, operation: Operation, plan: Plan, wait: timedelta = timedelta()) -> Report:
        """Apply a plan at once; it is recorded as running in one step. An empty plan is done."""
        if not plan.actions:
            self._check_barred(operation)
            refused = refusal(plan)
            lake = self._open_writer(Memory(), Stamp("", "", self.actor), lambda: None, lambda *_: None)
            operation.ended(plan, {finding.subject for finding in plan.refused}, lake)
            if refused:
                raise refused
            return Report(None, plan.kind, State.DONE, {"actions": 0, "subjects": 0, **plan.details})
        waiting = self.journal.planned(plan.id)
        if (
            waiting is not None and waiting.request == operation.model_dump_json()
        ):  # else the request differs, for example in its budget
            return self.run(waiting.id, wait)
        new = Record.planned(self._new_id(), plan, operation.model_dump_json(), self.actor, self._clock())
        return self._run(new, operation, wait, self._add_running)

    def apply(self, id: str, wait: timedelta = timedelta()) -> Report:
        """Apply a stored plan that was not applied yet."""
        record = self.journal.get(id)
        check_apply(record.id, record.state)
        return self.run(record.id, wait)

    def resumable(self, id: str) -> Record:
        """An operation that can be resumed; raises if there is nothing to resume."""
        record = self.journal.get(id)
        check_resume(record.id, record.state)
        return record

    def run(
        self, id: str, wait: timedelta = timedelta(), by_its_id: bool = True, limits: Mapping[str, Any] | None = None
    ) -> Report:
        """Apply a stored operation to its end; one paused on request continues only with `by_its_id`.

        `limits` are fields of the request that this run replaces, such as how much it may do.
        """
        record = self.journal.get(id)
        if not record.plan.actions:
            raise StateUnavailable(f"operation {record.id} cannot be run", "; ".join(record.plan.warnings))
        try:
            operation = self._find_operation(record.kind).model_validate_json(record.request)
            operation = operation.model_copy(update=limits)
        except ValueError as error:
            raise StateUnavailable(
                f"operation {record.id} in the journal cannot be read", "Another version of Lakewarden wrote it."
            ) from error
        if by_its_id and record.stop_requested is Stop.PAUSE:
            return self._run(record, operation, wait, lambda of: self._move_running(of, stop_requested=None))
        return self._run(record, operation, wait, self._move_running)

    def pause(self, id: str) -> Record:
        """Pause an operation: at once if it is not running, otherwise at its next check. Only its id resumes it."""
        record = self.journal.get(id)
        check_pause(record.id, record.state)
        try:
            with self._alone(record):
                self.journal.request_stop(record.id, Stop.PAUSE)
                if self.journal.get(record.id).state is not State.PAUSED:
                    self.journal.move(record.id, State.PAUSED, self._clock())
        except LeaseHeld:
            self.journal.request_stop(record.id, Stop.PAUSE)
        return self.journal.get(record.id)

    def cancel(self, id: str) -> Record:
        """Cancel an operation: at once if it is not running, otherwise at its next check."""
        record = self.journal.get(id)
        try:
            with self._alone(record):
                return self.journal.move(record.id, State.CANCELLED, self._clock())
        except LeaseHeld:
            self.journal.request_stop(record.id, Stop.CANCEL)
            return self.journal.get(record.id)

    def unfinished(self) -> tuple[list[Record], list[Record]]:
        """Started operations that have not ended nor been paused on request: those not running, and those held."""
        begun, keys = self._begun()
        held = [record for record in begun if _key(record.id) in keys]
        free = [record for record in begun if _key(record.id) not in keys]
        return [record for record in free if record.stop_requested is not Stop.PAUSE], held

    def paused(self) -> list[Record]:
        """Operations that were paused on request: each continues when it is resumed by its id."""
        begun, keys = self._begun()
        return [r for r in begun if r.stop_requested is Stop.PAUSE and _key(r.id) not in keys]

    def _begun(self) -> tuple[list[Record], set[str]]:
        """Started and unfinished operations, and the keys of all leases."""
        keys = {lease.key for lease in self._leases.held()}
        return self.journal.list(states=sorted(UNFINISHED), limit=1000), keys

    def await_dead_holders(self, wait: timedelta | None = None, only: str | None = None) -> None:
        """Wait until each held operation, or one, is free or turns out to be alive because its lease was renewed.

        A dead holder's lease expires; by default the wait is as long as that takes.
        """
        deadline = self._clock() + (self.lease_timeout * 1.2 if wait is None else wait)
        first_seen: dict[str, datetime] = {}
        keys = {_key(record.id) for record in self.unfinished()[1] if only in (None, record.id)}
        if keys and deadline > self._clock():
            log.info("%d operations held: waiting for their leases to expire or to be renewed", len(keys))
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
        self._check_barred(operation)
        memory = Memory()
        means = RunContext(self.journal, partial(self._open_writer, memory), self._clock, self._sleep, self.actor)
        with (
            listening(signal.SIGINT),
            keeper.hold(_key(record.id), f"operation {record.id}", patience(wait, means)) as fence,
            deferred() as lifted,
        ):
            reach("operation.leased")
            taken_up = record.started_at is not None
            begun, lake = begin(record), self._open_reader(memory)
            run = Run(begun, operation, lake, keeper, fence, wait, self._clock(), self.watch, taken_up)
            try:
                with lifted():
                    run.emit("started")
                    return self._sequence(run, means)
            except KeyboardInterrupt:
                self._leave(run, means)
                return self._stopped(run)

    def _check_barred(self, operation: Operation) -> None:
        """Refuse a no-op, whichever way its plan came here."""
        why = operation.barred(self._open_reader(Memory()))
        if why:
            raise Barred(f"{operation.kind()} is not applied: {why}", "A no-op only shows its plan.")

    def _add_running(self, record: Record) -> Record:
        running = replace(record, state=State.RUNNING, started_at=self._clock(), applied_by=self.actor)
        self.journal.add(running)
        return replace(running, plan=running.plan.without_files())

    def _move_running(self, record: Record, **facts: Any) -> Record:
        return self.journal.move(record.id, State.RUNNING, self._clock(), applied_by=self.actor, **facts)

    @contextmanager
    def _alone(self, record: Record) -> Iterator[None]:
        """Ensure that no process runs an operation; raises LeaseHeld if one does."""
        keeper = Keeper(self._leases, record.id, self._holder, self.lease_timeout)
        with keeper.hold(_key(record.id), f"operation {record.id}", _refuse):
            yield

    def _stopped(self, run: Run) -> Report:
        """After an interrupt or a request to stop: no action is left halfway, and everything may be done already."""
        run.fence()
        record = self.journal.get(run.record.id)
        if record.state is State.DONE:
            return Report.of(record)
        is_over = run.halted is Stop.CANCEL
        if record.state in UNFINISHED:
            state = State.CANCELLED if is_over else State.PAUSED
            self.journal.move(record.id, state, self._clock(), result=run.result())
        what = {Stop.CANCEL: "was cancelled", Stop.PAUSE: "was paused"}.get(run.halted or Stop.INTERRUPT, "stopped")
        raise Interrupted(
            f"operation {record.id} {what} after {len(run.outcomes)} of {len(run.plan.actions)} actions",
            hint="What was applied stays applied. Plan again to do the rest."
            if is_over
            else f"Continue with: lakewarden operation resume {record.id}",
        ) from None

    def _sequence(self, run: Run, means: RunContext) -> Report:
        reach("operation.running")
        at_once = min(run.operation.side_by_side(), len(run.subjects))
        parts = [SubjectRun(run, subject, means, number < at_once) for number, subject in enumerate(run.subjects)]
        if at_once > 1:
            self._side_by_side(run, parts, at_once)
        else:
            for part in parts:
                self._one(run, part)
        lake = self._at_the_end(run, means)
        failures = {*run.failures, *(finding.subject for finding in run.plan.refused)}
        try:
            report = self._finish(run)
        except LakewardenError:
            with suppress(LakewardenError):  # the first error is reported
                run.operation.ended(run.plan, failures, lake)
            raise
        run.operation.ended(run.plan, failures, lake)
        return report

    def _leave(self, run: Run, means: RunContext) -> None:
        """Let the operation discard what it has not published; whatever happens, its state is recorded."""
        try:
            run.operation.stopped(run.plan, self._at_the_end(run, means))
        except Exception:
            log.warning("operation %s could not discard everything", run.record.id, exc_info=True)

    def _at_the_end(self, run: Run, means: RunContext) -> Writer:
        """What an operation writes with when a run ends."""
        return means.open_writer(Stamp(run.record.id, "", self.actor), run.fence, lambda *_: None)

    def _side_by_side(self, run: Run, parts: list[SubjectRun], at_once: int) -> None:
        """Several subjects in parallel. What ends the run is raised once every thread is between two actions."""
        with ThreadPoolExecutor(at_once, thread_name_prefix=run.record.id) as threads:
            begun = [threads.submit(self._one, run, part) for part in parts]
            try:
                for ended in as_completed(begun):
                    ended.result()
            except BaseException as error:
                if not isinstance(error, Halted):
                    run.halt(Stop.INTERRUPT)
                threads.shutdown(cancel_futures=True)
                raise

    def _one(self, run: Run, part: SubjectRun) -> None:
        """One subject; a failure does not stop the others."""
        try:
            part.finish()
        except LakewardenError as error:
            run.check_halt()
            if isinstance(error, LeaseHeld) and run.leaves_held:
                part.skip(error)
            else:
                part.fail(error)
        except Exception as error:
            run.check_halt()
            log.exception("operation %s failed unexpectedly on %s", run.record.id, part.name)
            part.fail(defect(run, part.name, error))

    def _finish(self, run: Run) -> Report:
        id, now, result = run.record.id, self._clock(), run.result()
        reach("operation.finishing")
        run.fence()
        error = run.failure()
        if error is not None:
            findings = tuple(run.findings)
            self.journal.move(id, State.FAILED, now, findings=findings, result=result, error=error.document())
            run.emit("failed", says=error.message)
            raise error
        if run.stop is Stop.PAUSE and run.left():
            paused = self.journal.move(id, State.PAUSED, now, result=result, stop_requested=Stop.PAUSE)
            run.emit("finished")
            return Report.of(paused)
        if self.journal.get(id).state is State.RUNNING:  # an earlier run had verified the rest
            self.journal.move(id, State.VERIFYING, now)
        done = self.journal.move(id, State.DONE, now, result=result)
        reach("operation.done")
        run.emit("finished")
        return Report.of(done)


def _key(operation: str) -> str:
    return f"operation:{operation}"


def _refuse(held: LeaseHeld) -> None:
    raise held
