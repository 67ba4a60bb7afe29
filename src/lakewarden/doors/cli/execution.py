"""Runs one request for the command line: ask, plan, apply or steer, and show what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from lakewarden.errors import BadValue
from lakewarden.lifecycle.request import Control, Operation, Question, Request
from lakewarden.quantities import parse_duration

FOUND = 3  # the exit code of a check that found something


@dataclass(frozen=True)
class Given:
    """What was said on the command line besides the request itself."""

    config: Path | None
    json: bool
    apply: bool
    plan: bool
    check: bool
    wait: str


def execute(declared: type[Request], said: dict[str, Any], given: Given) -> int:
    """Answer a command; the result is its exit code."""
    from lakewarden.doors.cli.render import Screen
    from lakewarden.warden import build

    request, screen = build(declared, said), Screen(given.json)
    if isinstance(request, Control) and not request.needs_lake:
        return _steer_without_lake(request, screen)
    from lakewarden.warden import Warden

    with screen.watching() as watch, Warden.open(given.config, watch=watch) as warden:
        if isinstance(request, Operation):
            return _operate(warden, request, given, screen)
        if isinstance(request, Question):
            answer = warden.ask(request)
            screen.answer(answer, request.answer_type())
            return FOUND if request.found(answer) else 0
        assert isinstance(request, Control)
        screen.answer(warden.steer(request), request.answer_type())
        return 0


def _operate(warden: Any, operation: Operation, given: Given, screen: Any) -> int:
    """A dry run is a plan that was not applied; an option not to act wins over one to act."""
    wait = _patience(given.wait)
    planned = warden.plan(operation)
    if given.check:
        screen.plan(planned.plan, stored=False)
        return 0 if planned.is_empty else FOUND
    if given.plan or (operation.destructive and not given.apply):
        if not planned.is_empty:
            planned.store()
        screen.plan(planned.plan, stored=True)
        return 0
    screen.report(planned.plan, planned.apply(wait=wait))
    return 0


def _patience(text: str) -> timedelta:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise BadValue(f"wait: {error}", "As in --wait 5m.") from None


def _steer_without_lake(control: Control[Any], screen: Any) -> int:
    screen.answer(control.act(None), control.answer_type())  # type: ignore[arg-type]
    return 0
