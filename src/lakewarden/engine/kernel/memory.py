"""How a rewrite task divides its memory. Limits are in bytes, because rows can be of any width."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

_LEAST = 64 << 20  # the minimum, even if the process exceeds its limit: with less it would crawl
_LARGEST_BATCH = 8 << 20
_STATM, _STATUS = Path("/proc/self/statm"), Path("/proc/self/status")


@dataclass(frozen=True)
class Budget:
    """Bytes for each use. The rest is for the writer's pages and for allocator overhead."""

    row_group: int  # buffered rows
    reading: int  # open pages and dictionaries of the input
    batch: int  # rows decoded at once
    whole_file: int  # files up to this size are read in one go
    memory: int  # of the whole process

    @classmethod
    def within(cls, memory_bytes: int) -> Budget:
        """Divide the memory that this process does not use already."""
        free = max(memory_bytes - resident_bytes(), _LEAST)
        return cls(
            row_group=free // 3,
            reading=free // 5,
            batch=min(_LARGEST_BATCH, free // 32),
            whole_file=free // 16,
            memory=memory_bytes,
        )

    def release(self) -> None:
        """Return free memory to the system when it runs low. Not always: allocating it again takes time."""
        if resident_bytes() > self.memory * 3 // 4:
            pa.default_memory_pool().release_unused()


@contextmanager
def plain_allocation() -> Iterator[None]:
    """Make Arrow allocate from the C library, which returns freed memory to the system.

    Arrow's default pool is as fast but keeps freed memory, which raises the peak by a third.
    """
    before = pa.default_memory_pool()
    pa.set_memory_pool(pa.system_memory_pool())
    try:
        yield
    finally:
        pa.set_memory_pool(before)


def resident_bytes() -> int:
    """The memory that this process uses now."""
    try:
        return int(_STATM.read_text().split()[1]) * resource.getpagesize()
    except OSError:  # not on Linux
        return peak_bytes()


def peak_bytes() -> int:
    """The most memory that this process ever used, without what it inherited from its parent."""
    try:
        line = next(line for line in _STATUS.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024
    except (OSError, StopIteration):  # not on Linux
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
