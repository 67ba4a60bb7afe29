"""`lakewarden demo`: creates a small lake with a realistic history, and runs the main features on it.

Every command that it shows is really run, by the same code that runs a typed one.
"""

from __future__ import annotations

import shutil
import sys
from contextlib import redirect_stdout
from decimal import Decimal
from pathlib import Path
from shlex import join
from typing import TYPE_CHECKING, Any

import click

from lakewarden.display import json_bytes
from lakewarden.errors import AlreadyExists, LakewardenError

if TYPE_CHECKING:
    from rich.console import Console

    from lakewarden.warden import Warden

_MARK = ".lakewarden-demo"
_CUSTOMER = "42"
_SUBJECTS = """
subjects: {customer: {crm.customers: id, sales.orders: customer_id, web.events: customer_id}}
"""
_VIEW_SET = """\
  name: daily_sales
  source: sales.orders
  insert_time: ordered_at
  sql: SELECT id AS order_id, status, {amount} FROM sales.orders WHERE ordered_at >= {{begin}} AND ordered_at < {{end}}
"""
_DAYS = ("--begin", "2026-03-01", "--end", "2026-03-09", "--delta", "1d")
_SQL = "SELECT status, count(*) AS orders, count_if(is_large) AS large FROM viewsets.daily_sales GROUP BY status"
_BACKFILLS = "backfills: {folders: [backfills]}\n"
_BACKFILL = {
    "003_fees.migration.sql": "CREATE TABLE {db}.fees (order_id BIGINT, cents BIGINT) USING iceberg",
    "003_fees.backfill.meta": """{"migration_version": 3, "batch_size": 8000, "checkpoint_columns": ["id"],
 "mode": "branch", "gates": {"unique_keys": ["order_id"], "max_null_ratio": {"cents": 0}}}""",
    "003_fees.backfill.sql": """INSERT INTO {db}.fees
SELECT id, CAST(amount * 2 AS BIGINT) FROM {db}.orders WHERE id > {checkpoint_id} ORDER BY id LIMIT {batch_size}""",
}
_FEES = ("--database", "sales", "--version", "3")
_NEXT = (
    ("lake doctor", "check everything Lakewarden depends on"),
    ("table show crm.customers", "columns, partitions, branches, tags"),
    ("version read sales.orders@month-end --where \"status = 'open'\" --limit 5", "read any version"),
    ("version branch sales.orders@month-end what-if", "start a branch from a tag"),
    ("compaction analyze --all", "which tables need it, why, and what it would save"),
    ("policy show sales.orders", "the settings of a table, and where each comes from"),
    ("viewset partitions daily_sales", "what a view set holds"),
    ("orphan find --all", "files that no version references"),
    ("erasure list", "erasure requests and their progress"),
    ("operation show ID", "everything an operation did"),
)


@click.command("demo", short_help="Create a small lake and run the main features on it")
@click.argument("directory", type=click.Path(path_type=Path), default=Path("demo-lake"))
@click.option("--fresh", is_flag=True, help="Replace the lake of an earlier demo.")
@click.option("--config", hidden=True)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document; what is shown goes to stderr.")
def command(directory: Path, fresh: bool, config: str | None, as_json: bool) -> int:
    """Create a small lake in DIRECTORY (default: ./demo-lake) and run the main features on it.

    It takes a minute or two. Spark starts once, on this machine.
    """
    from rich.console import Console

    from lakewarden.features.lake.init import Init

    outer = click.get_current_context().find_root()
    _clear(directory, fresh)
    Init(directory=directory).make()
    with (directory / "lakewarden.yaml").open("a") as configuration:
        configuration.write(_SUBJECTS + _BACKFILLS)
    (directory / _MARK).write_text("Made by lakewarden demo, which may remove this folder.\n")
    if not as_json and not outer.obj.json:
        _Tour(Console(highlight=False, soft_wrap=True), directory, outer.command).run()
        return 0
    with redirect_stdout(sys.stderr):
        _Tour(Console(highlight=False, soft_wrap=True), directory, outer.command).run()
    click.echo(json_bytes(_summary(directory), indent=2))
    return 0


