"""Leases: the right of one operation to change one subject, which expires if its holder stops renewing it.

Every change of holder increments the lease's epoch, and a holder checks its epoch again right before it publishes
(`fence`). Leases protect Lakewarden from itself; the commit protocol protects against other writers. `state/`
implements them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from lakewarden.errors import LakewardenError, LeaseHeld, LeaseLost
from lakewarden.lifecycle.interrupts import deferred
from lakewarden.lifecycle.processes import shown


@dataclass(frozen=True)
class Lease:
    """Who may change what, with which epoch, until when."""

    key: str
    label: str
    operation: str
    holder: str
    epoch: int
    expires_at: datetime


class Leases(Protocol):
    def acquire(self, key: str, label: str, operation: str, holder: str, timeout: timedelta) -> Lease:
        """Acquire a lease that is free, has expired, or is of a process of this machine that has ended.

        Raises LeaseHeld, which names the other operation.
        """
        ...

    def renew(self, lease: Lease, timeout: timedelta) -> Lease:
        """Extend a lease; raises LeaseLost if it was taken over."""
        ...

    def check(self, lease: Lease) -> None:
        """Raise LeaseLost unless this epoch is current and has not expired."""
        ...

    def release(self, lease: Lease) -> None:
        """Release a lease; does nothing if it was taken over."""
        ...

    def held(self) -> list[Lease]:
        """The leases that have not expired, without those of processes of this machine that have ended."""
        ...


def refuse(lease: Lease) -> LeaseHeld:
    return LeaseHeld(
        f"{lease.label} is held by operation {lease.operation} ({shown(lease.holder)}) "
        f"until {lease.expires_at:%H:%M:%S} UTC",
        hint=f"Wait for it (--wait 5m), or see: lakewarden operation show {lease.operation}",
        held_by=lease.operation,
    )


def lost(lease: Lease) -> LeaseLost:
    return LeaseLost(
        f"operation {lease.operation} no longer holds {lease.label} (epoch {lease.epoch}); it published nothing more",
        hint=f"lakewarden operation show {lease.operation} shows which process continued it.",
    )


class Keeper:
    """Renews the leases of a running operation in the background, until they are released or lost."""

    def __init__(self, leases: Leases, operation: str, holder: str, timeout: timedelta) -> None:
        self._leases, self._operation, self._holder, self._timeout = leases, operation, holder, timeout

    @contextmanager
    def hold(self, key: str, label: str, retry: Callable[[LeaseHeld], None]) -> Iterator[Callable[[], None]]:
        """Hold a lease while the body runs; yields the fence to check before publishing."""
        stop = threading.Event()
        with deferred() as lifted:  # else an interrupt could leave an unreleased lease
            lease = self._acquire(key, label, retry, lifted)
            renewer = threading.Thread(target=self._renew, args=(lease, stop), name=f"lease {key}", daemon=True)
            renewer.start()
            try:
                with lifted():
                    yield lambda: self._leases.check(lease)
            finally:
                stop.set()
                renewer.join()
                with suppress(LakewardenError):  # it expires anyway; the body's result counts
                    self._leases.release(lease)

    def _acquire(
        self,
        key: str,
        label: str,
        retry: Callable[[LeaseHeld], None],
        lifted: Callable[[], AbstractContextManager[None]],
    ) -> Lease:
        while True:
            try:
                return self._leases.acquire(key, label, self._operation, self._holder, self._timeout)
            except LeaseHeld as held:
                with lifted():
                    retry(held)  # raises once the wait is over

    def _renew(self, lease: Lease, stop: threading.Event) -> None:
        while not stop.wait(self._timeout.total_seconds() / 3):
            try:
                self._leases.renew(lease, self._timeout)
            except LeaseLost:
                return  # the fence raises in the runner
            except LakewardenError:
                continue  # a temporary failure: retry before the lease expires
