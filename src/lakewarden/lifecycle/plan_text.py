"""A plan for people, as text or HTML: the first actions, totals per verb, and notes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from typing import NamedTuple, Protocol

from lakewarden.display import show_value, table_html
from lakewarden.lifecycle.action import Action, Estimate, Finding, Verdict
from lakewarden.lifecycle.planned_files import PlannedFile
from lakewarden.quantities import show_size

SHOWN = 20
"""The number of actions that are shown unless all are requested."""


class Plan(Protocol):
    """The parts of a plan that are shown."""

    @property
    def kind(self) -> str: ...
    @property
    def target(self) -> str: ...
    @property
    def actions(self) -> tuple[Action, ...]: ...
    @property
    def warnings(self) -> tuple[str, ...]: ...
    @property
    def refused(self) -> tuple[Finding, ...]: ...
    @property
    def verdicts(self) -> tuple[Verdict, ...]: ...


class Line(NamedTuple):
    """One line; `is_whole` if it must not be wrapped, such as a path."""

    text: str
    style: str = ""
    is_whole: bool = False


def plan_lines(plan: Plan, every: bool = False, how: str = "--files or --json") -> Iterator[Line]:
    """What would be done; optionally with every action and every file."""
    yield Line(headline(plan), "bold")
    for action in plan.actions if every else plan.actions[:SHOWN]:
        yield from _action_lines(action)
        if every:
            yield from (Line(f"      {_file(file)}", is_whole=True) for file in action.files.items)
    if not every:
        yield from more(len(plan.actions), how)
    yield from totals(plan.actions)
    yield from notes(plan)


def notes(plan: Plan) -> Iterator[Line]:
    """The warnings and refusals of a plan."""
    yield from (Line(f"  note: {warning}", "yellow") for warning in plan.warnings)
    yield from (Line(f"  refused: {finding.message}", "red") for finding in plan.refused)


def totals(actions: Iterable[Action]) -> Iterator[Line]:
    """One line per verb, if there is something to add up."""
    by_verb: dict[str, list[Action]] = {}
    for action in actions:
        by_verb.setdefault(action.verb, []).append(action)
    for verb, same in by_verb.items():
        counted = _files(*(_size(action) for action in same))
        if len(same) > 1 and (counted or len(same) > SHOWN):
            subjects = len({action.subject for action in same})
            noun = "tables" if all(_is_on_table(action) for action in same) else "subjects"
            parts = [f"{len(same):,} actions", f"{subjects:,} {noun}" if subjects > 1 else "", counted]
            parts += _foreseen(sum((action.estimate for action in same), Estimate()))
            yield Line(f"  {verb}: {', '.join(part for part in parts if part)}")


def _foreseen(work: Estimate) -> list[str]:
    """What rows will take, if an operation knows it."""
    if not work.memory:
        return []
    return [f"{work.rows:,} rows", f"about {max(1, round(work.seconds)):,} s", f"{show_size(work.memory)} a task"]


def _is_on_table(action: Action) -> bool:
    return any(need.identifies for need in action.requires)


def more(count: int, how: str) -> Iterator[Line]:
    if count > SHOWN:
        yield Line(f"  and {count - SHOWN:,} more; {how} shows all", "dim")


def headline(plan: Plan) -> str:
    return f"{plan.kind.replace('.', ' ')}  {plan.target}"


def as_text(plan: Plan) -> str:
    """The plan as shown in a Python shell."""
    if not plan.actions:
        return "\n".join([headline(plan), *(line.text for line in notes(plan)), "  nothing to do"])
    return "\n".join(line.text for line in plan_lines(plan, how=".plan.actions"))


def as_html(plan: Plan) -> str:
    """The plan as shown in a notebook."""
    parts = [f"<p><b>{escape(headline(plan))}</b>{'' if plan.actions else ': nothing to do'}</p>"]
    if plan.actions:
        rows = [(a.subject, a.says, *_counted(a)) for a in plan.actions[:SHOWN]]
        parts.append(table_html(("subject", "action", "files", "bytes"), rows))
    below = [*more(len(plan.actions), ".plan.actions"), *totals(plan.actions), *notes(plan)]
    parts += [f"<p>{escape(line.text.strip())}</p>" for line in below]
    if len({verdict.subject for verdict in plan.verdicts}) == 1:
        decided = [(v.item, show_value(v.at), v.verdict, ", ".join(v.reasons)) for v in plan.verdicts]
        parts.append(table_html(("version", "committed at", "verdict", "reasons"), decided))
    return "".join(parts)


def _action_lines(action: Action) -> Iterator[Line]:
    counted = _files((action.files.count, action.files.bytes))
    yield Line(f"  {action.subject}: {action.says}{f' ({counted})' if counted else ''}")
    if action.because:
        yield Line(f"    by {action.route}: {action.because}", "dim")


def _counted(action: Action) -> tuple[str, str]:
    count, size = action.files.count, action.files.bytes
    return (f"{count:,}", show_size(size)) if count else ("", "")


def _size(action: Action) -> tuple[int, int]:
    """Files and bytes of an action: listed ones, or else the estimate."""
    if action.files.count:
        return action.files.count, action.files.bytes
    return action.estimate.files, action.estimate.bytes


def _files(*sizes: tuple[int, int]) -> str:
    count, size = sum(count for count, _ in sizes), sum(size for _, size in sizes)
    return f"{count:,} {'file' if count == 1 else 'files'}, {show_size(size)}" if count else ""


def _file(file: PlannedFile) -> str:
    return f"{file.kind}  {show_size(file.bytes)}  {file.path}"
