"""Branching work in several threads, streamed: nested folders, or many files to read.

Memory is bounded however many results there are: threads wait until their results are consumed, and a thread follows a
branch itself when too many are queued.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, TypeVar

Task = TypeVar("Task")
Found = TypeVar("Found")

_CHUNK = 500  # results passed on at once
_CHUNKS_WAITING = 16
_BRANCHES_WAITING = 64  # more would only cost synchronisation


@dataclass(frozen=True, slots=True)
class Branch(Generic[Task]):
    """More work, found along the way."""

    task: Task


def traverse(
    starts: Iterable[Task],
    look: Callable[[Task], Iterable[Found | Branch[Task]]],
    threads: int,
    name: str = "traversal",
) -> Generator[Found, None, None]:
    """Everything found from these starting points, in any order. An exception in a thread is raised here."""
    traversal: _Traversal[Task, Found] = _Traversal(starts, look, threads)
    workers = [threading.Thread(target=traversal.work, name=f"{name}-{n}", daemon=True) for n in range(threads)]
    for worker in workers:
        worker.start()
    try:
        yield from traversal.results()
    finally:  # also if the consumer stops early
        traversal.stop()
        for worker in workers:
            while worker.is_alive():
                traversal.drain()
                worker.join(0.02)


class _Traversal(Generic[Task, Found]):
    def __init__(
        self, starts: Iterable[Task], look: Callable[[Task], Iterable[Found | Branch[Task]]], threads: int
    ) -> None:
        self._starts = iter(starts)
        self._look = look
        self._branches: list[Task] = []
        self._busy = 0
        self._left = threads
        self._stopped = False
        self._changed = threading.Condition()
        self._out: queue.Queue[list[Found] | BaseException | None] = queue.Queue(_CHUNKS_WAITING)

    def results(self) -> Iterator[Found]:
        while (found := self._out.get()) is not None:
            if isinstance(found, BaseException):
                raise found
            yield from found

    def work(self) -> None:
        """The loop of each thread."""
        chunk: list[Found] = []
        try:
            while (further := self._next(chunk)) is not None:
                self._go(further.task, chunk)
                self._finished()
        except BaseException as error:  # noqa: BLE001 - raised again in results()
            self._hand_over(error)
        with self._changed:
            self._left -= 1
            last = self._left == 0
        if last:
            self._hand_over(None)

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def drain(self) -> None:
        """Unblock threads that wait for their results to be consumed."""
        with suppress(queue.Empty):
            while True:
                self._out.get_nowait()

    def _next(self, chunk: list[Found]) -> Branch[Task] | None:
        """The next task. Pass on results before waiting for one."""
        with self._changed:
            if (task := self._waiting()) is not None:
                return task
        self._hand_over(chunk[:])
        chunk.clear()
        with self._changed:
            while (task := self._waiting()) is None and self._busy and not self._stopped:
                self._changed.wait()
            return task

    def _waiting(self) -> Branch[Task] | None:
        if self._stopped:
            return None
        if self._branches:
            self._busy += 1
            return Branch(self._branches.pop())
        for start in self._starts:
            self._busy += 1
            return Branch(start)
        return None

    def _finished(self) -> None:
        with self._changed:
            self._busy -= 1
            if self._busy == 0:
                self._changed.notify_all()

    def _go(self, task: Task, chunk: list[Found]) -> None:
        for found in self._look(task):
            if self._stopped:
                return
            if not isinstance(found, Branch):
                chunk.append(found)
                if len(chunk) >= _CHUNK:
                    self._hand_over(chunk[:])
                    chunk.clear()
            elif not self._leave_to_others(found.task):
                self._go(found.task, chunk)

    def _leave_to_others(self, task: Task) -> bool:
        if len(self._branches) >= _BRANCHES_WAITING:
            return False
        with self._changed:
            self._branches.append(task)
            self._changed.notify()
            return True

    def _hand_over(self, found: list[Found] | BaseException | None) -> None:
        while not self._stopped:
            with suppress(queue.Full):
                self._out.put(found, timeout=0.1)
                return
