"""What all leases do, whether they are kept in memory, in SQLite or in PostgreSQL."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest

from lakewarden.errors import LeaseHeld, LeaseLost
from lakewarden.lifecycle.leases import Keeper, Lease, Leases
from lakewarden.lifecycle.processes import shown
from lakewarden.state.database import Database, host_clock
from lakewarden.state.leases import SqlLeases
from tests.lifecycle.memory_stores import MemoryLeases
from tests.services.postgres import Postgres

MINUTE = timedelta(minutes=1)
PAST = timedelta(seconds=-1)  # a lease that has expired already when it is given


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def leases(request: pytest.FixtureRequest, rows: Callable[[str], Database]) -> Leases:
    return MemoryLeases(host_clock) if request.param == "memory" else SqlLeases(rows(request.param))


def take(leases: Leases, operation: str = "one", timeout: timedelta = MINUTE, key: str = "table:a") -> Lease:
    return leases.acquire(key, "table sales.orders", operation, f"host of {operation}", timeout)


def test_a_free_lease_is_given(leases: Leases) -> None:
    before = datetime.now(UTC)
    lease = take(leases)
    assert (lease.key, lease.label, lease.operation) == ("table:a", "table sales.orders", "one")
    assert (lease.holder, lease.epoch) == ("host of one", 1)
    assert timedelta() <= lease.expires_at - before - MINUTE < timedelta(seconds=5)
    assert lease.expires_at.utcoffset() == timedelta()
    assert leases.held() == [lease]
    leases.check(lease)


def test_a_held_lease_is_refused_and_the_holder_is_named(leases: Leases) -> None:
    lease = take(leases)
    for operation in ("two", "one"):  # not even its own operation gets it twice
        with pytest.raises(LeaseHeld, match="table sales.orders is held by operation one") as refused:
            take(leases, operation)
        assert refused.value.details["held_by"] == "one"
        assert f"{lease.expires_at:%H:%M:%S}" in refused.value.message
    leases.check(lease)
    assert leases.held() == [lease]


def test_leases_of_different_keys_do_not_meet(leases: Leases) -> None:
    a, b = take(leases, key="table:a"), take(leases, "two", key="table:b")
    assert (a.epoch, b.epoch) == (1, 1)
    assert sorted(leases.held(), key=lambda lease: lease.key) == [a, b]
    leases.release(a)
    leases.check(b)
    assert leases.held() == [b]


def test_an_expired_lease_is_taken_over_with_the_next_epoch(leases: Leases) -> None:
    old = take(leases, timeout=PAST)
    assert leases.held() == []
    with pytest.raises(LeaseLost, match=r"operation one no longer holds table sales.orders \(epoch 1\)"):
        leases.check(old)
    new = take(leases, "two")
    assert (new.epoch, new.operation, new.holder) == (2, "two", "host of two")
    leases.check(new)


def test_a_lease_of_a_killed_process_is_free_at_once(leases: Leases) -> None:
    code = "import time; from lakewarden.lifecycle.processes import this_process as p; print(p(), flush=True); "
    with subprocess.Popen([sys.executable, "-c", f"{code}time.sleep(600)"], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        holder = other.stdout.readline().strip()
        old = leases.acquire("table:a", "table a", "one", holder, MINUTE)
        with pytest.raises(LeaseHeld, match=rf"\({shown(holder)}\) until"):
            take(leases, "two")
        assert leases.held() == [old]
        other.kill()
    assert leases.held() == []
    assert (take(leases, "two").epoch, len(leases.held())) == (2, 1)
    with pytest.raises(LeaseLost):
        leases.check(old)


def test_who_lost_a_lease_can_neither_renew_nor_release_it(leases: Leases) -> None:
    old = take(leases, timeout=PAST)
    new = take(leases, "two")
    with pytest.raises(LeaseLost):
        leases.renew(old, MINUTE)
    leases.release(old)
    leases.check(new)
    assert leases.held() == [new]


def test_an_expired_lease_is_not_renewed_even_if_nobody_took_it(leases: Leases) -> None:
    old = take(leases, timeout=PAST)
    with pytest.raises(LeaseLost):
        leases.renew(old, MINUTE)


def test_renewing_puts_the_end_off_and_keeps_the_epoch(leases: Leases) -> None:
    lease = take(leases)
    renewed = leases.renew(lease, 5 * MINUTE)
    assert renewed.epoch == lease.epoch
    assert renewed.expires_at - lease.expires_at >= 4 * MINUTE
    assert leases.held() == [renewed]
    leases.check(lease)  # what counts is the epoch, not which value is in hand


def test_a_released_lease_is_free_and_its_epoch_goes_on(leases: Leases) -> None:
    epochs = []
    for _ in range(4):
        lease = take(leases)
        epochs.append(lease.epoch)
        leases.release(lease)
        leases.release(lease)  # twice is once
        assert leases.held() == []
        with pytest.raises(LeaseLost):
            leases.check(lease)
    assert epochs == [1, 2, 3, 4]


def test_a_lease_that_never_was_is_lost(leases: Leases) -> None:
    ghost = Lease("table:ghost", "table ghost", "one", "host", 1, datetime.now(UTC) + MINUTE)
    leases.release(ghost)
    for attempt in (lambda: leases.check(ghost), lambda: leases.renew(ghost, MINUTE)):
        with pytest.raises(LeaseLost):
            attempt()


def test_a_keeper_renews_in_the_background(leases: Leases) -> None:
    def no_retry(held: LeaseHeld) -> None:
        raise held

    with Keeper(leases, "one", "host", timedelta(seconds=0.3)).hold("table:a", "table a", no_retry) as fence:
        time.sleep(0.5)
        fence()
        with pytest.raises(LeaseHeld):
            take(leases, "two")
    assert take(leases, "two").epoch == 2


def test_hosts_with_wrong_clocks_agree_through_postgres(postgres: Postgres) -> None:
    url = postgres.new_database()
    right, ahead = Database(url), Database(url, clock=lambda: datetime.now(UTC) + timedelta(days=1))
    with closing(right), closing(ahead):
        lease = take(SqlLeases(right))
        with pytest.raises(LeaseHeld):
            take(SqlLeases(ahead), "two")
        SqlLeases(ahead).check(lease)
