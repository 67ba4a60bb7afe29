"""Shared by the maintenance scripts: selecting tables, dry runs, one line per table, and exit codes."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from lakewarden.doors.compat.iceberg_catalog import IcebergCatalog, version_of
from lakewarden.errors import Interrupted, LakewardenError
from lakewarden.warden import Warden

Result = dict[str, Any]
Work = Callable[[str, bool], Result]
"""Takes the full name of a table and whether it is a dry run."""
_RULE = "=" * 80


def parser(description: str) -> argparse.ArgumentParser:
    """A parser with the options of every script: which tables, and whether to act."""
    options = argparse.ArgumentParser(description=description, allow_abbrev=False)
    options.add_argument("--all", action="store_true", help="All tables of all namespaces.")
    options.add_argument("--namespace", help="The namespace of --table; without --table, all tables in it.")
    options.add_argument("--table", help="The name of one table; requires --namespace.")
    options.add_argument("--dry-run", action="store_true", help="Only show what would be done: the default.")
    options.add_argument("--execute", action="store_true", help="Apply, unless --dry-run is given too.")
    options.add_argument("--config", metavar="FILE", help="By default $LAKEWARDEN_CONFIG or ./lakewarden.yaml.")
    return options


def main(
    options: argparse.ArgumentParser,
    arguments: Sequence[str] | None,
    work: Callable[[IcebergCatalog, argparse.Namespace], Work],
    line: Callable[[Result], str],
    headline: str,
    summary: Callable[[list[Result]], Iterable[str]],
) -> int:
    """Run a script on the selected tables; returns its exit code."""
    given = options.parse_args(arguments)
    if given.table is not None and given.namespace is None:
        options.error("--table requires --namespace")
    if given.all == (given.namespace is not None):
        options.error("give --all, or --namespace, or --namespace and --table")
    try:
        results = list(_results(given, work, line))
    except LakewardenError as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return error.exit_code
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted. lakewarden operation list shows operations that were started.\n")
        return 1
    sys.stdout.write("\n".join(["", headline, _RULE, *summary(results), ""]))
    failed = [result for result in results if result["error"]]
    for result in failed:
        sys.stderr.write(f"{result['table']}: {result['error']}\n")
    return 1 if failed else 0


def _results(
    given: argparse.Namespace,
    work: Callable[[IcebergCatalog, argparse.Namespace], Work],
    line: Callable[[Result], str],
) -> Iterator[Result]:
    """The result of each table, printed as soon as it is known."""
    with Warden.open(given.config) as warden:
        if given.table is not None:
            tables = [warden.table.show(version_of(given.namespace, given.table)).table]
        else:
            tables = list(tables_of(warden, None if given.all else [given.namespace]))
        work_on = work(IcebergCatalog(warden), given)
        for table in tables:
            result = work_on(table, given.dry_run or not given.execute)
            sys.stdout.write(f"{result['table']}: {'failed' if result['error'] else line(result)}\n")
            yield result


def tables_of(warden: Warden, namespaces: Iterable[str] | None) -> Iterator[str]:
    """The tables of some namespaces, or all; without those that the configuration skips."""
    tables, settings = warden.ground.tables, warden.ground.settings
    for namespace in [None] if namespaces is None else namespaces:
        for name in tables.names(namespace=namespace):
            if not settings.skips(name.lake, name.within_lake):
                yield str(name)


def all_results(
    warden: Warden, namespaces: Iterable[str] | None, work: Callable[[str], Result], without: Mapping[str, Any]
) -> list[Result]:
    """The results for the tables of some namespaces, or all; a namespace that does not exist has one with its error."""
    results: list[Result] = []
    for namespace in [None] if namespaces is None else namespaces:
        try:
            found = list(tables_of(warden, None if namespace is None else [namespace]))
        except LakewardenError as error:
            results.append({"table": f"{namespace}.*", **without, "error": str(error)})
        else:
            results += [work(table) for table in found]
    return results


def guarded(warden: Warden, table: str, work: Callable[[], Result], without: Mapping[str, Any]) -> Result:
    """The result for one table. A failure is part of the result and does not stop the other tables."""
    name = warden.ground.tables.name(table)
    shown = name.within_lake if name.lake == warden.ground.settings.default_lake else str(name)
    try:
        return {"table": shown, **work(), "error": None}
    except Interrupted:  # stops all tables
        raise
    except LakewardenError as error:
        return {"table": shown, **without, "error": str(error)}
