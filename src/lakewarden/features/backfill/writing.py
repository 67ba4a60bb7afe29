"""Writes batches: one Spark job writes the rows of several, and each is published by a commit of its own.

A commit names where its batch ends, and is refused unless the table is where the batch begins. So a batch is in the
table once, whoever writes it.
"""

from __future__ import annotations

import json
import secrets
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lakewarden.engine.commit.abandoned_files import staging_folder
from lakewarden.engine.commit.new_rows import Append
from lakewarden.engine.commit.staging import StagedRows
from lakewarden.engine.files.unreachable import still_unreachable
from lakewarden.engine.sql.batches import Range, Reading
from lakewarden.engine.sql.insertion import RANGE
from lakewarden.engine.sql.tuples import Tuple
from lakewarden.errors import StalePlan
from lakewarden.features.backfill.planning import is_divided, reading_of
from lakewarden.features.backfill.position import Position, key, position, unmoved
from lakewarden.features.backfill.registration import Backfill
from lakewarden.lifecycle.action import Action, Outcome
from lakewarden.lifecycle.failpoints import reach
from lakewarden.lifecycle.run import Halted

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from lakewarden.engine.files.written_files import AddedFile
    from lakewarden.lifecycle.ground import Reader, Writer

_MOST = 128  # batches of one job: each task has a file of every batch open
_JOBS = 8
_LEAST = 2 << 30  # bytes of one job
_FOLDER = "staged"


@dataclass
class Written:
    """What a run keeps: the files of batches that a job has written and that are not published yet."""

    files: dict[tuple[str, int], tuple[AddedFile, ...] | StagedRows] = field(default_factory=dict)
    """By backfill and batch."""
    limit: int | None = None
    """Source rows that one job may read, after one has failed for lack of memory."""
    is_tidy: bool = False


def holds(lake: Reader, action: Action) -> bool:
    """Whether a batch is in the table."""
    found = position(lake.tables.load(action.subject), str(action.arguments["backfill"]))
    return found is not None and _is_at(found, action)


def _is_at(found: Position, action: Action) -> bool:
    run = action.number("run")
    return found.run > run or (found.run == run and (found.complete or found.batch >= action.number("batch")))


def _follows(before: Position | None, action: Action) -> bool:
    """Whether a batch begins where the table is."""
    if before is None or before.run < action.number("run"):
        return action.arguments["lower"] is None and (before is None or before.complete)
    return before.run == action.number("run") and before.checkpoint == action.arguments["lower"]


def write(lake: Writer, backfill: Backfill, action: Action, following: list[Action]) -> Outcome:
    """Write one batch. `following` are the next ones: their rows may be written by the same job."""
    if backfill.files.sql_hash != action.arguments["sql"]:
        raise StalePlan(
            f"the plan is stale: {backfill.files.path} changed",
            "Nothing was written. Continue with the new SQL: lakewarden backfill run",
        )
    table = lake.tables.load(action.subject)
    before = position(table, backfill.id)
    if not _follows(before, action):
        raise StalePlan(
            f"the plan is stale: {action.subject} is not where batch {action.number('batch')} begins",
            "Nothing was written. Plan again: lakewarden backfill run",
        )
    reading = reading_of(lake, backfill, action)
    kept = lake.kept(Written)
    _tidy(lake, action, table, kept)
    batch = (backfill.id, action.number("batch"))
    if batch not in kept.files:
        kept.files.clear()
        _write_files(lake, table, reading, backfill, [action, *following], kept)
    rows = kept.files.pop(batch)
    reach("backfill.written")
    staged = rows if isinstance(rows, StagedRows) else None
    lake.part(f"{backfill.id}-{action.number('run')}-{action.number('batch')}").commits.publish(
        Append(
            action.subject,
            str(table.metadata.table_uuid),
            () if isinstance(rows, StagedRows) else rows,
            staged,
            facts={key(backfill.id): _stamp(backfill, action, before).text},
            check=unmoved(backfill.id, before),
        )
    )
    reach("backfill.published")
    added = rows.added if isinstance(rows, StagedRows) else rows
    written = sum(each.file.record_count for each in added)
    return Outcome({"batches": 1, "rows_read": action.number("rows"), "rows_written": written, "files": len(added)})


def _write_files(
    lake: Writer, table: Table, reading: Reading, backfill: Backfill, actions: list[Action], kept: Written
) -> None:
    """Have one Spark job write as many batches as it may."""
    some = _of_one_job(table, reading, actions, kept)
    name = lake.tables.name(actions[0].subject)
    folder = f"{_folder(lake, table)}/{secrets.token_hex(4)}"
    ranges = [_range(reading, action) for action in some]
    says = f"batches {some[0].number('batch')} to {some[-1].number('batch')} are being written"
    with lake.batches.rows_of(reading, ranges, (name.lake, *name.identifier)) as rows:
        if table.spec().fields:  # Iceberg's own writer divides rows by partition
            staged = lake.staging.stage(str(name), lambda session: rows(session).drop(RANGE))
            kept.files[backfill.id, some[0].number("batch")] = staged
            return
        files = lake.division(name.lake).write(
            table, rows, folder, backfill.files.meta.timeout_seconds, lambda: _tell(lake, says)
        )
    for place, action in enumerate(some):
        kept.files[backfill.id, action.number("batch")] = files.get(place, ())


def _tell(lake: Writer, says: str) -> None:
    """Report progress. A request to pause is heard between batches; what a job has written so far is not lost."""
    with suppress(Halted):
        lake.progress(0, 1, says)


def _of_one_job(table: Table, reading: Reading, actions: list[Action], kept: Written) -> list[Action]:
    if not is_divided(table, reading):
        return actions[:1]
    total = sum(action.estimate.bytes for action in actions)
    limit, rows, size = max(_LEAST, total // _JOBS), 0, 0
    some: list[Action] = []
    for action in actions[:_MOST]:
        rows, size = rows + action.number("rows"), size + action.estimate.bytes
        if some and (size > limit or (kept.limit is not None and rows > kept.limit)):
            break
        some.append(action)
    return some


def _range(reading: Reading, action: Action) -> Range:
    lower, upper = (_bound(reading, action.arguments[which]) for which in ("lower", "upper"))
    return Range(lower, upper, action.number("rows"))


def _bound(reading: Reading, text: object) -> Tuple | None:
    return reading.columns.load(str(text)) if text else None


def _stamp(backfill: Backfill, action: Action, before: Position | None) -> Position:
    run, is_last = action.number("run"), bool(action.arguments["is_last"])
    rows = (before.rows if before and before.run == run else 0) + action.number("rows")
    upper = action.arguments["upper"]
    return Position(
        run=run,
        batch=action.number("batch"),
        checkpoint=str(upper) if upper else None,
        source=json.loads(str(action.arguments["source"])),
        since=str(action.arguments["since"]) if action.arguments.get("since") else None,
        rows=rows,
        plan=str(action.arguments["plan"]),
        sql=backfill.files.sql_hash,
        size=backfill.files.meta.batch_size,
        complete=is_last,
    )


def _folder(lake: Writer, table: Table) -> str:
    """Where all jobs of an operation write, whatever the action."""
    return staging_folder(table, replace(lake.stamp, action=_FOLDER))


def _tidy(lake: Writer, action: Action, table: Table, kept: Written) -> None:
    """Once in a run, delete what a killed run of the operation wrote and did not publish."""
    if not kept.is_tidy:
        storage = lake.storage(lake.tables.name(action.subject).lake)
        left = [file.path for file in storage.walk(_folder(lake, table))]
        if left:
            storage.delete_all(still_unreachable(table, left))
        kept.is_tidy = True
