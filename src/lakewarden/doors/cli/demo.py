"""`lakewarden demo`: makes a small lake that looks lived in, and shows on it what Lakewarden does.

Every command that it shows is really run, by the same code that a typed one would be.
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
_NEXT = (
    ("lake doctor", "is everything around the lake well?"),
    ("table show crm.customers", "columns, partitions, branches, tags"),
    ("version read sales.orders@month-end --where \"status = 'open'\" --limit 5", "read any version"),
    ("version branch sales.orders@month-end what-if", "start a branch from a tag"),
    ("compaction analyze --all", "which tables need it, why, and what it would bring"),
    ("policy show sales.orders", "what holds for a table, and where that was said"),
    ("orphan find --all", "files that no version of a table needs"),
    ("erasure list", "who asked to be forgotten, and how far that is"),
    ("operation show ID", "all that an operation did"),
)


@click.command("demo", short_help="Make a small lake and show on it what Lakewarden does")
@click.argument("directory", type=click.Path(path_type=Path), default=Path("demo-lake"))
@click.option("--fresh", is_flag=True, help="Replace the lake of an earlier demo.")
@click.option("--config", hidden=True)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document; what is shown goes to stderr.")
def command(directory: Path, fresh: bool, config: str | None, as_json: bool) -> int:
    """Make a small lake in DIRECTORY (./demo-lake unless given) and show on it what Lakewarden does.

    It takes a minute or two: Spark starts once, on this machine.
    """
    from rich.console import Console

    from lakewarden.features.lake.init import Init

    outer = click.get_current_context().find_root()
    _clear(directory, fresh)
    Init(directory=directory).make()
    with (directory / "lakewarden.yaml").open("a") as configuration:
        configuration.write(_SUBJECTS)
    (directory / _MARK).write_text("Made by lakewarden demo, which may remove this folder.\n")
    if not as_json and not outer.obj.json:
        _Tour(Console(highlight=False, soft_wrap=True), directory, outer.command).run()
        return 0
    with redirect_stdout(sys.stderr):
        _Tour(Console(highlight=False, soft_wrap=True), directory, outer.command).run()
    click.echo(json_bytes(_summary(directory), indent=2))
    return 0


def _summary(directory: Path) -> dict[str, Any]:
    """The lake that the demo made, for programs."""
    from lakewarden.warden import Warden

    with Warden.open(directory) as warden:
        return {"lake": str(directory), "tables": warden.table.list(), "operations": warden.operation.list()}


def _clear(directory: Path, fresh: bool) -> None:
    if not directory.exists() or (directory.is_dir() and not any(directory.iterdir())):
        return
    if not (directory / _MARK).is_file():
        raise AlreadyExists(f"{directory} holds something that is not a demo", "Name another folder.")
    if not fresh:
        raise AlreadyExists(f"{directory} holds an earlier demo", "Replace it with --fresh, or name another folder.")
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

        self._title("A lake that looks lived in")
        with Screen(as_json=False).watching():
            warden = Warden.open(self._directory)
            spark = warden.ground.spark
            for done in fill(spark):
                self._console.print(f"  {done}", style="dim")

        self._title("What is there? Answered from metadata, without Spark")
        self._type("table", "list")
        self._type("version", "list", "sales.orders", "--limit", "4")

        self._title("The books are closed: one name for this state of every table")
        self._type("version", "tag", "*.*", "month-end", "--keep", "365d", "--note", "books closed")
        before = _totals(warden)

        self._title("Then a load goes wrong: yesterday's orders once more, a hundred times too dear")
        load_day(spark, DAYS - 1, factor=100)
        self._type("version", "list", "sales.orders", "--limit", "2")
        broken = _totals(warden)

        self._title("Take it back: first the plan, which changes nothing, then the same with --apply")
        self._type("version", "rollback", "sales.orders@month-end")
        self._type("version", "rollback", "sales.orders@month-end", "--apply")
        after = _totals(warden)
        self._compare(before, broken, after)

        self._title("Nothing is lost: the bad state has a name too, and the journal says who did what")
        self._type("version", "list", "sales.orders", "--tagged")

        self._title("In the morning: how well are the tables, and what helps most?")
        self._type("table", "health")
        self._title("All the upkeep that the policies ask for: the plan first, then the same with --apply")
        self._type("policy", "run")
        self._type("policy", "run", "--apply")
        self._type("table", "health")
        self._same(after, _totals(warden), "upkeep")

        self._title("Old versions: each one kept or expired, with every reason; every file that goes is in the plan")
        self._type("retention", "expire", "sales.orders", "--keep-last", "3", "--keep-days", "0")
        self._type("retention", "expire", "sales.orders", "--keep-last", "3", "--keep-days", "0", "--apply")
        self._same(after, _totals(warden), "expiry")
        self._title("What went is in quarantine for seven days, from where it can be brought back")
        self._type("orphan", "list")
        self._title("Why is storage still high? What only one tag or branch keeps, the largest first")
        self._type("version", "held", "sales.orders")

        self._title("Customer 42 asks to be forgotten. Whose rows these are, the configuration tells for every table")
        self._console.print(f"\n  {_SUBJECTS.strip()}", style="dim", markup=False)
        self._type("erasure", "request", "--subject", "customer", "--value", _CUSTOMER, "--deadline", "30d")
        self._title("What erasing takes, version by version, in every branch and tag; then the same with --apply")
        self._type("erasure", "purge", "--all")
        self._type("erasure", "purge", "--all", "--apply")
        request = warden.erasure.list()[0].id
        self._title("Every tag is where it was, all others' rows are in it, and there is a certificate")
        self._type("version", "read", "sales.orders@month-end", "--where", f"customer_id = {_CUSTOMER}", "--raw")
        self._type("version", "list", "sales.orders", "--tagged")
        page = self._directory / "certificate.html"
        self._type("erasure", "certificate", request, "--out", str(page))
        self._type("erasure", "check-certificate", str(page), "--key", warden.lake.key().public_key)
        self._title("The value itself is forgotten, but shown again it is recognised, by a keyed digest")
        self._type("erasure", "recognise", request, "--value", _CUSTOMER)
        self._type("operation", "list")
        self._end()

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
            raise LakewardenError(f"after the demo's {what} its orders are not what they were", "This is a defect.")

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
