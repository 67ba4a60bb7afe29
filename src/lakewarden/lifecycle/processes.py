"""Which process holds a lease, and whether it has ended: a killed process on this machine need not be waited for.

A process is known by its number, its start time, and the boot and process namespace that the number belongs to. So
another process that got the same number, another host and another container are never taken for it. Where the system
does not tell these, as outside Linux, leases of killed processes simply expire.
"""

from __future__ import annotations

import os
import re
import socket
from pathlib import Path

_PROCESSES = Path("/proc")
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_NAMESPACE = Path("/proc/self/ns/pid")
_HOLDER = re.compile(r"(?P<shown>.*:(?P<pid>\d+)) \[(?P<started>\d+) in (?P<place>\S+)\]", re.DOTALL)


def this_process() -> str:
    """The text by which leases name this process."""
    shown = f"{socket.gethostname()}:{os.getpid()}"
    started, place = _started(os.getpid()), _place()
    return f"{shown} [{started} in {place}]" if started and place else shown


def shown(holder: str) -> str:
    """Host and number of the process that holds a lease."""
    found = _HOLDER.fullmatch(holder)
    return found["shown"] if found else holder


def has_ended(holder: str) -> bool:
    """Whether the process that holds a lease ran on this machine and is gone."""
    found = _HOLDER.fullmatch(holder)
    if found is None or found["place"] != _place():
        return False
    pid = int(found["pid"])
    return _started(pid) != found["started"] and not _is_hidden(pid)


def _place() -> str:
    """The boot and the process namespace of this process; empty if they are unknown."""
    try:
        return f"{_BOOT.read_text().strip()}/{_NAMESPACE.stat().st_ino}"
    except OSError:
        return ""


def _is_hidden(pid: int) -> bool:
    """Whether there is a process that /proc does not show, as those of other users under `hidepid`."""
    if (_PROCESSES / str(pid)).exists():
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _started(pid: int) -> str:
    """When a process started, in ticks since the boot; empty if there is none, or if it only waits to be reaped."""
    try:
        state, *fields = (_PROCESSES / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if state in ("Z", "X") else fields[18]
