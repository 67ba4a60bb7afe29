"""Writes batches: one Spark job writes the rows of several, and each is published by a commit of its own.

A commit names where its batch ends, and is refused unless the table is where the batch begins. So a batch is in the
table once, whoever writes it.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from lakewarden.engine.base.locations import same_place
from lakewarden.engine.catalog.snapshots import MAIN
from lakewarden.engine.commit.new_rows import Append
from lakewarden.engine.commit.staging import StagedRows
from lakewarden.engine.sql.batches import Reading
from lakewarden.engine.sql.sorted_column import Range
from lakewarden.engine.sql.tuples import Tuple, is_after, is_same
from lakewarden.errors import CatalogUnavailable, LakewardenError, StalePlan
from lakewarden.features.backfill import bad_rows, branch
from lakewarden.features.backfill.job import Job, Written, bound, sweep
from lakewarden.features.backfill.pace import SECONDS
from lakewarden.features.backfill.planning import BEGAN, PUBLISH, WRITE
from lakewarden.features.backfill.position import Position, branch_of, key, position, unmoved
from lakewarden.features.backfill.registration import Backfill
from lakewarden.features.backfill.throttle import held_back, working_time
from lakewarden.lifecycle.action import Action, Outcome
from lakewarden.lifecycle.failpoints import reach

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from lakewarden.engine.files.written_files import AddedFile
    from lakewarden.lifecycle.ground import Reader, Writer

_MERGED = 32  # commits whose manifests are merged at once


def holds(lake: Reader, action: Action) -> bool:
    """Whether a batch is in the table, or all are published."""
    found = position(lake.tables.load(action.subject), str(action.arguments["backfill"]))
    return found is not None and _is_at(found, action)


def _is_at(found: Position, action: Action) -> bool:
    run, is_written = action.number("run"), found.batch >= action.number("batch")
    return found.run > run or (found.run == run and (found.complete or (is_written and action.verb == WRITE)))


def write(lake: Writer, backfill: Backfill, action: Action, following: list[Action]) -> Outcome:
    """Write one batch, in parts if it is too much at once. `following` are the next ones, for the same job.

    If the action is to publish what is on the backfill's branch, do that.
    """
    if backfill.files.sql_hash != action.arguments["sql"]:
        raise StalePlan(
            f"the plan is stale: {backfill.files.path} changed",
            "Nothing was written. Continue with the new SQL: lakewarden backfill run",
        )
    kept = lake.kept(Written)
    reading = kept.reading(lake, backfill, action)
    if backfill.files.meta.on_bad_rows == "quarantine":
        aside = bad_rows.put_aside(lake, backfill, action.number("run"))
        reading = replace(reading, without=tuple(reading.columns.load(each.checkpoint) for each in aside))
    if action.verb == PUBLISH:
        return branch.publish(lake, backfill, action, reading)
    following = [each for each in following if each.verb == WRITE]
    total = {"batches": 1, "rows_read": 0, "rows_written": 0, "files": 0, SECONDS: 0.0}
    while True:
        starts_job = (backfill.id, action.number("batch")) not in kept.files
        with held_back(lake, backfill, starts_job):
            began = working_time(lake)
            _tidy(lake, action, kept)
            table = lake.tables.load(action.subject)
            before = position(table, backfill.id)
            lower = _begin(reading, action, before)
            job = Job(lake, backfill, reading, kept)
            part, rows = job.next(action, following, lower)
            if starts_job:
                kept.count_job(backfill, part, [action, *following], working_time(lake) - began)
                began = working_time(lake)
            reach("backfill.written")
            stamp = _stamp(backfill, action, before, part, job.reading, kept)
            _publish(lake, backfill, action, table, rows, stamp, before)
            reach("backfill.published")
        added = rows.added if isinstance(rows, StagedRows) else rows
        total["rows_read"] += part.rows
        total["rows_written"] += sum(each.file.record_count for each in added)
        total["files"] += len(added)
        total[SECONDS] = round(total[SECONDS] + kept.pace.batch(part.rows, working_time(lake) - began), 3)
        if stamp.batch == action.number("batch"):
            return Outcome(total)


def _begin(reading: Reading, action: Action, before: Position | None) -> Tuple | None:
    """Where a batch begins in the table as it is; refused if that is not within the batch."""
    run, lower, upper = action.number("run"), *(bound(reading, action.arguments[end]) for end in ("lower", "upper"))
    if before is None or (before.run < run and before.complete):
        if lower is None:
            return None
    elif before.run == run and not before.complete:
        at = lower if _is_forgotten_at(before, action) else bound(reading, before.checkpoint)
        if is_same(at, lower) or (is_after(at, lower) and is_after(upper, at)):
            return at
    raise StalePlan(
        f"the plan is stale: {action.subject} is not where batch {action.number('batch')} begins",
        "Nothing was written. Plan again: lakewarden backfill run",
    )


def _is_forgotten_at(before: Position, action: Action) -> bool:
    """Whether a batch begins at a checkpoint that was erased from the table since it was planned."""
    return before.forgotten and before.rows == action.number("rows_before")


def _publish(
    lake: Writer,
    backfill: Backfill,
    action: Action,
    table: Table,
    rows: tuple[AddedFile, ...] | StagedRows,
    stamp: Position,
    before: Position | None,
) -> None:
    files, staged = ((), rows) if isinstance(rows, StagedRows) else (rows, None)
    is_direct = backfill.files.meta.mode == "direct"
    change = Append(
        action.subject,
        str(table.metadata.table_uuid),
        files,
        staged,
        lake.kept(Written).staged if staged is None else {},
        branch=MAIN if is_direct else branch_of(backfill.id),
        starts_branch=not is_direct,
        facts={key(backfill.id): stamp.text},
        merges=stamp.complete or stamp.batch % _MERGED == 0,
        check=unmoved(backfill.id, before),
    )
    kept = lake.kept(Written)
    try:
        lake.part(f"{backfill.id}-{stamp.run}-{action.number('batch')}-{stamp.rows}").commits.publish(change)
    except LakewardenError as error:
        kept.is_unsure |= isinstance(error, CatalogUnavailable)  # the commit may have landed: a resumed run checks
        raise
    except BaseException:
        kept.is_unsure = True
        raise
    kept.published |= {same_place(each.file.file_path) for each in files}
    sweep(lake, backfill, action.subject, kept)


def _stamp(
    backfill: Backfill, action: Action, before: Position | None, part: Range, reading: Reading, kept: Written
) -> Position:
    run, number = action.number("run"), action.number("batch")
    if before is None and BEGAN not in action.expects:
        raise StalePlan(
            "the plan is stale: an earlier release of Lakewarden made it", "Nothing was written. Run again."
        )
    upper = reading.columns.dump(part.upper) if part.upper is not None else None
    is_whole = upper == action.arguments["upper"]
    size = backfill.files.meta.batch_size
    return Position(
        run=run,
        batch=number if is_whole else number - 1,
        checkpoint=upper,
        source=json.loads(str(action.arguments["source"])),
        since=str(action.arguments["since"]) if action.arguments.get("since") else None,
        rows=(before.rows if before and before.run == run else 0) + part.rows,
        total=action.number("total"),
        plan=str(action.arguments["plan"]),
        sql=backfill.files.sql_hash,
        size=size if kept.limit is None else min(size, kept.limit),
        by=backfill.reads_by,
        commits=_commits(backfill, before, run),
        complete=is_whole and bool(action.arguments["is_last"]) and backfill.files.meta.mode == "direct",
        began=str(action.expects[BEGAN]) if before is None else before.began,
        shown=str(action.arguments.get("shown", "")),
        settled=_settled(before, action),
        aside=bool(reading.without) or (before is not None and before.run == run and before.aside),
    )


def _settled(before: Position | None, action: Action) -> str:
    """The withdrawn requests whose rows earlier runs have read as new, or did not miss."""
    if before is None:
        return ""
    if before.run == action.number("run"):
        return before.settled
    return " ".join(f"{before.settled} {before.shown} {action.arguments.get('settled', '')}".split())


def _commits(backfill: Backfill, before: Position | None, run: int) -> int:
    """How many commits main has of a backfill, with this one; all that a branch has are one, once it is published."""
    is_next = before is None or backfill.files.meta.mode == "direct" or before.run != run
    return (before.commits if before else 0) + is_next


def _tidy(lake: Writer, action: Action, kept: Written) -> None:
    """Once in a run, remove staging branches that killed runs of the operation have left."""
    if action.subject not in kept.tidy:
        lake.staging.sweep(action.subject, whole_operation=True)
        kept.tidy.add(action.subject)
