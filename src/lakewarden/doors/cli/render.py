"""What a person sees: tables, details, plans and reports; or one JSON document for a program."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, get_args, get_type_hints

import click
from rich import box
from rich.console import Console, JustifyMethod
from rich.table import Table
from rich.text import Text

from lakewarden.doors.cli.live import watching
from lakewarden.doors.cli.plans import applied_lines, facts_line, left_lines, plan_lines, show_fact, warnings
from lakewarden.doors.documents import answered, encode
from lakewarden.lifecycle.plan import Plan
from lakewarden.lifecycle.progress import Watcher, unwatched
from lakewarden.lifecycle.request import Control, Question, Setup
from lakewarden.lifecycle.run import Report
from lakewarden.quantities import Unit, show_size

Answering = Question[Any] | Control[Any] | Setup[Any]
_WIDE = 240  # what is piped is not cut to a terminal's width
_MANY = 1000  # rows that are still worth a table
_STYLES = {
    "ok": "green",
    "done": "green",
    "warning": "yellow",
    "planned": "cyan",
    "running": "cyan",
    "verifying": "cyan",
    "paused": "yellow",
    "failed": "red",
    "stale": "red",
    "cancelled": "dim",
}


class Screen:
    """The terminal, or the pipe, that one command answers to."""

    def __init__(self, as_json: bool) -> None:
        self._json = as_json
        self.out = _Pipe(width=None if sys.stdout.isatty() else _WIDE, highlight=False, soft_wrap=False)

    def answer(self, answer: Any, request: Answering) -> None:
        if isinstance(answer, Report):
            return self.report(None, answer)
        if self._json:
            return self._document(answered(answer, request.answer_type()))
        if not isinstance(answer, list):
            self._detail(answer)
        elif answer:
            self._rows(answer)
        else:
            self.out.print(request.nothing)

    def plan(self, plan: Plan, stored: bool, files: bool = False) -> None:
        if self._json:
            return self._document({"plan": plan.document(files)})
        if len({verdict.table for verdict in plan.verdicts}) == 1:  # of many tables nobody would read them all
            self._rows([_VerdictRow(v.subject, v.at, v.verdict, list(v.reasons)) for v in plan.verdicts])
            self.out.print()
        if not plan.actions:
            self._lines(warnings(plan))
            self.out.print("Nothing to do." if not plan.refused else "Nothing else to do.")
            return
        self._lines(plan_lines(plan, every=files))
        tail = f" Apply: lakewarden operation apply {plan.id}" if stored else ""
        self.out.print(Text(f"Nothing changed.{tail}"))

    def report(self, plan: Plan | None, report: Report) -> None:
        if self._json:
            return self._document(report.document())
        if report.id is None:
            self._lines(warnings(plan) if plan else ())
            self.out.print("Nothing to do.")
            return
        self._lines(applied_lines(plan) if plan else ())
        state, facts = str(report.state), facts_line(report.result)
        self.out.print(Text.assemble((state, _STYLES[state]), f"  {report.id}  {facts}"))
        self._lines(left_lines(report))

    @contextmanager
    def watching(self, progress: bool = True) -> Iterator[Watcher]:
        """What takes long is told on stderr while a command runs; silent for programs."""
        if self._json:
            yield unwatched
            return
        with watching(progress) as watch:
            yield watch

    def _document(self, document: Any) -> None:
        click.echo(encode(document, indent=2))

    def _lines(self, lines: Iterable[Text]) -> None:
        """Lines for people; one that must not be broken, such as a file's path, goes out as it is, and quickly."""
        for line in lines:
            if line.no_wrap:
                click.echo(line.plain)
            else:
                self.out.print(line)

    def _rows(self, rows: Sequence[Any]) -> None:
        """A table, or where the terminal is too narrow for one, a block of lines for each row."""
        names = _columns(rows)
        units = _units(type(rows[0])) if dataclasses.is_dataclass(rows[0]) else {}
        shown = [name for name in names if any(_value(row, name) not in (None, "", []) for row in rows)] or names
        cells = {name: [_cell(_value(row, name), units.get(name)) for row in rows] for name in shown}
        if len(rows) > _MANY:
            return self._plain(cells)
        values = {name: [_value(row, name) for row in rows] for name in shown}
        least = {name: _least_width(name, values[name], cells[name]) for name in shown}
        if sum(least.values()) + 3 * len(shown) > self.out.width:
            return self._blocks(rows, cells)
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
        for name in shown:
            numeric = all(isinstance(value, int | float | None) for value in values[name])
            justify: JustifyMethod = "right" if numeric else "left"
            table.add_column(_title(name), justify=justify, min_width=least[name], overflow="fold")
        for number in range(len(rows)):
            table.add_row(*[cells[name][number] for name in shown])
        self.out.print(table)

    def _plain(self, cells: Mapping[str, Sequence[Text]]) -> None:
        """More rows than anybody reads one by one: a line each, and quickly."""
        columns = [[_title(name), *(cell.plain for cell in column)] for name, column in cells.items()]
        widths = [max(map(len, column)) for column in columns]
        for line in zip(*columns, strict=True):
            click.echo("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())

    def _blocks(self, rows: Sequence[Any], cells: Mapping[str, Sequence[Text]]) -> None:
        for number in range(len(rows)):
            block = _facts_table()
            for name, column in cells.items():
                if column[number]:
                    block.add_row(_title(name), column[number])
            self.out.print(block, *([""] if number < len(rows) - 1 else []))

    def _detail(self, answer: Any) -> None:
        units = _units(type(answer))
        facts = {field.name: getattr(answer, field.name) for field in dataclasses.fields(answer)}
        plain = {name: value for name, value in facts.items() if not _is_nested(value)}
        table = _facts_table()
        for name, value in plain.items():
            if value not in (None, "", [], {}):
                shown = Text("\n".join(value)) if _are_lines(value) else _cell(value, units.get(name))
                table.add_row(_title(name), shown)
        self.out.print(table)
        for name, value in facts.items():
            if name in plain or not value:
                continue
            self.out.print(Text(f"\n{_title(name)}", style="bold"))
            if isinstance(value, Mapping):
                for key, item in value.items():
                    self.out.print(Text(f"  {key} = {show_fact(key, item)}"))
            else:
                self._rows(value)


@dataclasses.dataclass(frozen=True)
class _VerdictRow:
    """One decision of a plan as people see it."""

    version: str
    committed_at: datetime
    verdict: str
    reasons: list[str]


class _Pipe(Console):
    """Rich would end the process where nobody reads any more; here the command ends as it would have."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def _facts_table() -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    return table


def _title(name: str) -> str:
    return name.replace("_", " ")


def _least_width(name: str, values: Sequence[Any], cells: Sequence[Text]) -> int:
    """How narrow a column may get: numbers, ids and names are never broken; times and sentences are, at spaces."""
    words = _title(name).split()
    breakable = any(isinstance(value, list | dict | datetime) or " " in str(value) for value in values)
    if breakable:
        words += [word for cell in cells for word in cell.plain.replace(",", " ").split()]
        return min(max(map(len, words)), 24)
    return max([cell.cell_len for cell in cells] + [len(word) for word in words])


def _are_lines(value: Any) -> bool:
    return isinstance(value, list) and any(" " in str(item) for item in value)


def _columns(rows: Sequence[Any]) -> list[str]:
    if dataclasses.is_dataclass(rows[0]):
        return [field.name for field in dataclasses.fields(rows[0])]
    return list(dict.fromkeys(key for row in rows for key in row))


def _value(row: Any, name: str) -> Any:
    return row.get(name) if isinstance(row, Mapping) else getattr(row, name)


def _units(kind: type) -> dict[str, str]:
    """Which fields count bytes, from their annotations."""
    hints = get_type_hints(kind, include_extras=True)
    return {name: unit for name, hint in hints.items() if (unit := _unit(hint))}


def _unit(hint: Any) -> str | None:
    for mark in getattr(hint, "__metadata__", ()):
        if isinstance(mark, Unit):
            return mark.name
    return next((found for arg in get_args(hint) if (found := _unit(arg))), None)


def _is_nested(value: Any) -> bool:
    if isinstance(value, Mapping):
        return True
    return isinstance(value, list) and bool(value) and dataclasses.is_dataclass(value[0])


def _cell(value: Any, unit: str | None = None) -> Text:
    if value is None:
        return Text("")
    if isinstance(value, bool):
        return Text("yes" if value else "no")
    if unit == "bytes":
        return Text(show_size(value))
    if isinstance(value, datetime):
        return Text(f"{value:%Y-%m-%d %H:%M:%S}Z" if value.tzinfo else f"{value:%Y-%m-%d %H:%M:%S}")
    if isinstance(value, int):
        return Text(f"{value:,}" if abs(value) < 10**15 else str(value))
    if isinstance(value, list):
        return Text(", ".join(str(item) for item in value))
    return Text(str(value), style=_STYLES.get(str(value), ""))
