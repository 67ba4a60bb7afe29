"""What a person sees of a plan and of what came of it: the first actions, totals for each verb, and what is left."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rich.text import Text

from lakewarden.lifecycle.plan import Action, FileList, Plan, PlannedFile
from lakewarden.lifecycle.run import Report
from lakewarden.quantities import show_size

SHOWN = 20
"""Actions that are shown one by one, unless all are asked for."""


def plan_lines(plan: Plan, every: bool) -> Iterator[Text]:
    """What would be done; with every action and every file where that is asked for."""
    yield Text(f"{plan.kind.replace('.', ' ')}  {plan.target}", style="bold")
    for action in plan.actions if every else plan.actions[:SHOWN]:
        yield from _action_lines(action)
        if every:
            yield from (Text(f"      {_file(file)}", no_wrap=True) for file in action.files.items)
    if not every:
        yield from _more(len(plan.actions), "--files or --json")
    yield from totals(plan.actions)
    yield from warnings(plan)


def applied_lines(plan: Plan) -> Iterator[Text]:
    """What was done, as it was planned."""
    yield from (Text(f"{action.table}: {action.says}") for action in plan.actions[:SHOWN])
    yield from _more(len(plan.actions), "lakewarden operation show")
    yield from warnings(plan)


def left_lines(report: Report) -> Iterator[Text]:
    """What was not begun, since the operation had enough."""
    if report.left:
        yield Text(f"left for another time ({len(report.left):,}):", style="yellow")
        yield from (Text(f"  {each}") for each in report.left[:SHOWN])
        yield from _more(len(report.left), "--json")


def warnings(plan: Plan) -> Iterator[Text]:
    yield from (Text(f"  note: {warning}", style="yellow") for warning in plan.warnings)
    yield from (Text(f"  refused: {finding.message}", style="red") for finding in plan.refused)


def totals(actions: Iterable[Action]) -> Iterator[Text]:
    """One line for each verb, where there is something to add up."""
    by_verb: dict[str, list[Action]] = {}
    for action in actions:
        by_verb.setdefault(action.verb, []).append(action)
    for verb, same in by_verb.items():
        counted = _files(*(_size(action) for action in same))
        if len(same) > 1 and (counted or len(same) > SHOWN):
            tables = len({action.table for action in same})
            parts = [f"{len(same):,} actions", f"{tables:,} tables" if tables > 1 else "", counted]
            yield Text(f"  {verb}: {', '.join(part for part in parts if part)}")


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


def _action_lines(action: Action) -> Iterator[Text]:
    counted = _files((action.files.count, action.files.bytes))
    yield Text(f"  {action.table}: {action.says}{f' ({counted})' if counted else ''}")
    if action.because:
        yield Text(f"    by {action.route}: {action.because}", style="dim")


def _size(action: Action) -> tuple[int, int]:
    """Files and bytes of an action: those it lists, else as estimated."""
    if action.files != FileList():
        return action.files.count, action.files.bytes
    return action.estimate.files, action.estimate.bytes


def _files(*sizes: tuple[int, int]) -> str:
    count, size = sum(count for count, _ in sizes), sum(size for _, size in sizes)
    return f"{count:,} {'file' if count == 1 else 'files'}, {show_size(size)}" if count else ""


def _file(file: PlannedFile) -> str:
    return f"{file.kind}  {show_size(file.bytes)}  {file.path}"


def _more(count: int, how: str) -> Iterator[Text]:
    if count > SHOWN:
        yield Text(f"  and {count - SHOWN:,} more; {how} shows all", style="dim")
