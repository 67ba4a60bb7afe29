"""Commands in processes of their own, hundreds of them, without a second of imports for each.

One process imports all of Lakewarden once and touches no lake. Each command runs in a child that it forks, which is as
much a process as any: it opens its own connections, starts its own threads and Spark, and dies alone.
"""

from __future__ import annotations

import atexit
import json
import os
import pkgutil
import select
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import Any, NoReturn

_LONGEST = 300.0
_parents: list[subprocess.Popen[str]] = []
_one_at_a_time = Lock()


def run(
    arguments: Sequence[str], environment: Mapping[str, str], first: str = "", said: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run a command line in a child of the warm process, to its end.

    `first` is Python that the child runs before, or instead if it ends the process; `said` is its stdin.
    """
    with _one_at_a_time, tempfile.TemporaryDirectory() as folder:
        out, err, given = Path(folder) / "out", Path(folder) / "err", Path(folder) / "in"
        given.write_bytes(said.encode())
        asked = {
            "arguments": list(arguments),
            "environment": dict(environment),
            "first": first,
            "in": str(given),
            "out": str(out),
            "err": str(err),
        }
        parent = _parent()
        assert parent.stdin is not None and parent.stdout is not None
        parent.stdin.write(json.dumps(asked) + "\n")
        parent.stdin.flush()
        assert select.select([parent.stdout], [], [], _LONGEST)[0], f"{arguments}: still running"
        code = int(parent.stdout.readline())
        return subprocess.CompletedProcess(list(arguments), code, out.read_text(), err.read_text())


def _parent() -> subprocess.Popen[str]:
    """The warm process, started when it is first needed; it ends with this one."""
    if not _parents:
        command = [sys.executable, "-m", __name__]
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
    """Import everything, then fork a child for every line of stdin, and print its exit code."""
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
    os.dup2(os.open(asked["in"], os.O_RDONLY), 0)
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
