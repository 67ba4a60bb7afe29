"""Plans a backfill: pins what it reads, and divides what is left of its source into batches."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING

from lakewarden.engine.rewrite.exchange import is_exchangeable
from lakewarden.engine.sql.batches import Reading
from lakewarden.engine.sql.sorted_column import Range
from lakewarden.engine.sql.tuples import Tuple
from lakewarden.errors import BadValue, Conflict, LakewardenError
from lakewarden.features.backfill import bad_rows, gates, throttle, withdrawn
from lakewarden.features.backfill.pinned import as_pinned, pins, read_versions, refuse_changed_columns, with_shown
from lakewarden.features.backfill.position import Found, Position, branch_of, refuse_unknown, whereabouts
from lakewarden.features.backfill.registration import Backfill
from lakewarden.lifecycle.action import Action, Estimate, digest
from lakewarden.lifecycle.requirement import SnapshotKept, TableIs, table_lease

if TYPE_CHECKING:
    from datetime import datetime

    from pyiceberg.table import Table

    from lakewarden.lifecycle.ground import Reader

WRITE, PUBLISH = "write", "publish"
BEGAN = "began"  # when an action was planned: like all times, no part of its id
_OF_A_TASK = 256 << 20  # source bytes
_BYTES_PER_SECOND = 20 << 20  # a rough guess, for estimates, as are the next ones
_UNPACKED, _ROW_GROUP, _BUFFERS = 4, 128 << 20, 48 << 20  # what Spark's shuffle and Iceberg's writer hold in memory
_PROCESS, _EXCHANGED = 100 << 20, 256 << 20  # what a process of Lakewarden's own tasks holds


@dataclass(frozen=True)
class Planned:
    """What is left to do of a backfill."""

    actions: tuple[Action, ...]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Next:
    """What the next batch reads, and in which run."""

    reading: Reading
    run: int
    shown: str = ""
    """Withdrawn requests whose rows are read as new."""
    settled: str = ""
    """Withdrawn requests that were open between two runs only."""
    warnings: tuple[str, ...] = ()


def check(lake: Reader, backfill: Backfill) -> Reading:
    """Check a backfill's files against the tables that they name; raises what is wrong."""
    backfill.refuse_other_tables(lake)
    reading = read_versions(lake, backfill, {})
    refuse_changed_columns(lake, reading)
    name = backfill.target(lake)
    table = lake.tables.load(name)
    if table.metadata.format_version > 2:
        raise BadValue(f"{name} is in format v{table.metadata.format_version}", "Backfills write to format v1 and v2.")
    throttle.check(lake, backfill)
    if backfill.files.meta.mode == "branch":
        if table.metadata.format_version > 2:
            raise BadValue(
                f"{backfill.files.meta_path}: mode: branch needs a target in format v1 or v2", "Remove mode."
            )
        gates.check_columns(backfill, table)
    if reading.insertion.needs_values() and reading.initial is None:
        raise BadValue(
            f"{backfill.files.path}: {reading.insertion.why_range_by_range()}",
            "Give initial_checkpoint: the first batch needs values, too.",
        )
    try:
        lake.batches.check(reading, (name.lake, *name.identifier))
    except BadValue as error:
        raise BadValue(f"{backfill.files.path}: {error.message}", error.hint) from None
    return reading


def plan(lake: Reader, backfill: Backfill, again: bool) -> Planned:
    """The batches that are left; none if the backfill is complete."""
    began = lake.clock()  # before anything hidden is left out
    backfill.refuse_other_tables(lake)
    name = backfill.target(lake)
    table = lake.tables.load(name)
    known = whereabouts(table, backfill.id)
    refuse_unknown(table, backfill.id, known)
    if known.lost is not None and not again:
        raise Conflict(
            f"{name} was rolled back behind batch {known.lost.position.batch} of backfill {backfill.id}",
            "Its rows are gone with it. Write them again with --again.",
        )
    last = known.current.position if known.current else None
    _check_mode(backfill, table, last)
    _check_columns(backfill, last)
    if last is not None and last.complete and not again:
        return Planned((), ("complete; --again writes rows that arrived since",))
    found = _continued(lake, backfill, known.current, began)
    if found is None:
        return Planned((), ("no rows arrived since",))
    reading, run, warnings = found.reading, found.run, found.warnings
    is_new = last is None or run > last.run
    after = None if is_new or last is None else _reached(lake, backfill, reading, last)
    size = backfill.files.meta.batch_size
    ranges = lake.batches.ranges(reading, after, size)
    is_on_branch = backfill.files.meta.mode == "branch"
    if not ranges and not (is_on_branch and after is not None):  # a batch without rows completes it
        ranges = [Range(after, after, 0)]
    if last is not None and last.sql != backfill.files.sql_hash:
        warnings = (*warnings, f"its SQL changed after batch {last.batch}, which was written with the former SQL")
    why = reading.insertion.why_range_by_range()
    if why and len(ranges) > 1:
        read = f"{len(ranges)} times {reading.bytes >> 20} MB"
        warnings = (*warnings, f"each batch is a query of its own, because {why}: it reads up to {read}")
    actions = _actions(lake, backfill, table, reading, ranges, run, last if not is_new else None)
    if is_on_branch:
        done = actions[-1].number("batch") if actions else last.batch if last else 0
        actions = (*actions, _publication(lake, backfill, table, reading, run, done))
        if not gates.sampled_batches(backfill) and backfill.files.meta.gates.sample_batches is None:
            warnings = (*warnings, "no batch is compared with what its SQL gives, which is not the same each time")
    known_requests = {key: ids for key, ids in (("shown", found.shown), ("settled", found.settled)) if ids}
    actions = tuple(
        replace(each, arguments={**each.arguments, **known_requests}, expects={BEGAN: began.isoformat()})
        for each in actions
    )
    return Planned(actions, warnings)


