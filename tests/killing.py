"""Processes to kill, a hundred of them, without a second of imports for each, nor seconds of waiting for its leases.

One process imports all of Lakewarden once and touches no lake; each command runs in a child that it forks, which is as
much a process as any: it opens its own connections, starts its own threads and Spark, and dies alone.
"""

from __future__ import annotations

import atexit
import json
import os
import pkgutil
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from sqlalchemy import update

from lakewarden.state.tables import leases
from tests.small_lake import SmallLake

_LONGEST = 120.0
_parents: list[subprocess.Popen[str]] = []


def run(lake: SmallLake, *arguments: str, failpoints: str = "", code: int = 0, first: str = "") -> str:
    """Run a command of a lake in a child of the warm process; answers with what it said on stdout.

    `code` is what it must exit with; `first` is Python that the child runs before, or instead if it ends the process.
    """
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder) / "out", Path(folder) / "err"
        asked = {
            "arguments": ["--config", str(lake.folder), *arguments],
            "environment": lake.environment(failpoints),
            "first": first,
            "out": str(out),
            "err": str(err),
        }
        parent = _parent()
        assert parent.stdin is not None and parent.stdout is not None
        parent.stdin.write(json.dumps(asked) + "\n")
        parent.stdin.flush()
        assert select.select([parent.stdout], [], [], _LONGEST)[0], f"{arguments}: still running"
        exited, said = int(parent.stdout.readline()), out.read_text()
        assert exited == code, f"{arguments}: {exited}\n{said}\n{err.read_text()}"
        return said


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


def _parent() -> subprocess.Popen[str]:
    """The warm process, started when it is first needed; it ends with this one."""
    if not _parents:
        command = [sys.executable, "-m", "tests.killing"]
        environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}  # a thread would not come along into a child
        _parents.append(
            subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        )
        atexit.register(_end)
    return _parents[0]


def _end() -> None:
    parent = _parents.pop()
    assert parent.stdin is not None
    parent.stdin.close()
    parent.wait(timeout=10)


def serve() -> None:
    """Import everything, then fork a child for every line of stdin, and tell its exit code."""
    import lakewarden

    for module in pkgutil.walk_packages(lakewarden.__path__, "lakewarden."):
        if "__main__" not in module.name and ".migrations" not in module.name:
            with suppress(ImportError):  # it fails again in the child that needs it
                import_module(module.name)
    for name in ("pyarrow.parquet", "pyarrow.dataset", "pyarrow.fs", "pyiceberg.catalog.sql", "pyiceberg.io.pyarrow"):
        import_module(name)
    for name in ("pyiceberg.table", "pyiceberg.avro.file", "sqlalchemy.dialects.sqlite", "psycopg", "alembic.command"):
        import_module(name)
    threads = [(thread / "comm").read_text().strip() for thread in Path("/proc/self/task").iterdir()]
    assert len(set(threads) - {"jemalloc_bg_thd"}) == 1, threads  # Arrow's allocator minds its own forks
    while line := sys.stdin.readline():
        pid = os.fork()
        if pid == 0:
            _become(json.loads(line))
        _, status = os.waitpid(pid, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


def _become(asked: dict[str, Any]) -> NoReturn:
    """Be the process of a command, to the end."""
    from lakewarden.doors.cli.main import main

    os.environ.clear()
    os.environ.update(asked["environment"])
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    for number, path in ((1, asked["out"]), (2, asked["err"])):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), number)
    exec(asked["first"], {})
    try:
        main(asked["arguments"])
    except SystemExit as end:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(int(end.code or 0))  # taking apart all that was imported takes longer than the command
    raise AssertionError("main ends the process")


if __name__ == "__main__":
    serve()
