"""What a person is told while a command runs: live progress, and what takes long. All of it on stderr."""

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
    """Tell what takes long while the body runs; how far it is only where asked for, and somebody looks."""
    terminal = os.fdopen(os.dup(2), "w")  # ours stays the terminal while Spark's is sent to its log
    console = _Bystander(file=terminal, stderr=True)
    speaker = _Speaker(console)
    logging.getLogger("lakewarden").addHandler(speaker)
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
        logging.getLogger("lakewarden").removeHandler(speaker)
        terminal.close()


def follow(bar: Progress) -> Watcher:
    """Show how far an operation is: its actions that are done, and of those at work the part that they tell of."""
    tasks: dict[str, Any] = {}
    at_work: dict[tuple[str, str], float] = {}

    def watch(event: Event) -> None:
        if event.operation not in tasks:
            tasks[event.operation] = bar.add_task(event.kind, total=event.total)
        at_work[(event.operation, event.subject)] = event.part
        done = event.done + sum(part for (operation, _), part in at_work.items() if operation == event.operation)
        bar.update(tasks[event.operation], completed=min(done, event.total), description=_told(event))

    return watch


def log_lines(console: Console) -> Watcher:
    """Print a line for each step that ends, for logs; of an operation with one step the answer says as much."""
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


def _told(event: Event) -> str:
    what = f"{event.says} {event.part:.0%}" if event.phase == "working" else event.phase
    return " ".join(part for part in (event.kind.replace(".", " "), event.subject, what) if part)


class _Bystander(Console):
    """Where what is told beside the answer goes: nothing depends on anybody hearing it."""

    def on_broken_pipe(self) -> None:
        self.quiet = True


class _Speaker(logging.Handler):
    """Tells what takes long, such as the start of Spark, while it happens."""

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