def _reached(lake: Reader, backfill: Backfill, reading: Reading, last: Position) -> Tuple | None:
    """The tuple that a run has reached; if it was erased, it is found by how many rows are before it."""
    if not last.forgotten:
        return reading.columns.load(last.checkpoint) if last.checkpoint else None
    # rows that were put aside may not be counted
    is_counted = not last.aside and not bad_rows.put_aside(lake, backfill, last.run)
    found = lake.batches.tuple_after(reading, last.rows, last.total) if is_counted else None
    if found is None:
        raise Conflict(
            f"backfill {backfill.id} stopped at a value that was erased since, and rows of its source changed, so its "
            "position is unknown",
            "Undo the backfill and run it again, or write the rest by a new version of its files with "
            "initial_checkpoint.",
        )
    return found


def _check_mode(backfill: Backfill, table: Table, last: Position | None) -> None:
    """Refuse to change the mode between two batches of a run."""
    is_on_branch, mode = branch_of(backfill.id) in table.metadata.refs, backfill.files.meta.mode
    if is_on_branch and mode == "direct":
        raise Conflict(
            f"branch {branch_of(backfill.id)} has batches of backfill {backfill.id} that are not published",
            "Set mode: branch, or remove them: lakewarden backfill undo",
        )
    if mode == "branch" and last is not None and not last.complete and not is_on_branch:
        raise Conflict(
            f"batches of backfill {backfill.id} were published to main directly", "Complete it with mode: direct first."
        )


def _check_columns(backfill: Backfill, last: Position | None) -> None:
    """Refuse to change what checkpoints mean between two batches of a run, and to read another source than before."""
    if last is None or (last.complete and backfill.source in last.source):
        return
    if last.by.lower() != backfill.reads_by.lower():
        raise Conflict(
            f"backfill {backfill.id} read {last.by} up to batch {last.batch}; its files say {backfill.reads_by} now",
            "Restore checkpoint_columns and the source, or undo the backfill and run it again.",
        )


def _continued(lake: Reader, backfill: Backfill, found: Found | None, began: datetime) -> _Next | None:
    """What the next batch reads; None if nothing arrived since the last run."""
    if found is None:
        return _Next(check(lake, backfill), 1)
    last = found.position
    if not last.complete:
        reading = as_pinned(lake, backfill, last.source, last.since)
        refuse_changed_columns(lake, reading)
        return _Next(with_shown(lake, reading, last.shown), last.run, last.shown)
    read = last.source[backfill.source]
    reading, shown = _late(lake, backfill, found)
    if _has_nothing_new(backfill, reading, read):
        return None
    refuse_changed_columns(lake, reading)
    warnings = _about_changes(lake, backfill, reading)
    if reading.hidden_before:
        named = f"rows that {', '.join(shown.split())} hid while it ran count as new: withdrawn since"
        warnings = (*warnings, named)
    settled = withdrawn.between_runs(lake, reading.pinned, found, began)
    return _Next(reading, last.run + 1, shown, " ".join(settled), warnings)


def _late(lake: Reader, backfill: Backfill, found: Found) -> tuple[Reading, str]:
    """What `--again` reads, and the withdrawn requests whose rows are among it."""
    reading = as_pinned(lake, backfill, {}, found.position.source[backfill.source])
    shown, hidden = withdrawn.missed(lake, reading.since, found) if reading.since else ((), ())
    return replace(reading, hidden_before=hidden), " ".join(shown)


def _about_changes(lake: Reader, backfill: Backfill, reading: Reading) -> tuple[str, ...]:
    """A warning if the source no longer has rows that were read before: they may have been changed."""
    removed = lake.batches.removed(reading)
    if removed == 0:
        return ()
    gone = "rows may have been" if removed is None else f"{removed:,} rows were"
    stays = f"its former row stays in {backfill.target(lake)}, as do rows that were deleted"
    return (f"{gone} changed or deleted in {backfill.source} since: a changed row is written again, and {stays}",)


