"""What a person sees of a plan and of what came of it, for the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rich.text import Text

from lakewarden.lifecycle import plan_text
from lakewarden.lifecycle.plan import Plan
from lakewarden.lifecycle.plan_text import SHOWN, Line
from lakewarden.lifecycle.report import Report
from lakewarden.lifecycle.states import State
from lakewarden.quantities import show_size


def plan_lines(plan: Plan, every: bool) -> Iterator[Text]:
    """What would be done; with every action and every file where that is asked for."""
    return _styled(plan_text.plan_lines(plan, every))


def applied_lines(plan: Plan) -> Iterator[Text]:
    """What was done, as it was planned."""
    yield from (Text(f"{action.subject}: {action.says}") for action in plan.actions[:SHOWN])
    yield from _styled(plan_text.more(len(plan.actions), "lakewarden operation show"))
    yield from warnings(plan)


def left_lines(report: Report) -> Iterator[Text]:
    """What was not begun, since the operation has reached its limit."""
    if report.left:
        yield Text(f"left for another time ({len(report.left):,}):", style="yellow")
        yield from (Text(f"  {each}") for each in report.left[:SHOWN])
        yield from _styled(plan_text.more(len(report.left), "--json"))
    if report.state is State.PAUSED:
        yield Text(f"Continue with: lakewarden operation resume {report.id}")


def skipped_lines(report: Report) -> Iterator[Text]:
    """Which tables other operations hold."""
    if report.skipped:
        yield Text(f"skipped ({len(report.skipped):,}):", style="yellow")
        yield from (Text(f"  {each}") for each in report.skipped[:SHOWN])
        yield from _styled(plan_text.more(len(report.skipped), "--json"))


def warnings(plan: Plan) -> Iterator[Text]:
    return _styled(plan_text.notes(plan))


def facts_line(result: Mapping[str, Any]) -> str:
    """What was measured, in one line."""
    return ", ".join(f"{name.replace('_', ' ')} {show_fact(name, value)}" for name, value in result.items())


def show_fact(name: str, value: Any) -> str:
    """A measured value for people: sizes where the name says that bytes are counted."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if name == "bytes" or name.startswith("bytes_"):
        return show_size(int(value))
    return f"{value:,}"


def _styled(lines: Iterable[Line]) -> Iterator[Text]:
    return (Text(line.text, style=line.style, no_wrap=line.is_whole or None) for line in lines)
