"""`lakewarden query`: one SELECT over tables and lists."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

import click

from lakewarden.doors.cli.global_options import Global, global_options

_HELP = """Run one SELECT over tables, view sets and lists, and print its rows.

SQL runs on DuckDB in this process, without a JVM; with --engine spark it is Spark's SQL, for large tables. Rows
that are hidden by erasure requests are not read. A view set is read as its instance global, with its current schema.

\b
A version of a table   "sales.orders@v1"
Lists                  list_view_sets(), list_partitions()
Another instance       view_instance('log_entries', 'p1')

Functions that change something run once, as operations in the journal, and without --apply. They may only be called
alone in FROM, or as an item of the outer SELECT list:

\b
materialize_partitions(view_set, begin, end, delta_seconds)
regenerate_partitions(view_set, begin, end, delta_seconds)
retire_partitions(view_set, instance, begin, end)
retire_partition_by_file(path)
retire_partition_by_metadata(view_set, instance, begin, end, file_schema_hash)

\b
SQL  One SELECT statement; - reads it from stdin.
"""


def _run(sql: str, engine: str, plan: bool, config: Path | None, json: bool) -> int:
    from lakewarden.doors.cli.render import Screen
    from lakewarden.warden import Warden

    outer: Global = click.get_current_context().find_root().obj
    screen = Screen(json or outer.json)
    text = sys.stdin.read() if sql == "-" else sql
    with screen.watching() as watch, Warden.open(config or outer.config) as warden:
        found = warden.queried(text, engine, plan, watch=watch)  # type: ignore[arg-type] # click checks the choice
    with suppress(BrokenPipeError):
        screen.queried(found, plan)
        sys.stdout.flush()
    return 0


command = click.Command(
    "query",
    params=[
        click.Argument(["sql"], type=str),
        click.Option(
            ["--engine"],
            type=click.Choice(["duckdb", "spark"]),
            default="duckdb",
            show_default=True,
            help="What runs the statement, and whose SQL it is.",
        ),
        click.Option(["--plan"], is_flag=True, help="Only show what its functions would change."),
        *global_options(),
    ],
    callback=_run,
    help=_HELP,
    short_help="Run one SELECT over tables and lists",
    context_settings={"max_content_width": 100},
)
