"""Progress and log messages while a command runs, on stderr."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from lakewarden.lifecycle.progress import Event, Watcher, unwatched


@contextmanager
def watching(progress: bool) -> Iterator[Watcher]:
    """Print log messages while the body runs and, with `progress`, a progress bar or, if stderr is a file, lines."""
    terminal = os.fdopen(os.dup(2), "w")  # stays the terminal while Spark's stderr is redirected to its log
    console = _Console(file=terminal, stderr=True)
    handler = _Handler(console)
    logging.getLogger("lakewarden").addHandler(handler)
    logging.getLogger("lakewarden").setLevel(logging.INFO)
    try:
        if not progress:
            yield unwatched
        elif not sys.stderr.isatty():
            yield log_lines(console)
        else:
            with _bar(console) as bar:
                yield follow(bar)
    finally:
        logging.getLogger("lakewarden").removeHandler(handler)
        terminal.close()


def follow(bar: Progress) -> Watcher:
    """Show the progress of an operation: finished actions, and the reported part of running ones."""
    tasks: dict[str, Any] = {}
    at_work: dict[tuple[str, str], float] = {}

    def watch(event: Event) -> None:
        if event.operation not in tasks:
            tasks[event.operation] = bar.add_task(event.kind, total=event.total)
        at_work[(event.operation, event.subject)] = event.part
        done = event.done + sum(part for (operation, _), part in at_work.items() if operation == event.operation)
        bar.update(tasks[event.operation], completed=min(done, event.total), description=_description(event))

    return watch


def log_lines(console: Console) -> Watcher:
    """Print a line for each finished step; for an operation with a single step the answer is enough."""
    waiting: set[str] = set()

    def watch(event: Event) -> None:
        if event.phase == "waiting" and event.says not in waiting:
            waiting.add(event.says)
            _line(console, f"waiting: {event.says}")
        elif event.total == 1:
            return
        elif event.phase == "applied":
            _line(console, f"{event.done}/{event.total} {event.subject}: {event.says}")
        elif event.phase == "skipped":
            _line(console, f"skipped: {event.says}")
        elif event.phase == "failed" and event.subject:
            _line(console, f"failed: {event.subject}: {event.says}")

    return watch


def _line(console: Console, says: str) -> None:
    console.print(Text(says), soft_wrap=True)


def _description(event: Event) -> str:
    what = f"{event.says} {event.part:.0%}" if event.phase == "working" else event.phase
    return " ".join(part for part in (event.kind.replace(".", " "), event.subject, what) if part)


class _Console(Console):
    """A console that goes silent when its reader closes the pipe."""

    def on_broken_pipe(self) -> None:
        self.quiet = True


class _Handler(logging.Handler):
    """Prints messages about what takes long, such as the start of Spark."""

    def __init__(self, console: Console) -> None:
        super().__init__(logging.INFO)
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno == logging.INFO:
            self._console.print(Text(f"… {record.getMessage()}", style="dim"))


def _bar(console: Console) -> Progress:
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    )
