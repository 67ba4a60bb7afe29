"""Commands that are killed, without seconds of waiting for the leases of the dead."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from subprocess import Popen

from sqlalchemy import update

from lakewarden.state.tables import leases
from tests import warm_process
from tests.small_lake import SmallLake


def run(lake: SmallLake, *arguments: str, failpoints: str = "", code: int = 0, first: str = "") -> str:
    """Run a command of a lake in a separate process; answers with what it printed on stdout.

    `code` is what it must exit with; `first` is Python that the process runs before, or instead if it ends the process.
    """
    command = ["--config", str(lake.folder), *arguments]
    done = warm_process.run(command, lake.environment(failpoints), first)
    assert done.returncode == code, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def kill(lake: SmallLake, number: int | str, point: str, *arguments: str, first: str = "") -> None:
    """Run a command of a lake and have it killed at a point; it must have come there."""
    try:
        run(lake, *arguments, failpoints=f"kill@{number}", code=-signal.SIGKILL, first=first)
    except AssertionError as lived:
        raise AssertionError(f"not killed at {point}") from lived


def chosen(points: list[str]) -> Iterator[tuple[int, str]]:
    """Every point; of one that is passed very often, as for each file, the first, one in the midst, and the last."""
    for number, point in enumerate(points, start=1):
        same = [place for place, other in enumerate(points, start=1) if other == point]
        if len(same) <= 3 or number in (same[0], same[len(same) // 2], same[-1]):
            yield number, point


def bury(lake: SmallLake) -> None:
    """Let the leases that dead processes hold run out now; nobody alive may hold any."""
    database = lake.warden.ground.database
    with database.begin() as connection:
        now = database.now(connection)
        connection.execute(update(leases).where(leases.c.expires_at > now).values(expires_at=now))


def at_a_moment(lake: SmallLake, trace: Path, chance: Random, points: int, *arguments: str) -> bool:
    """Kill a command soon after it passed some of so many points; answers whether its operation was still running."""
    trace.unlink(missing_ok=True)
    process = lake.start(*arguments, failpoints=f"trace:{trace}")
    until_passed(process, trace, chance.randint(1, max(1, points - 1)))
    time.sleep(chance.uniform(0, 0.05))
    process.kill()
    process.communicate()
    return process.returncode == -signal.SIGKILL and trace.exists()


def until_passed(process: Popen[str], trace: Path, points: int) -> None:
    """Wait until a process that writes its trace to a file has passed so many points, or is over."""
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        if trace.exists() and len(trace.read_text().split()) >= points:
            return
        time.sleep(0.01)
