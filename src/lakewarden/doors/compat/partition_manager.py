"""The command `partition-manager`, with the options and the output that operators' scripts use.

partition-manager --config partman.yaml maintain --noop
partition-manager --dburl sql://user:password@host:3306/shop add --table orders --days 30

It needs no lakewarden.yaml. If there is one, its control database and its lakes are used; otherwise recorded positions
are in partition-manager.db in the state folder.
"""

from __future__ import annotations

import argparse
import ctypes
import logging
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from lakewarden import config
from lakewarden.config import DatabaseAddress, Environment, SequenceSettings, Settings
from lakewarden.doors.compat.partition_drops import all_tables, drops
from lakewarden.doors.logs import RedactingFormatter
from lakewarden.errors import BadValue, ConfigProblem, LakewardenError
from lakewarden.warden import Planned, Warden

Output = dict[str, Any]
"""What is printed, by table."""

log = logging.getLogger("lakewarden.partition_manager")
_STATS = (
    "partitions",
    "time_since_newest_partition",
    "time_since_oldest_partition",
    "mean_partition_delta",
    "max_partition_delta",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the exit code is 0 on success, 1 if a table failed, 2 for wrong use."""
    options = _parser()
    given = options.parse_args(arguments)
    _hide_arguments(given.dburl)
    handler = logging.StreamHandler()
    handler.setFormatter(RedactingFormatter("%(asctime)s - %(name)s - %(levelname)s - %(message)s"))
    logging.basicConfig(level=given.log_level, handlers=[handler])
    if given.run is None:
        options.print_help()
        return 0
    try:
        with _opened(given) as warden:
            output, failed = given.run(warden, given)
            sys.stdout.write("".join(_lines(output)))
    except LakewardenError as error:
        log.error("%s", error)
        return error.exit_code
    except KeyboardInterrupt:
        log.error("Interrupted. What was applied stays applied.")
        return 1
    return 1 if failed else 0


def _parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser("partition-manager", description="Maintain partitions of MariaDB tables.")
    options.add_argument("--log-level", type=_log_level, default=logging.INFO, help="debug, info, warning or error.")
    options.add_argument("--prometheus-stats", type=Path, metavar="FILE", help="Write metrics to this file.")
    options.add_argument("--config", "-c", type=Path, metavar="FILE", help="A partitionmanager: file.")
    where = options.add_mutually_exclusive_group()
    where.add_argument("--mariadb", metavar="PROGRAM", help="The mariadb command line client.")
    where.add_argument("--dburl", metavar="URL", help="sql://user:password@host:port/database")
    options.set_defaults(run=None)
    commands = options.add_subparsers(dest="command")
    maintain = commands.add_parser("maintain", aliases=["add"], help="add, rename and move empty partitions")
    maintain.add_argument("--noop", "-n", action="store_true", help="Only print what would be done.")
    maintain.add_argument("--days", "-d", type=int, help="Days that a partition should take to fill.")
    maintain.set_defaults(run=_maintain)
    stats = commands.add_parser("stats", help="print figures about partitions")
    stats.set_defaults(run=_stats)
    drop = commands.add_parser("drop", help="print which partitions are past retention; nothing is dropped")
    drop.set_defaults(run=_drop)
    migrate = commands.add_parser("migrate", help="print how to partition a table")
    files = migrate.add_mutually_exclusive_group(required=True)
    files.add_argument("--in", "-i", dest="infile", type=Path, help="Positions that were written before.")
    files.add_argument("--out", "-o", dest="outfile", type=Path, help="Write positions to this file.")
    migrate.add_argument("--assume-partitioned-on", action="append", default=[], metavar="COLUMN")
    migrate.set_defaults(run=_migrate)
    for command in (maintain, stats, drop, migrate):
        command.add_argument("--table", "-t", nargs="+", default=[], help="Only these tables.")
    return options


def _maintain(warden: Warden, given: argparse.Namespace) -> tuple[Output, bool]:
    planned: Planned = warden.sequence.maintain(table=given.table, noop=given.noop, days=given.days)
    for finding in planned.plan.refused:
        log.error("%s", finding.message)
    statements: dict[str, list[str]] = {}
    for action in planned.plan.actions:
        statements.setdefault(str(action.arguments["table"]), []).append(str(action.arguments["sql"]))
    if planned.barred:
        if _sequences(warden).prometheus_stats is not None:
            warden.sequence.stats(table=given.table)
        output = {table: {"sql": "\n".join(all), "noop": True} for table, all in statements.items()}
        return output, bool(planned.plan.refused)
    failed = _applied(warden, planned)
    done = {table: all for table, all in statements.items() if table not in failed}
    output = {table: {"sql": "\n".join(all), "output": []} for table, all in done.items()}
    return output, bool(failed or planned.plan.refused)


def _applied(warden: Warden, planned: Planned) -> set[str]:
    """Apply a plan; returns the tables that failed."""
    try:
        planned.apply()
    except LakewardenError as error:
        if not planned.is_empty:
            log.error("%s", error)
        operation = error.details.get("operation")
        steps = warden.operation.show(operation).steps if operation else []
        done = {step.subject for step in steps if step.state == "verified"}
        return {str(a.arguments["table"]) for a in planned.plan.actions if a.subject not in done}
    return set()


def _stats(warden: Warden, given: argparse.Namespace) -> tuple[Output, bool]:
    chosen = given.table or list(_sequences(warden).tables)
    found = warden.sequence.stats(table=chosen or all_tables(_sequences(warden)))
    for each in found:
        if each.problem:
            log.log(logging.ERROR if chosen else logging.DEBUG, "%s: %s", each.table, each.problem)
    known = [asdict(each) for each in found if not each.problem]
    output = {each["table"]: {key: each[key] for key in _STATS if each[key] is not None} for each in known}
    return output, bool(chosen) and any(each.problem for each in found)


def _drop(warden: Warden, given: argparse.Namespace) -> tuple[Output, bool]:
    return drops(_sequences(warden), given.table, warden.ground.clock())


def _migrate(warden: Warden, given: argparse.Namespace) -> tuple[Output, bool]:
    common = {"table": given.table, "assume_partitioned_on": given.assume_partitioned_on}
    if given.outfile is not None:
        warden.sequence.record(given.outfile, **common)
        return {}, False
    found = warden.sequence.convert(given.infile, **common)
    for each in found:
        log.warning("%s: %s", each.table, each.problem or each.warning)
    return {each.table: [each.sql] for each in found if each.sql}, any(each.problem for each in found)


def _lines(output: Mapping[str, Any]) -> Iterator[str]:
    for table, value in output.items():
        yield f"{table}:\n"
        if isinstance(value, Mapping):
            yield from (f" {key}: {each}\n" for key, each in value.items())
        else:
            yield from (f" - {each}\n" for each in value)


def _opened(given: argparse.Namespace) -> Warden:
    environment = Environment.read()
    try:
        found = config.find(None, environment)
    except ConfigProblem:
        if environment.config is not None:
            raise
        environment.logs.mkdir(parents=True, exist_ok=True)
        state = f"sqlite:///{environment.logs / 'partition-manager.db'}"
        return Warden(Settings(sequences=_with_options(given, None), state=state), environment)
    settings = config.load(found, environment)
    return Warden(settings.model_copy(update={"sequences": _with_options(given, settings.sequences)}), environment)


def _with_options(given: argparse.Namespace, configured: SequenceSettings | None) -> SequenceSettings:
    """The settings of the file, or those that are configured; options of the command line win."""
    sequences = config.load_sequences(given.config) if given.config else configured or SequenceSettings()
    changes: dict[str, Any] = {}
    if given.dburl is not None:
        try:
            DatabaseAddress.parse(given.dburl)
        except ValueError as error:
            raise BadValue(f"--dburl: {error}") from None
        changes = {"dburl": SecretStr(given.dburl), "mariadb": None}
    elif given.mariadb is not None:
        changes = {"dburl": None, "mariadb": given.mariadb}
    if given.prometheus_stats is not None:
        changes["prometheus_stats"] = given.prometheus_stats.absolute()
    return sequences.model_copy(update=changes)


def _sequences(warden: Warden) -> SequenceSettings:
    found = warden.ground.settings.sequences
    assert found is not None
    return found


def _log_level(text: str) -> int:
    level = logging.getLevelNamesMapping().get(text.upper())
    if level is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a log level")
    return level


def _hide_arguments(secret: str | None) -> None:
    """Overwrite a password in the arguments of this process, which everybody on the machine can list."""
    with suppress(OSError, ValueError, IndexError):
        if secret is None:
            return
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        start, end = int(fields[45]), int(fields[46])
        given = ctypes.string_at(start, end - start)
        place = given.find(secret.encode())
        if place >= 0:
            ctypes.memset(start + place, ord("x"), len(secret.encode()))


if __name__ == "__main__":
    sys.exit(main())