def _summary(directory: Path) -> dict[str, Any]:
    """The demo's lake, as a document."""
    from lakewarden.warden import Warden

    with Warden.open(directory) as warden:
        return {"lake": str(directory), "tables": warden.table.list(), "operations": warden.operation.list()}


def _clear(directory: Path, fresh: bool) -> None:
    if not directory.exists() or (directory.is_dir() and not any(directory.iterdir())):
        return
    if not (directory / _MARK).is_file():
        raise AlreadyExists(f"{directory} is not empty and not a demo", "Name another folder.")
    if not fresh:
        raise AlreadyExists(f"{directory} has an earlier demo", "Replace it with --fresh, or name another folder.")
    shutil.rmtree(directory)


class _Tour:
    """One walk through the lake."""

    def __init__(self, console: Console, directory: Path, lakewarden: click.Command) -> None:
        self._console = console
        self._directory = directory
        self._lakewarden = lakewarden

    def run(self) -> None:
        from lakewarden.doors.cli.demo_lake import DAYS, fill, load_day
        from lakewarden.doors.cli.render import Screen
        from lakewarden.warden import Warden

        self._title("Create a lake with a realistic history")
        with Screen(as_json=False).watching():
            warden = Warden.open(self._directory)
            spark = warden.ground.spark
            for done in fill(spark):
                self._console.print(f"  {done}", style="dim")

        self._title("What is in it? From metadata, without Spark")
        self._type("table", "list")
        self._type("version", "list", "sales.orders", "--limit", "4")

        self._title("The books are closed: tag the current version of every table")
        self._type("version", "tag", "*.*", "month-end", "--keep", "365d", "--note", "books closed")
        before = _totals(warden)

        self._title("Then a load goes wrong: yesterday's orders again, with amounts 100 times too high")
        load_day(spark, DAYS - 1, factor=100)
        self._type("version", "list", "sales.orders", "--limit", "2")
        self._title("What did it change? Only files that differ are read, without Spark")
        self._type("compare", "data", "sales.orders", "month-end", "--key", "id", "--sample-size", "2")
        broken = _totals(warden)

        self._title("Roll it back: first the plan, which changes nothing, then the same command with --apply")
        self._type("version", "rollback", "sales.orders@month-end")
        self._type("version", "rollback", "sales.orders@month-end", "--apply")
        after = _totals(warden)
        self._compare(before, broken, after)

        self._title("Nothing is lost: the bad version is tagged too")
        self._type("version", "list", "sales.orders", "--tagged")

        self._title("Table health: the worst tables first, each with the command that helps most")
        self._type("table", "health")
        self._title("All upkeep that the policies ask for: the plan first, then the same command with --apply")
        self._type("policy", "run")
        self._type("policy", "run", "--apply")
        self._type("table", "health")
        self._same(after, _totals(warden), "upkeep")

        self._title("Retention: each version is kept or expired for a reason; the plan lists every file to be removed")
        self._type("retention", "expire", "sales.orders", "--keep-last", "3", "--keep-days", "0")
        self._type("retention", "expire", "sales.orders", "--keep-last", "3", "--keep-days", "0", "--apply")
        self._same(after, _totals(warden), "expiry")
        self._title("Removed files stay in quarantine for seven days and can be restored")
        self._type("orphan", "list")
        self._title("Why is storage still high? What only one tag or branch keeps, largest first")
        self._type("version", "held", "sales.orders")

        self._view_set()
        self._backfill()

        self._title("Customer 42 asks for erasure. The configuration names the key column of every table")
        self._console.print(f"\n  {_SUBJECTS.strip()}", style="dim", markup=False)
        self._type("erasure", "request", "--subject", "customer", "--value", _CUSTOMER, "--deadline", "30d")
        self._title("What would be erased, per version, in every branch and tag; then the same command with --apply")
        self._type("erasure", "purge", "--all")
        self._type("erasure", "purge", "--all", "--apply")
        request = warden.erasure.list()[0].id
        self._title("Every tag still exists with all other rows, and there is a certificate")
        self._type("version", "read", "sales.orders@month-end", "--where", f"customer_id = {_CUSTOMER}", "--raw")
        self._type("version", "list", "sales.orders", "--tagged")
        page = self._directory / "certificate.html"
        self._type("erasure", "certificate", request, "--out", str(page))
        self._type("erasure", "check-certificate", str(page), "--key", warden.lake.key().public_key)
        self._title("The value is no longer stored, but a keyed digest still recognises it")
        self._type("erasure", "recognise", request, "--value", _CUSTOMER)
        self._type("operation", "list")
        self._end()

    def _view_set(self) -> None:
        """A materialisation by day, whose schema moves on."""
        self._title("A view set: sales by day, each partition with the hash of its schema")
        path = self._directory / "daily_sales.yaml"
        path.write_text(_VIEW_SET.format(amount="amount"))
        self._console.print(f"\n{path.read_text()}", style="dim", markup=False)
        self._type("viewset", "register", str(path))
        self._type("viewset", "materialize", "daily_sales", *_DAYS)
        self._title(
            "Its schema moves on, and its partitions are incompatible: heal them in the cheapest way that is right"
        )
        path.write_text(_VIEW_SET.format(amount="amount, amount > 150 AS is_large"))
        self._type("viewset", "register", str(path))
        self._type("viewset", "incompatible")
        self._type("viewset", "heal", "daily_sales", "--only", "regenerate")
        self._type("viewset", "heal", "daily_sales", "--only", "regenerate", "--apply")
        self._title("SQL over tables, view sets and lists, on DuckDB, without Spark")
        self._type("query", _SQL)

    def _backfill(self) -> None:
        """A new table, filled from an existing one."""
        self._title("A migration creates a table, and a backfill fills it: batch by batch on a branch, published once")
        folder = self._directory / "backfills"
        folder.mkdir()
        for name, text in _BACKFILL.items():
            (folder / name).write_text(f"{text}\n")
            self._console.print(f"\n  {name}\n{text}", style="dim", markup=False)
        self._type("migration", "apply", "--database", "sales")
        self._type("backfill", "run", *_FEES, "--max-batches", "2")
        self._title("It is paused, and main does not have its rows yet; it would go on after a kill, too")
        self._type("backfill", "status", *_FEES)
        self._type("backfill", "resume", *_FEES)
        self._title("What it wrote can be removed again: the plan names exactly its rows")
        self._type("backfill", "undo", *_FEES)

    def _type(self, *arguments: str) -> None:
        """Run a command as if it had been typed, below the line that shows it."""
        self._console.print(f"\n$ lakewarden {join(arguments)}", style="bold cyan")
        given = ["--config", str(self._directory), *arguments]
        self._lakewarden.main(args=given, prog_name="lakewarden", standalone_mode=False, obj=None)

    def _title(self, text: str) -> None:
        self._console.print(f"\n{text}", style="bold")

    def _compare(self, before: _Totals, broken: _Totals, after: _Totals) -> None:
        from rich import box
        from rich.table import Table

        table = Table(
            box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, title="\nsales.orders", title_justify="left"
        )
        for column in ("", "at month-end", "after the bad load", "after the rollback"):
            table.add_column(column, justify="right" if column else "left")
        table.add_row("rows", *(f"{totals[0]:,}" for totals in (before, broken, after)))
        table.add_row("amount", *(f"{totals[1]:,.2f}" for totals in (before, broken, after)))
        self._console.print(table)
        self._same(before, after, "rollback")

    def _same(self, before: _Totals, after: _Totals, what: str) -> None:
        if before != after:
            raise LakewardenError(f"after the demo's {what} its orders are not the same as before", "This is a defect.")

    def _end(self) -> None:
        self._title(f"The lake stays in {self._directory}. Try next, with --config {self._directory}:")
        width = max(len(command) for command, _ in _NEXT)
        for command, why in _NEXT:
            self._console.print(f"  lakewarden {command:<{width}}  {why}", markup=False)


_Totals = tuple[int, Decimal]


def _totals(warden: Warden) -> _Totals:
    """Rows and amount as any reader of main sees them now."""
    version = warden.ground.tables.resolve("sales.orders")
    _, batches = warden.ground.rows.batches(version, columns=["amount"])
    amounts = [amount for batch in batches for amount in batch.column("amount").to_pylist()]
    return len(amounts), sum(amounts, Decimal())
