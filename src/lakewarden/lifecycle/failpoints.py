r"""Named points in a run at which a test can intervene.

Armed by `LAKEWARDEN_FAILPOINTS`, which only tests set:

    trace:FILE        write the name of every point that is passed
    kill@7            kill the process with SIGKILL at the seventh point
    kill@commit.ready kill it at the first point of that name
    wait@NAME:FILE    at the first point of that name, create FILE and wait until it is removed
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

_armed: list[Callable[[str, int], None]] = []
_passed = 0


def reach(point: str) -> None:
    """Pass a point; costs nothing unless a failpoint is armed."""
    global _passed
    if _armed:
        _passed += 1
        for failpoint in _armed:
            failpoint(point, _passed)


def arm(specification: str) -> None:
    """Arm failpoints, as in `trace:/tmp/points,kill@7`; an empty specification disarms all."""
    global _passed
    _passed = 0
    _armed[:] = [_parse(part) for part in specification.split(",") if part]


def when(point: str, act: Callable[[], object], times: int = 1) -> list[str]:
    """Call a function the first `times` times that a point is passed; returns a list with an entry per pass."""
    passed: list[str] = []

    def meanwhile(name: str, number: int) -> None:
        if name == point:
            passed.append(name)
            if len(passed) <= times:
                act()

    _armed.append(meanwhile)
    return passed


def _parse(part: str) -> Callable[[str, int], None]:
    if part.startswith("trace:"):
        return _trace(Path(part.removeprefix("trace:")))
    action, _, where = part.partition("@")
    if action == "kill" and where:
        return _kill(where)
    if action == "wait" and ":" in where:
        point, _, path = where.partition(":")
        return _wait(point, Path(path))
    raise ValueError(f"not a failpoint: {part}")


def _trace(path: Path) -> Callable[[str, int], None]:
    def trace(point: str, number: int) -> None:
        with path.open("a") as out:
            out.write(f"{point}\n")

    return trace


def _kill(where: str) -> Callable[[str, int], None]:
    def kill(point: str, number: int) -> None:
        if where in (point, str(number)):
            os.kill(os.getpid(), signal.SIGKILL)

    return kill


def _wait(where: str, path: Path) -> Callable[[str, int], None]:
    waited: set[str] = set()

    def wait(point: str, number: int) -> None:
        if point == where and point not in waited:
            waited.add(point)
            path.touch()
            while path.exists():
                time.sleep(0.02)

    return wait
