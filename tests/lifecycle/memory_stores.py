"""A journal and leases in memory: quick, and held to the same tests as those in the control database."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from threading import RLock
from typing import Any

from lakewarden.errors import AlreadyExists
from lakewarden.lifecycle.basics import Clock
from lakewarden.lifecycle.journal import Progress, Record, Step, advanced, not_found
from lakewarden.lifecycle.leases import Lease, lost, refuse
from lakewarden.lifecycle.planned_files import FileList
from lakewarden.lifecycle.processes import has_ended
from lakewarden.lifecycle.states import State, Stop


class MemoryJournal:
    """A journal that lasts as long as its process."""

    def __init__(self) -> None:
        self._records: dict[str, Record] = {}
        self._files: dict[tuple[str, str], FileList] = {}
        self._lock = RLock()

    def add(self, record: Record) -> None:
        with self._lock:
            if record.id in self._records:
                raise AlreadyExists(f"there is an operation {record.id} already")
            self._records[record.id] = replace(record, plan=record.plan.without_files())
            self._files |= {(record.id, action.id): action.files for action in record.plan.actions}

    def get(self, id: str) -> Record:
        with self._lock:
            if id in self._records:
                return self._records[id]
            of_plan = [record for record in self._newest_first() if record.plan.id == id]
            if not of_plan:
                raise not_found(id)
            return of_plan[0]

    def list(
        self, *, states: Sequence[State] = (), kind: str = "", subjects: Collection[str] = (), limit: int = 50
    ) -> list[Record]:
        with self._lock:
            return [
                record
                for record in self._newest_first()
                if (not states or record.state in states)
                and (not kind or record.kind == kind)
                and (not subjects or any(step.subject in subjects for step in record.steps))
            ][:limit]

    def failed_requiring(self, requirement: str) -> Sequence[Record]:
        begun = [r for r in self.list(limit=10**9) if r.state is not State.PLANNED]
        newest = {(r.kind, r.target, step.subject): r.id for r in reversed(begun) for step in r.steps}
        return [
            r
            for r in begun
            if r.state is State.FAILED
            and any(need.kind == requirement for action in r.plan.actions for need in action.requires)
            and all(newest[r.kind, r.target, step.subject] == r.id for step in r.steps)
        ]

    def last_begun(self, kinds: Sequence[str], argument: str, value: str) -> Record | None:
        begun = [r for r in self.list(limit=10**9) if r.state is not State.PLANNED and r.kind in kinds]
        return next((r for r in begun if any(a.arguments.get(argument) == value for a in r.plan.actions)), None)

    def planned(self, plan_id: str) -> Record | None:
        found = [r for r in self.list(states=[State.PLANNED], limit=10**9) if r.plan.id == plan_id]
        return found[0] if found else None

    def move(self, id: str, state: State, at: datetime, **facts: Any) -> Record:
        with self._lock:
            self._records[id] = advanced(self._own(id), state, at, facts)
            return self._records[id]

    def step(self, id: str, step: Step) -> None:
        with self._lock:
            record = self._own(id)
            steps = tuple(
                replace(step, action=old.action, subject=old.subject, says=old.says)
                if old.position == step.position
                else old
                for old in record.steps
            )
            self._records[id] = replace(record, steps=steps)

    def verified(self, id: str, steps: Collection[Step], at: datetime) -> None:
        with self._lock:
            record = self._own(id)
            positions = {step.position for step in steps}
            changed = tuple(
                replace(step, progress=Progress.VERIFIED, at=at)
                if step.position in positions and step.progress is Progress.DONE
                else step
                for step in record.steps
            )
            self._records[id] = replace(record, steps=changed)

    def request_stop(self, id: str, stop: Stop) -> None:
        with self._lock:
            if self._own(id).stop_requested is not Stop.CANCEL:
                self._records[id] = replace(self._own(id), stop_requested=stop)

    def stop_requested(self, id: str) -> Stop | None:
        return self._own(id).stop_requested

    def held_by(self, id: str) -> str | None:
        return None

    def files(self, id: str, action: str) -> FileList:
        with self._lock:
            return self._files.get((self._own(id).id, action), FileList())

    def last_done(self, kinds: Sequence[str]) -> dict[str, datetime]:
        with self._lock:
            ended = [
                (step.at, step.subject)
                for record in self._records.values()
                if record.kind in kinds
                for step in record.steps
                if step.progress is Progress.VERIFIED and step.at is not None
            ]
        return {subject: at for at, subject in sorted(ended)}

    def _own(self, id: str) -> Record:
        with self._lock:
            if id not in self._records:
                raise not_found(id)
            return self._records[id]

    def _newest_first(self) -> Sequence[Record]:
        in_order = sorted(self._records.values(), key=lambda record: record.created_at)
        return in_order[::-1]  # of two made in one moment, the later one first


class MemoryLeases:
    """Leases within one process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._leases: dict[str, Lease] = {}
        self._lock = RLock()

    def acquire(self, key: str, label: str, operation: str, holder: str, timeout: timedelta) -> Lease:
        with self._lock:
            now, current = self._clock(), self._leases.get(key)
            if current and current.expires_at > now and not has_ended(current.holder):
                raise refuse(current)
            epoch = current.epoch + 1 if current else 1
            self._leases[key] = Lease(key, label, operation, holder, epoch, now + timeout)
            return self._leases[key]

    def renew(self, lease: Lease, timeout: timedelta) -> Lease:
        with self._lock:
            self.check(lease)
            self._leases[lease.key] = replace(lease, expires_at=self._clock() + timeout)
            return self._leases[lease.key]

    def check(self, lease: Lease) -> None:
        with self._lock:
            current = self._leases.get(lease.key)
            if current is None or current.epoch != lease.epoch or current.expires_at <= self._clock():
                raise lost(lease)

    def release(self, lease: Lease) -> None:
        with self._lock:
            current = self._leases.get(lease.key)
            if current and current.epoch == lease.epoch:
                self._leases[lease.key] = replace(current, expires_at=self._clock())

    def held(self) -> list[Lease]:
        with self._lock:
            valid = (lease for lease in self._leases.values() if lease.expires_at > self._clock())
            return [lease for lease in valid if not has_ended(lease.holder)]
