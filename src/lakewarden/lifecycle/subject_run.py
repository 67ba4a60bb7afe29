"""One subject of a run: lease → check and apply each action → verify. The runner decides which subjects, and when.

Whether an action is done is checked in the lake before it is applied. A process that lost a lease publishes nothing:
writers check the fence right before they commit, and this module checks it before it writes to the journal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from datetime import timedelta

from lakewarden.errors import LakewardenError, LeaseHeld, StalePlan, VerificationFailed
from lakewarden.lifecycle.action import Action, Finding, Outcome
from lakewarden.lifecycle.basics import ActionProgress, Clock, Fence, Stamp
from lakewarden.lifecycle.failpoints import reach
from lakewarden.lifecycle.ground import Writer
from lakewarden.lifecycle.journal import WAITS_FOR, Journal, Progress
from lakewarden.lifecycle.plan import Plan
from lakewarden.lifecycle.planned_files import FileList
from lakewarden.lifecycle.run import Run
from lakewarden.lifecycle.states import State


@dataclass(frozen=True)
class RunContext:
    """What a run works with."""

    journal: Journal
    open_writer: Callable[[Stamp, Fence, ActionProgress], Writer]
    clock: Clock
    sleep: Callable[[float], None]
    actor: str


class SubjectRun:
    """Completes one subject, unless the run is stopped."""

    def __init__(self, run: Run, subject: str, means: RunContext, ignores_limit: bool) -> None:
        self._run = run
        self.name = subject
        self._means = means
        self._ignores_limit = ignores_limit  # a killed run's current subject is completed
        self._applying = True

    def finish(self) -> None:
        """Apply and verify what is left on the subject. Raises what went wrong."""
        run, part = self._run, self._unfinished()
        if all(self._is_left(action) for action in part.actions):
            run.all_applied(self.name)
            return
        with ExitStack() as held:
            keys = dict.fromkeys(action.lease for action in part.actions)
            patient = patience(run.wait, self._means, run)
            fences = [run.fence, *(held.enter_context(run.keeper.hold(key, self.name, patient)) for key in keys)]

            def fence() -> None:
                for look in fences:
                    look()

            reach("subject.leased")
            part = part.with_files(self._files)
            try:
                for action in part.actions:
                    self._apply(action, fence)
            except LakewardenError:
                run.check_halt()
                with suppress(Exception):  # the first error is reported
                    self._look_at(self._applied(part))
                raise
            self._applying = False
            run.fence()
            if run.all_applied(self.name):
                self._means.journal.move(run.record.id, State.VERIFYING, self._means.clock())
            reach("subject.verifying")
            run.check_halt()
            self._verify(self._applied(part))
            reach("subject.verified")
        reach("subject.released")

    def _files(self, action: str) -> FileList:
        """The stored files of an action, which has another id if a value in it was erased meanwhile."""
        journal, id = self._means.journal, self._run.record.id
        files = journal.files(id, action)
        if not files.count and all(step.action != action for step in journal.get(id).steps):
            raise StalePlan(
                "the plan is stale: a value that it names was erased since",
                hint="Nothing more was changed. Plan again.",
            )
        return files

    def fail(self, error: LakewardenError) -> None:
        """Record the error of this subject, at the action where it stopped."""
        run = self._run
        run.fence()  # if the operation was taken over, leave its journal alone
        run.fail(self.name, error)
        run.emit("failed", self.name, error.message)
        progress = Progress.STALE if isinstance(error, StalePlan) else Progress.FAILED
        undone = [action for action in run.plan.for_subject(self.name).actions if action.id not in run.outcomes]
        if self._applying and undone:
            stopped_at = replace(run.step(undone[0]), progress=progress, error=error.document(), at=self._means.clock())
            self._means.journal.step(run.record.id, stopped_at)

    def skip(self, held: LeaseHeld) -> None:
        """Skip the subject, and record which operation holds it."""
        run = self._run
        run.fence()
        run.skip(self.name)
        first = run.step(run.plan.for_subject(self.name).actions[0])
        self._means.journal.step(run.record.id, replace(first, error=held.document(), at=self._means.clock()))
        run.emit("skipped", self.name, held.message)

    def _unfinished(self) -> Plan:
        """The part of the plan for this subject that no earlier run completed."""
        part = self._run.plan.for_subject(self.name)
        ended = {action.id for action in part.actions if self._run.step(action).progress is Progress.VERIFIED}
        return replace(part, actions=tuple(action for action in part.actions if action.id not in ended))

    def _is_left(self, action: Action) -> bool:
        """Whether an action is left because of the operation's limit: never one that was applied before."""
        if self._ignores_limit or self._run.step(action).progress is Progress.DONE:
            return False
        return self._run.has_reached_limit(self._means.clock())

    def _applied(self, part: Plan) -> Plan:
        return replace(part, actions=tuple(action for action in part.actions if action.id in self._run.outcomes))

    def _apply(self, action: Action, fence: Fence) -> None:
        """Apply one action, unless it is left."""
        run, means = self._run, self._means
        run.check_stop(means.journal.stop_requested)
        if self._is_left(action):
            return
        step = run.step(action)
        run.emit("applying", action.subject, action.says)
        with run.lake.tables.at_one_moment():
            self._check(action, only_which=True)  # a recreated table is not ours to change
            is_done = run.operation.holds(action, run.lake)
            if not is_done:
                _refuse_redacted(action)
                self._check(action)
        if is_done and step.progress is Progress.DONE:
            outcome = Outcome(step.facts)
        elif is_done:
            outcome = run.operation.done_already(action, self._writer(action, fence))
        else:
            reach("action.checked")
            fence()
            run.begin()
            self._ignores_limit = False
            outcome = run.operation.apply(action, self._writer(action, fence))
        reach("action.applied")
        if run.is_resumed:  # only now: before, a commit sent by a lost run may still land
            run.operation.tidy(action, self._writer(action, fence))
        run.fence()
        done = replace(step, progress=Progress.DONE, facts=dict(outcome.facts), error=None, at=means.clock())
        means.journal.step(run.record.id, done)
        run.outcomes[action.id] = outcome
        reach("action.journaled")
        run.emit("applied", action.subject, action.says)

    def _writer(self, action: Action, fence: Fence) -> Writer:
        stamp = Stamp(self._run.record.id, action.id, self._means.actor)
        return self._means.open_writer(stamp, fence, self._progress_callback(action))

    def _check(self, action: Action, only_which: bool = False) -> None:
        """Refuse as stale unless the action's requirements hold; with `only_which`, those that identify the subject."""
        needs = [need for need in action.requires if need.identifies or not only_which]
        moved = [broken for need in needs if (broken := need.broken(self._run.lake, action.files))]
        if moved:
            raise StalePlan(
                f"the plan is stale: {'; '.join(moved)}",
                hint="Nothing more was changed. Plan again, and check what moved.",
            )

    def _verify(self, part: Plan) -> None:
        findings = self._look_at(part)
        if findings:
            more = f" (and {len(findings) - 1} more)" if findings[1:] else ""
            raise VerificationFailed(
                f"{self.name}: {findings[0].message}{more}",
                hint=f"lakewarden operation show {self._run.record.id} lists all findings.",
            )

    def _look_at(self, part: Plan) -> Sequence[Finding]:
        """Verify the applied actions, and record it; returns the findings."""
        run = self._run
        if not part.actions:
            return ()
        run.emit("verifying", self.name)
        findings = run.operation.verify(part, run.lake)
        run.findings += findings
        if not findings:
            run.fence()
            self._means.journal.verified(run.record.id, [run.step(each) for each in part.actions], self._means.clock())
        return findings

    def _progress_callback(self, action: Action) -> ActionProgress:
        """The callback with which an action reports progress; raises if the run is to stop."""
        waited_for = ""

        def tell(done: int, total: int, says: str, waits: bool = False) -> None:
            nonlocal waited_for
            self._run.check_stop_now_and_then(self._means.journal.stop_requested, self._means.clock())
            part = min(max(done / total, 0.0), 1.0) if total > 0 else 0.0
            self._run.emit("waiting" if waits else "working", action.subject, says or action.says, part)
            waits_for = says if waits else ""
            if waits_for != waited_for:
                waited_for = waits_for
                self._note_waiting(action, waits_for)

        return tell

    def _note_waiting(self, action: Action, why: str) -> None:
        self._run.fence()
        with suppress(LakewardenError):  # an unavailable journal does not stop an action
            facts = {WAITS_FOR: why} if why else {}
            self._means.journal.step(self._run.record.id, replace(self._run.step(action), facts=facts))


def _refuse_redacted(action: Action) -> None:
    if action.is_redacted:
        raise StalePlan(
            f"the plan is stale: a value that it names was erased since, so it cannot {action.says}",
            hint="Nothing more was changed. Plan again.",
        )


def patience(wait: timedelta, means: RunContext, run: Run | None = None) -> Callable[[LeaseHeld], None]:
    """A callback for held leases: retries until the wait time is over."""
    deadline = means.clock() + wait

    def retry(held: LeaseHeld) -> None:
        if means.clock() >= deadline:
            raise held
        if run:
            run.emit("waiting", says=held.message)
            run.check_stop(means.journal.stop_requested)
        means.sleep(0.2)

    return retry
