"""Which processes count as ended: only those of this boot and namespace, by number and start time."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from lakewarden.lifecycle import processes
from lakewarden.lifecycle.processes import has_ended, shown, this_process


def test_this_process_lives() -> None:
    assert shown(this_process()).endswith(f":{os.getpid()}")
    assert this_process() != shown(this_process())
    assert not has_ended(this_process())


def test_another_process_with_the_same_number_is_another(monkeypatch: pytest.MonkeyPatch) -> None:
    former = this_process()
    monkeypatch.setattr(processes, "_started", lambda pid: "1")
    assert has_ended(former)


def test_a_process_that_waits_to_be_reaped_has_ended() -> None:
    with subprocess.Popen(["sleep", "600"]) as other:
        holder = this_process().replace(f":{os.getpid()} [", f":{other.pid} [")
        holder = holder.replace(f"[{processes._started(os.getpid())} ", f"[{processes._started(other.pid)} ")
        assert not has_ended(holder)
        other.kill()
        os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)
        assert has_ended(holder)


def test_a_process_that_proc_does_not_show_lives(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Mounted with hidepid, it shows no processes of other users."""
    mine = this_process()
    monkeypatch.setattr(processes, "_PROCESSES", tmp_path)
    assert not has_ended(mine)
    assert has_ended(re.sub(r":\d+ ", f":{2**22 + 1} ", mine))


@pytest.mark.parametrize("holder", ["host:1", "here", "", "host:1 [5 in elsewhere/7]", "host of one"])
def test_what_cannot_be_known_has_not_ended(holder: str) -> None:
    assert not has_ended(holder)
    assert shown(holder) in (holder, "host:1")


def test_without_process_files_leases_expire(monkeypatch: pytest.MonkeyPatch) -> None:
    former = this_process()
    monkeypatch.setattr(processes, "_place", lambda: "")
    assert not has_ended(former)
    assert this_process() == shown(former)
