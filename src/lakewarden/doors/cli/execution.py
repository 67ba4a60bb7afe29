"""Runs one request for the command line: ask, plan, apply or steer, and show what came of it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
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
    """What was said on the command line besides the request itself."""

    config: Path | None
    json: bool
    apply: bool
    plan: bool
    check: bool
    files: bool
    wait: str
    input: Input | None = None
    """Where values are read from, for requests that take some."""


def execute(declared: type[Request], said: dict[str, Any], given: Given) -> int:
    """Answer a command; the result is its exit code. What is shown is shown when the progress bar is gone."""
    from lakewarden.doors.cli.render import Screen
    from lakewarden.warden import Warden, build

    request, screen = build(declared, said), Screen(given.json)
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
    with suppress(BrokenPipeError):  # whoever reads us has seen enough; what was done is done
        show()
        sys.stdout.flush()
    return code


def _operate(
    warden: Warden, operation: Operation, given: Given, screen: Screen, watch: Watcher
) -> tuple[Callable[[], None], int]:
    """A dry run is a plan that was not applied; an option not to act wins over one to act."""
    wait = _patience(given.wait)
    planned = warden.plan(operation)
    if given.check:
        found = not planned.is_empty or planned.plan.refused
        return partial(screen.plan, planned.plan, stored=False, files=given.files), FOUND if found else 0
    if given.plan or (operation.destructive and not given.apply):
        if not planned.is_empty:
            planned.store()
        return partial(screen.plan, planned.plan, stored=True, files=given.files), 0
    return partial(screen.report, planned.plan, planned.apply(wait=wait, watch=watch)), 0


def _patience(text: str) -> timedelta:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise BadValue(f"wait: {error}", "As in --wait 5m.") from None
