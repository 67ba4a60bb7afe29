"""Prints answers, plans and reports as text, or as one JSON document."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any

import click
from rich import box
from rich.console import Console, JustifyMethod
from rich.table import Table
from rich.text import Text

from lakewarden.display import columns_of, is_empty, json_bytes, show_as_is, show_value, title, units_of, value_of
from lakewarden.doors.cli.layout import fitting, least_width, widths
from lakewarden.doors.cli.live import watching
from lakewarden.doors.cli.plans import applied_lines, facts_line, left_lines, plan_lines, show_fact, warnings
from lakewarden.doors.documents import answered
from lakewarden.lifecycle.page import Page
from lakewarden.lifecycle.plan import Plan
from lakewarden.lifecycle.progress import Watcher, unwatched
from lakewarden.lifecycle.report import Report
from lakewarden.lifecycle.request import Control, Question, Setup
from lakewarden.lifecycle.rows import Rows
from lakewarden.quantities import counted

if TYPE_CHECKING:
    from lakewarden.features.query.statement import Queried

Answering = Question[Any] | Control[Any] | Setup[Any]
_WIDE = 240  # the width of piped output
_LINES = 1000  # written at once
_MANY = 1000  # more rows are printed without a table's layout
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
    """The output of one command: a terminal or a pipe."""

    def __init__(self, as_json: bool) -> None:
        self._json = as_json
        self.out = _Pipe(width=None if sys.stdout.isatty() else _WIDE, highlight=False, soft_wrap=False)

    def answer(self, answer: Any, request: Answering) -> None:
        if isinstance(answer, Report):
            return self.report(None, answer)
        if self._json:
            return self._document(answered(answer, request.answer_type()))
        if hasattr(answer, "__rich__"):
            drawn = answer.__rich__()
            self.out.print(Text(drawn) if isinstance(drawn, str) else drawn)  # a plain text is not parsed as markup
        elif isinstance(answer, Rows):
            self._data(answer, request)
        elif isinstance(answer, Page):
            self._page(answer, request)
        elif not isinstance(answer, list):
            self._detail(answer)
        elif answer:
            self._listed(answer, request)
        else:
            self.out.print(request.nothing)

    def plan(self, plan: Plan, stored: bool, files: bool = False) -> None:
        if self._json:
            return self._document({"plan": plan.document(files)})
        if len({verdict.subject for verdict in plan.verdicts}) == 1:  # for many tables they are too many to read
            self._rows([_VerdictRow(v.item, v.at, v.verdict, list(v.reasons)) for v in plan.verdicts])
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

    def queried(self, found: Queried, planned: bool) -> None:
        """Print the rows of a statement, or what its functions would change; what was left out goes to stderr."""
        for note in found.notes:
            click.echo(note, err=True)
        if planned:
            if self._json:
                return self._document({"plans": [plan.document(False) for plan in found.plans]})
            for plan in found.plans:
                self.plan(plan, stored=True)
            if not found.plans:
                self.out.print("The statement changes nothing.")
        elif self._json:
            self._document(found.rows.to_pylist())
        elif found.rows.num_rows:
            values = found.rows.to_pydict()
            cells = {name: [_data_cell(value) for value in column] for name, column in values.items()}
            self._table(values, cells, every=True)
        else:
            self.out.print("No rows.")

    @contextmanager
    def watching(self, progress: bool = True) -> Iterator[Watcher]:
        """Show progress on stderr while a command runs; nothing with --json."""
        if self._json:
            yield unwatched
            return
        with watching(progress) as watch:
            yield watch

    def _document(self, document: Any) -> None:
        click.echo(json_bytes(document, indent=2))

    def _lines(self, lines: Iterable[Text]) -> None:
        """Print lines; one that must not be wrapped, such as a path, is printed without Rich."""
        for line in lines:
            if line.no_wrap:
                click.echo(line.plain)
            else:
                self.out.print(line)

    def _data(self, read: Rows, request: Answering) -> None:
        """Print rows of a table unchanged, and whether there are more."""
        if read.rows:
            names = columns_of(read.rows)
            values = {name: [row.get(name) for row in read.rows] for name in names}
            self._table(
                values, {name: [_data_cell(value) for value in column] for name, column in values.items()}, every=True
            )
        shown = f"{read.rows_read:,} of {read.rows_total:,} rows" if read.cut and read.rows_total is not None else ""
        if read.file is not None:
            more = " There are more." if read.cut and not shown else ""
            self.out.print(Text(f"{shown or counted(read.rows_read, 'row')} written to {read.file}.{more}"))
        elif read.cut:
            part = shown or f"The first {counted(read.rows_read, 'row')}; there are more"
            self.out.print(Text(f"{part}. --limit N shows more, --out FILE writes all of them to a file."))
        elif not read.rows:
            self.out.print(request.nothing)
        if read.left_out:
            self.out.print(Text(f"{read.left_out}.", style="yellow"))

    def _page(self, page: Page[Any], request: Answering) -> None:
        if page.items:
            self._rows(page.items)
        else:
            self.out.print(request.nothing)
        if page.next is not None:
            shown = f"{len(page.items):,} of {page.total:,}" if page.total is not None else f"{len(page.items):,}"
            self.out.print(Text(f"{shown}; --after {page.next} shows the next ones", style="yellow"))

    def _listed(self, rows: Sequence[Any], request: Answering) -> None:
        """Print the first rows, and how to see more."""
        limit = request.shown() if isinstance(request, Question) else None
        if limit is None or len(rows) <= limit[0]:
            return self._rows(rows)
        self._rows(rows[: limit[0]])
        self.out.print(Text(f"{limit[0]} of {len(rows):,}; {limit[1]} shows more", style="yellow"))

    def _rows(self, rows: Sequence[Any]) -> None:
        """Print rows of an answer. On a narrow terminal, dispensable columns are left out."""
        names, units = columns_of(rows), units_of(type(rows[0]))
        values = {name: [value_of(row, name) for row in rows] for name in names}
        shown = [name for name in names if not all(map(is_empty, values[name]))] or names
        if len(rows) > _MANY:
            return self._plain({title(n): [show_value(each, units.get(n)) for each in values[n]] for n in shown})
        cells = {name: [_cell(value, units.get(name)) for value in values[name]] for name in shown}
        least = {name: least_width(title(name), values[name], cells[name]) for name in shown}
        kept = fitting(least, cells, getattr(rows[0], "dispensable", ()), self.out.width) or shown
        self._table({title(name): values[name] for name in kept}, {title(name): cells[name] for name in kept})
        if len(kept) < len(shown):
            left_out = ", ".join(title(name) for name in shown if name not in kept)
            self.out.print(Text(f"Not shown at this width: {left_out}.", style="dim"))

    def _table(
        self, values: Mapping[str, Sequence[Any]], cells: Mapping[str, Sequence[Text]], every: bool = False
    ) -> None:
        """Print columns as a table or, if the terminal is too narrow, each row as a block of lines.

        With `every`, blocks include empty values.
        """
        rows = len(next(iter(cells.values())))
        if rows > _MANY:
            return self._plain({name: [cell.plain for cell in column] for name, column in cells.items()})
        least = {name: least_width(name, values[name], cells[name]) for name in cells}
        if fitting(least, cells, (), self.out.width) is None:
            return self._blocks(rows, cells, every)
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
        shared = widths(least, cells, self.out.width)
        for name in cells:
            numeric = all(isinstance(value, int | float | None) for value in values[name])
            justify: JustifyMethod = "right" if numeric else "left"
            table.add_column(Text(name), justify=justify, width=shared[name], overflow="fold")
        for number in range(rows):
            table.add_row(*[column[number] for column in cells.values()])
        self.out.print(table)

    def _plain(self, cells: Mapping[str, Sequence[str]]) -> None:
        """Print very many rows quickly, one line each."""
        columns = [[name, *column] for name, column in cells.items()]
        padded = [[cell.ljust(width) for cell in column] for column in columns for width in [max(map(len, column))]]
        lines = ("  ".join(line).rstrip() for line in zip(*padded, strict=True))
        while some := list(islice(lines, _LINES)):
            click.echo("\n".join(some))

    def _blocks(self, rows: int, cells: Mapping[str, Sequence[Text]], every: bool) -> None:
        for number in range(rows):
            block = _facts_table()
            for name, column in cells.items():
                if column[number] or every:
                    block.add_row(Text(name), column[number])
            self.out.print(block, *([""] if number < rows - 1 else []))

    def _detail(self, answer: Any) -> None:
        units = units_of(type(answer))
        facts = {field.name: getattr(answer, field.name) for field in dataclasses.fields(answer)}
        plain = {name: value for name, value in facts.items() if not _is_nested(value)}
        table = _facts_table()
        for name, value in plain.items():
            if value not in (None, "", [], {}):
                are_lines = isinstance(value, list) and any(" " in str(item) for item in value)
                shown = Text("\n".join(value)) if are_lines else _cell(value, units.get(name))
                table.add_row(title(name), shown)
        self.out.print(table)
        for name, value in facts.items():
            if name in plain or not value:
                continue
            self.out.print(Text(f"\n{title(name)}", style="bold"))
            if isinstance(value, Mapping):
                for key, item in value.items():
                    self.out.print(Text(f"  {key} = {show_fact(key, item)}"))
            else:
                self._rows(value)


@dataclasses.dataclass(frozen=True)
class _VerdictRow:
    version: str
    committed_at: datetime
    verdict: str
    reasons: list[str]


class _Pipe(Console):
    """Raises when the reader closes the pipe; Rich would end the process."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def _facts_table() -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    return table


def _is_nested(value: Any) -> bool:
    if isinstance(value, Mapping):
        return True
    return isinstance(value, list) and bool(value) and dataclasses.is_dataclass(value[0])


def _cell(value: Any, unit: str | None = None) -> Text:
    return Text(show_value(value, unit), style=_STYLES.get(str(value), "") if isinstance(value, str) else "")


def _data_cell(value: Any) -> Text:
    """A value of a row, unchanged; null is dimmed to distinguish it from the text null."""
    return Text(show_as_is(value), style="dim" if value is None else "")