def _actions(
    lake: Reader,
    backfill: Backfill,
    table: Table,
    reading: Reading,
    ranges: list[Range],
    run: int,
    last: Position | None,
) -> tuple[Action, ...]:
    dump = reading.columns.dump
    bounds = [(dump(each.lower) if each.lower else None, dump(each.upper) if each.upper else None) for each in ranges]
    whole = digest([backfill.id, run, bounds])
    share = reading.bytes / max(reading.rows, 1)
    before, rows = (last.batch, last.rows) if last else (0, 0)
    ends = [rows + so_far for so_far in accumulate(each.rows for each in ranges)]
    common = _common(lake, backfill, table, reading, run)
    exchanged = len(ranges) > 1 and not reading.insertion.why_range_by_range() and is_exchangeable(table)
    memory = _PROCESS + min(_UNPACKED * reading.bytes, _EXCHANGED) if exchanged else None
    return tuple(
        replace(
            common,
            verb=WRITE,
            says=f"write batch {number} of {before + len(ranges)} of backfill {backfill.id}: {each.rows:,} source rows",
            arguments={
                **common.arguments,
                "batch": number,
                "lower": lower,
                "upper": upper,
                "rows": each.rows,
                "rows_before": end - each.rows,
                "total": ends[-1],
                "is_last": number == before + len(ranges),
                "plan": whole,
            },
            estimate=_estimate(each.rows, int(each.rows * share), memory),
        )
        for number, (each, (lower, upper), end) in enumerate(zip(ranges, bounds, ends, strict=True), start=before + 1)
    )


def _publication(lake: Reader, backfill: Backfill, table: Table, reading: Reading, run: int, batches: int) -> Action:
    common, checked = _common(lake, backfill, table, reading, run), ", ".join(gates.names(backfill)) or "none"
    return replace(
        common,
        verb=PUBLISH,
        says=f"publish branch {branch_of(backfill.id)} to main if it passes its gates ({checked})",
        arguments={**common.arguments, "batch": batches, "plan": digest([backfill.id, run, PUBLISH])},
    )


def _common(lake: Reader, backfill: Backfill, table: Table, reading: Reading, run: int) -> Action:
    """What all actions of a plan have in common."""
    name, uuid = str(backfill.target(lake)), str(table.metadata.table_uuid)
    since = str(reading.since.snapshot.snapshot_id) if reading.since else None
    return Action(
        verb="",
        subject=name,
        lease=table_lease(uuid),
        says="",
        arguments={
            "backfill": backfill.id,
            "database": str(backfill.place),
            "version": backfill.files.version,
            "run": run,
            "sql": backfill.files.sql_hash,
            "source": json.dumps(pins(reading)),
            "reads": backfill.source,
            **({"since": since} if since else {}),
        },
        requires=(
            TableIs(name, uuid),
            *(SnapshotKept(str(one.name), one.snapshot.snapshot_id) for one in reading.pins),
        ),
    )


def _estimate(rows: int, size: int, memory: int | None) -> Estimate:
    of_a_task = min(_UNPACKED * size // tasks_of(size), _ROW_GROUP)
    seconds = round(size / _BYTES_PER_SECOND, 3)
    return Estimate(1, size, rows, seconds, _BUFFERS + of_a_task if memory is None else memory)


def tasks_of(size: int) -> int:
    """How many tasks write a batch of so many source bytes, if one job writes several batches."""
    return max(1, size // _OF_A_TASK)


def late_rows(lake: Reader, backfill: Backfill, found: Found) -> tuple[int | None, str]:
    """How many rows of the source `--again` would read, or None; and what is to be known about them."""
    read = found.position.source.get(backfill.source)
    if read is None or not found.position.complete:
        return _late_in_source(lake, backfill, found, read), ""
    try:
        reading, shown = _late(lake, backfill, found)
        rows = _count(lake, backfill, reading, read)
    except Conflict as error:  # a version is gone, or it is not known which rows are missing
        return None, error.message
    except LakewardenError:  # columns of the SQL are gone
        return None, ""
    names = ", ".join(shown.split())
    return rows, f"rows that {names} hid while it ran are late: withdrawn since" if reading.hidden_before else ""


def _late_in_source(lake: Reader, backfill: Backfill, found: Found, read: str | None) -> int | None:
    """The same for a run that is not complete: rows that arrived since it began."""
    if read is None:
        return None
    try:
        return _count(lake, backfill, read_versions(lake, backfill, {}, read or None), read)
    except LakewardenError:  # a version is gone, or columns of the SQL
        return None


def _count(lake: Reader, backfill: Backfill, reading: Reading, read: str) -> int | None:
    if _has_nothing_new(backfill, reading, read):
        return 0
    refuse_changed_columns(lake, reading)
    return lake.batches.count(reading)


def _has_nothing_new(backfill: Backfill, reading: Reading, read: str) -> bool:
    """Whether the source is at the version that was read, and nothing of it was hidden then."""
    at = str(reading.since.snapshot.snapshot_id) if reading.since else read
    return pins(reading)[backfill.source] == at and not reading.hidden_before
