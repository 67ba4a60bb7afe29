"""Plans and reports as lines for the terminal."""

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
    """What would be done; with `every`, all actions and files."""
    return _styled(plan_text.plan_lines(plan, every))


def applied_lines(plan: Plan) -> Iterator[Text]:
    """What was done."""
    yield from (Text(f"{action.subject}: {action.says}") for action in plan.actions[:SHOWN])
    yield from _styled(plan_text.more(len(plan.actions), "lakewarden operation show"))
    yield from warnings(plan)


def left_lines(report: Report) -> Iterator[Text]:
    """What was not done: tables that other operations hold, and what was not started within the limit."""
    for title, items in (("skipped", report.skipped), ("left for the next run", report.left)):
        if items:
            yield Text(f"{title} ({len(items):,}):", style="yellow")
            yield from (Text(f"  {item}") for item in items[:SHOWN])
            yield from _styled(plan_text.more(len(items), "--json"))
    if report.state is State.PAUSED:
        yield Text(f"Continue with: lakewarden operation resume {report.id}")


def warnings(plan: Plan) -> Iterator[Text]:
    return _styled(plan_text.notes(plan))


def facts_line(result: Mapping[str, Any]) -> str:
    """The measured results in one line, without details for programs."""
    shown = {name: value for name, value in result.items() if not isinstance(value, Mapping)}
    return ", ".join(f"{name.replace('_', ' ')} {show_fact(name, value)}" for name, value in shown.items())


def show_fact(name: str, value: Any) -> str:
    """A measured value as text: with a size unit if its name says that it counts bytes."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if name == "bytes" or name.startswith("bytes_") or name.endswith("_bytes"):
        return show_size(int(value))
    return f"{value:,}"


def _styled(lines: Iterable[Line]) -> Iterator[Text]:
    return (Text(line.text, style=line.style, no_wrap=line.is_whole or None) for line in lines)
