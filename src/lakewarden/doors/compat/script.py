"""What the maintenance scripts share: which tables are meant, dry runs, one line for each table, and exit codes."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from lakewarden.doors.compat.iceberg_catalog import IcebergCatalog, version_of
from lakewarden.errors import Interrupted, LakewardenError
from lakewarden.warden import Warden

Result = dict[str, Any]
_RULE = "=" * 80


def parser(description: str) -> argparse.ArgumentParser:
    """The options of every script: which tables, and whether to act."""
    options = argparse.ArgumentParser(description=description, allow_abbrev=False)
    options.add_argument("--all", action="store_true", help="Every table of every namespace.")
    options.add_argument("--namespace", help="The namespace of the table, or without --table all tables in it.")
    options.add_argument("--table", help="The name of one table; requires --namespace.")
    options.add_argument("--dry-run", action="store_true", help="Only show what would be done: the default.")
    options.add_argument("--execute", action="store_true", help="Do it, unless --dry-run is given too.")
    options.add_argument("--config", metavar="FILE", help="Else $LAKEWARDEN_CONFIG or ./lakewarden.yaml.")
    return options


def check(options: argparse.ArgumentParser, given: argparse.Namespace) -> None:
    """End with exit code 2 unless it is clear which tables are meant."""
    if given.table is not None and given.namespace is None:
        options.error("--table requires --namespace")
    if given.all == (given.namespace is not None):
        options.error("give --all, or --namespace, or --namespace and --table")


def run(given: argparse.Namespace, work: Callable[[IcebergCatalog, list[str], bool], list[Result]]) -> list[Result]:
    """Open the installation and let a script work on the tables that are meant."""
    dry_run = given.dry_run or not given.execute
    with Warden.open(given.config) as warden:
        if given.table is not None:
            tables = [warden.table.show(version_of(given.namespace, given.table)).table]
        else:
            tables = list(tables_of(warden, None if given.all else [given.namespace]))
        return work(IcebergCatalog(warden), tables, dry_run)


def tables_of(warden: Warden, namespaces: Iterable[str] | None) -> Iterator[str]:
    """The tables of some namespaces, or all; without those that the configuration says to skip."""
    tables, settings = warden.ground.tables, warden.ground.settings
    for namespace in [None] if namespaces is None else namespaces:
        for name in tables.names(namespace=namespace):
            if not settings.skips(name.lake, name.within_lake):
                yield str(name)


def guarded(warden: Warden, table: str, work: Callable[[], Result], without: Mapping[str, Any]) -> Result:
    """What came of one table. One that fails says so in its result, and does not stop the others."""
    name = warden.ground.tables.name(table)
    shown = name.within_lake if name.lake == warden.ground.settings.default_lake else str(name)
    try:
        return {"table": shown, **work(), "error": None}
    except Interrupted:  # somebody wants all of it to stop
        raise
    except LakewardenError as error:
        return {"table": shown, **without, "error": str(error)}


def finish(headline: str, lines: Iterable[str], results: list[Result]) -> int:
    """Print the summary and what failed; the exit code is 1 where anything did."""
    sys.stdout.write("\n".join(["", headline, _RULE, *lines, ""]))
    failed = [result for result in results if result["error"]]
    for result in failed:
        sys.stderr.write(f"{result['table']}: {result['error']}\n")
    return 1 if failed else 0


def told(script: Callable[[], int]) -> int:
    """Run a script; an error that ends it becomes one line and its exit code."""
    try:
        return script()
    except LakewardenError as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return error.exit_code
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted. lakewarden operation list shows what was begun, if anything was.\n")
        return 1
