"""Commands as if they were typed, in this process."""

from __future__ import annotations

import io
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass

from lakewarden.doors.cli.main import run
from tests.small_lake import SmallLake


@dataclass(frozen=True)
class Typed:
    """What came of a command."""

    exit_code: int
    stdout: str
    output: str


def typed(lake: SmallLake, *arguments: str) -> Typed:
    """Run a command on a lake."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    with redirect_stdout(out), redirect_stderr(err):
        code = run(["--config", str(lake.folder), *arguments])
    shown, said = (stream.buffer.getvalue().decode() for stream in (out, err))
    return Typed(code, shown, shown + said)
