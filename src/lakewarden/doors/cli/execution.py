"""Runs one request for the command line: ask, plan, apply or steer, and show the result."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakewarden.errors import BadValue
from lakewarden.lifecycle.request import Control, Input, Operation, Question, Request, Setup, TakesInput
from lakewarden.quantities import parse_duration

if TYPE_CHECKING:
    from lakewarden.doors.cli.render import Screen
    from lakewarden.lifecycle.progress import Watcher
    from lakewarden.warden import Warden

FOUND = 3  # the exit code of a check that found something


@dataclass(frozen=True)
class Given:
    """The options of the command line besides the request itself."""

    config: Path | None
    json: bool
    apply: bool
    plan: bool
    check: bool
    files: bool
    wait: str
    input: Input | None = None
    """Where values are read from, for requests that take values."""


def execute(declared: type[Request], values: dict[str, Any], given: Given) -> int:
    """Run a command and return its exit code. The answer is shown after the progress bar is removed."""
    from lakewarden.doors.cli.render import Screen
    from lakewarden.warden import Warden, build

    request, screen = build(declared, values), Screen(given.json)
    if isinstance(request, TakesInput) and given.input is not None:
        request.read_from(given.input)
    if isinstance(request, Setup):
        screen.answer(request.make(), request)
        return 0
    show: Callable[[], None]
    with screen.watching(not isinstance(request, Question)) as watch, Warden.open(given.config) as warden:
        match request:
            case Question():
                answer = warden.ask(request.to_show())
                show, code = partial(screen.answer, answer, request), FOUND if request.found(answer) else 0
            case Control():
                answer = warden.steer(request, watch=watch)
                show, code = partial(screen.answer, answer, request), FOUND if request.found(answer) else 0
            case Operation():
                show, code = _operate(warden, request, given, screen, watch)
    with suppress(BrokenPipeError):  # the reader of our output has closed the pipe
        show()
        sys.stdout.flush()
    return code


def _operate(
    warden: Warden, operation: Operation, given: Given, screen: Screen, watch: Watcher
) -> tuple[Callable[[], None], int]:
    """Plan, and apply unless this is a dry run; --check, --plan and a no-op take precedence over --apply."""
    try:
        wait = parse_duration(given.wait)
    except ValueError as error:
        raise BadValue(f"wait: {error}", "As in --wait 5m.") from None
    planned = warden.plan(operation)
    if given.check:
        found = not planned.is_empty or planned.plan.refused
        return partial(screen.plan, planned.plan, stored=False, files=given.files), FOUND if found else 0
    if planned.barred:
        return partial(screen.plan, planned.plan, stored=False, files=given.files), 1 if planned.plan.refused else 0
    if given.plan or (operation.destructive and not given.apply):
        if not planned.is_empty:
            planned.store()
        return partial(screen.plan, planned.plan, stored=True, files=given.files), 0
    return partial(screen.report, planned.plan, planned.apply(wait=wait, watch=watch)), 0
