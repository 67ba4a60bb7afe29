"""Has Spark write the rows of batches: those of many in one job, or of a part of one if a batch is too much at once."""

from __future__ import annotations

import logging
import math
import secrets
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lakewarden.engine.base.locations import same_place
from lakewarden.engine.commit.abandoned_files import staging_folder
from lakewarden.engine.commit.staging import StagedRows
from lakewarden.engine.files.unreachable import still_unreachable
from lakewarden.engine.files.written_files import layout_for, target_bytes_of
from lakewarden.engine.rewrite.exchange import NumberedRows, is_exchangeable
from lakewarden.engine.spark.time_limit import TookTooLong
from lakewarden.engine.sql.batches import Reading
from lakewarden.engine.sql.sorted_column import Range
from lakewarden.engine.sql.tuples import Tuple
from lakewarden.errors import LakewardenError, VerificationFailed
from lakewarden.features.backfill import bad_rows
from lakewarden.features.backfill.pace import Pace
from lakewarden.features.backfill.pinned import reading_of
from lakewarden.features.backfill.planning import tasks_of
from lakewarden.features.backfill.registration import Backfill
from lakewarden.features.backfill.throttle import wait
from lakewarden.features.backfill.trouble import Trouble, is_of_the_route, pause_before, trouble
from lakewarden.lifecycle.action import Action
from lakewarden.lifecycle.failpoints import reach
from lakewarden.lifecycle.run import Halted
from lakewarden.lifecycle.states import State

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from lakewarden.engine.files.written_files import AddedFile
    from lakewarden.lifecycle.basics import Stamp
    from lakewarden.lifecycle.ground import Reader, Writer

_MOST = 200  # batches of one job: Spark would sort more on their way to their tasks
_JOBS = 8
_LEAST = 2 << 30  # bytes of one job
_LONGEST = 300.0  # seconds that one job should take
_GROWTH = 1.2
_MEMORY = 512 << 20  # bytes of a task's process
_ENOUGH = 2  # attempts after which Spark's own writer is used
log = logging.getLogger(__name__)


@dataclass
class Written:
    """What a run keeps: the files of batches that a job has written and that are not published yet."""

    files: dict[tuple[str, int], tuple[AddedFile, ...] | StagedRows] = field(default_factory=dict)
    """By backfill and batch."""
    staged: dict[str, int] = field(default_factory=dict)
    """The branch that holds these files until the last of them is published, and its snapshot."""
    limit: int | None = None
    """Source rows that one job may read, after one has failed for lack of memory."""
    tidy: set[str] = field(default_factory=set)
    """Tables where no staging branch of a killed run is left."""
    swept: set[str] = field(default_factory=set)
    """Backfills of which no files of a killed run are left."""
    folders: dict[str, set[str]] = field(default_factory=dict)
    """By table, where this run has written files."""
    published: set[str] = field(default_factory=set)
    """Files of this run that are published for sure."""
    is_unsure: bool = False
    """Whether a commit of this run was sent and its result is not known."""
    exchanges: bool = True
    """Whether batches are written by Lakewarden's own tasks, if the target allows it."""
    readings: dict[str, Reading] = field(default_factory=dict)
    pace: Pace = field(default_factory=Pace)

    def reading(self, lake: Reader, backfill: Backfill, action: Action) -> Reading:
        """What an action reads: the same for all batches of a plan."""
        plan = str(action.arguments["plan"])
        if plan not in self.readings:
            self.readings[plan] = reading_of(lake, backfill, action)
        return self.readings[plan]

    def count_job(self, backfill: Backfill, part: Range, actions: list[Action], seconds: float) -> None:
        """Note how long a job took for a part of the first action, and for others."""
        batches = {number for id, number in self.files if id == backfill.id}
        others = [action.number("rows") for action in actions if action.number("batch") in batches]
        left = max(sum(action.number("rows") for action in actions), part.rows)
        self.pace.job(seconds, part.rows + sum(others), left)


class Job:
    """Has Spark write the rows of batches, or of a part of one if a batch is too much at once."""

    def __init__(self, lake: Writer, backfill: Backfill, reading: Reading, kept: Written) -> None:
        self._lake, self._backfill, self._kept = lake, backfill, kept
        self.reading = reading
        """What is read, without the rows that are put aside."""

    def next(
        self, action: Action, following: list[Action], lower: Tuple | None
    ) -> tuple[Range, tuple[AddedFile, ...] | StagedRows]:
        """The next rows to publish: a batch, or a part of it."""
        whole = replace(_range(self.reading, action), lower=lower)
        batch = (self._backfill.id, action.number("batch"))
        is_begun = action.arguments["lower"] != (self.reading.columns.dump(lower) if lower else None)
        attempt, failed = 0, math.inf
        while batch not in self._kept.files or is_begun or self._is_gone(self._kept.files[batch], action):
            self._kept.files.clear()
            limit = self._kept.limit
            parts = [whole]
            if is_begun or (limit is not None and whole.rows > limit):
                size = limit or self._backfill.files.meta.batch_size
                parts = self._lake.batches.ranges(self.reading, lower, size, whole.upper) or [whole]
            some = [] if is_begun or len(parts) > 1 else self._of_one_job([action, *following])
            ranges = [_range(self.reading, each) for each in some] or parts[:1]
            try:
                files = self._measured(ranges, action)
            except LakewardenError as error:
                found, rows = trouble(error), sum(each.rows for each in ranges)
                if found is Trouble.DATA:
                    self._put_aside(ranges, action, error)
                elif found is Trouble.TOO_MUCH:
                    self._kept.exchanges &= isinstance(error, TookTooLong)  # Spark's writer takes rows one by one
                    self._halve(error, rows, failed)
                    failed = rows
                else:
                    attempt += 1
                    self._kept.exchanges &= attempt < _ENOUGH
                    self._pause(error, attempt)
                continue
            if not some:
                return ranges[0], files[0]
            self._kept.files |= {
                (self._backfill.id, each.number("batch")): made for each, made in zip(some, files, strict=True)
            }
        return whole, self._kept.files.pop(batch)

    def _put_aside(self, ranges: list[Range], action: Action, error: LakewardenError) -> None:
        """Find the rows that the SQL fails on, and leave them out from now on; raises if that is not wanted."""
        meta, name = self._backfill.files.meta, self._lake.tables.name(action.subject)
        run, number = action.number("run"), action.number("batch")
        is_wanted = meta.on_bad_rows == "quarantine"
        before = sum(each.rows for each in bad_rows.put_aside(self._lake, self._backfill, run))
        most = max(1, meta.max_bad_rows + 1 - before) if is_wanted else bad_rows.NAMED
        found = bad_rows.find(self._lake, self.reading, ranges, (name.lake, *name.identifier), most)
        if not found:
            raise error  # it does not fail on the same rows again
        is_all = sum(each.rows for each in found) < most
        if not is_wanted or not is_all:
            raise bad_rows.refusal(self._backfill, found, more=not is_all)
        bad_rows.put(self._lake, self._backfill, run, number, found)
        reach("backfill.put_aside")
        new = tuple(self.reading.columns.load(each.checkpoint) for each in found)
        self.reading = replace(self.reading, without=(*self.reading.without, *new))

    def _halve(self, error: LakewardenError, rows: int, failed: float) -> None:
        """Write less at once from now on; raises if that is not possible."""
        if rows <= 1 or rows >= failed:
            raise LakewardenError(
                f"backfill {self._backfill.id}: {rows:,} rows with equal checkpoints are too much: {error.message}",
                "Add a column to checkpoint_columns, or give Spark more memory or timeout_seconds.",
            ) from error
        self._kept.limit = max(1, rows // 2)
        log.warning("%s: %s; %d rows at once from now on", self._backfill.id, error.message, self._kept.limit)

    def _pause(self, error: LakewardenError, attempt: int) -> None:
        """Wait before another attempt; raises the error if none is to follow."""
        if trouble(error) is not Trouble.PASSING or attempt > self._backfill.files.meta.max_retries:
            raise error
        log.warning("%s: %s; attempt %d follows", self._backfill.id, error.message, attempt + 1)
        wait(self._lake, pause_before(attempt), f"attempt {attempt + 1} after an error: {error.message}")

    def _measured(self, ranges: list[Range], action: Action) -> list[tuple[AddedFile, ...] | StagedRows]:
        """Write ranges, and adapt what one job may write to how long it took."""
        began = time.monotonic()
        files = self._write(ranges, action)
        took, rows = max(time.monotonic() - began, 0.001), sum(each.rows for each in ranges)
        longest = min(_LONGEST, self._backfill.files.meta.timeout_seconds / 2)
        if took > longest:
            self._kept.limit = max(1, int(rows * longest / took))
        elif self._kept.limit is not None:
            self._kept.limit = max(self._kept.limit + 1, int(self._kept.limit * _GROWTH))
        return files

    def _write(self, ranges: list[Range], action: Action) -> list[tuple[AddedFile, ...] | StagedRows]:
        table = self._lake.tables.load(action.subject)
        if len(ranges) > 1 and self._kept.exchanges and is_exchangeable(table):
            try:
                return self._exchange(ranges, action, table)
            except LakewardenError as error:
                if not is_of_the_route(error):
                    raise
                log.warning("%s: %s; Spark's own writer is used", self._backfill.id, error.message)
                self._kept.exchanges = False
        return self._stage(ranges, action)

    def _exchange(self, ranges: list[Range], action: Action, table: Table) -> list[tuple[AddedFile, ...] | StagedRows]:
        """Have tasks write files, sorted out by batch: faster, unless a table asks for what only Spark can do."""
        lake, name = self._lake, self._lake.tables.name(action.subject)
        layout = layout_for(table, target_bytes_of(table), "counts", _MEMORY)
        folder = f"{_folder(table, lake.stamp)}/{secrets.token_hex(4)}"
        self._kept.folders.setdefault(str(name), set()).add(folder)
        with lake.batches.numbered_rows(self.reading, ranges, (name.lake, *name.identifier)) as rows:
            numbered = NumberedRows(
                frame=rows,
                row_bytes=self.reading.bytes / max(self.reading.rows, 1),
                most_seconds=self._backfill.files.meta.timeout_seconds * len(ranges),
                look=lambda: _tell(lake, self._says(ranges, action)),
            )
            files = lake.exchange(name.lake).write(table, numbered, layout, folder)
        if set(files) - set(range(len(ranges))):
            raise VerificationFailed(f"{name}: rows of another batch were written", "Nothing was published.")
        self._kept.staged = {}
        return [files.get(place, ()) for place in range(len(ranges))]

    def _stage(self, ranges: list[Range], action: Action) -> list[tuple[AddedFile, ...] | StagedRows]:
        """Have Spark write rows to a branch, each batch in tasks of its own."""
        lake, name = self._lake, self._lake.tables.name(action.subject)
        tasks = tasks_of(action.estimate.bytes)
        with lake.batches.rows_of(self.reading, ranges, (name.lake, *name.identifier), tasks) as rows:
            staged = lake.staging.stage(
                str(name),
                rows,
                by_task=len(ranges) > 1,
                most_seconds=self._backfill.files.meta.timeout_seconds * len(ranges),
                look=lambda: _tell(lake, self._says(ranges, action)),
            )
        if len(ranges) == 1:
            return [staged]
        self._kept.staged = {staged.branch: staged.snapshot}
        files = staged.by_task()
        parts = [
            tuple(file for task in range(place * tasks, (place + 1) * tasks) for file in files.get(task, ()))
            for place in range(len(ranges))
        ]
        return [*parts[:-1], replace(staged, added=parts[-1])]  # the last commit removes the branch

    def _says(self, ranges: list[Range], action: Action) -> str:
        says = f"{len(ranges)} batches from {action.number('batch')} on: {sum(each.rows for each in ranges):,} rows"
        return ", ".join(part for part in (says, str(self._kept.pace)) if part)

    def _is_gone(self, files: tuple[AddedFile, ...] | StagedRows, action: Action) -> bool:
        """Whether others have deleted files of a batch, which nothing references yet."""
        if isinstance(files, StagedRows) or self._kept.staged:
            return False
        storage = self._lake.storage(self._lake.tables.name(action.subject).lake)
        return None in storage.sizes(each.file.file_path for each in files).values()

    def _of_one_job(self, actions: list[Action]) -> list[Action]:
        """The batches that one job may write: many, unless it had too much."""
        if self.reading.insertion.why_range_by_range():
            return actions[:1]
        most = max(_LEAST, sum(action.estimate.bytes for action in actions) // _JOBS)
        limit, some, rows, size = self._kept.limit, actions[:1], actions[0].number("rows"), actions[0].estimate.bytes
        for action in actions[1:_MOST]:
            rows, size = rows + action.number("rows"), size + action.estimate.bytes
            if size > most or (limit is not None and rows > limit):
                break
            some.append(action)
        return some


def sweep(lake: Writer, backfill: Backfill, table_name: str, kept: Written) -> None:
    """Once in a run, delete files that killed runs of a backfill have not published.

    To be called right after this run has published a batch of it. A commit that a killed run had sent requires that
    main, or the backfill's branch, is where it was before: it cannot land any more.
    """
    if backfill.id in kept.swept:
        return
    kept.swept.add(backfill.id)
    table, name = lake.tables.load(table_name), lake.tables.name(table_name)
    killed = lake.journal.list(states=(State.RUNNING, State.VERIFYING), subjects=[str(name)])
    begun = [record for record in killed if record.plan.target == backfill.id]
    own = {same_place(folder) for folder in kept.folders.get(str(name), ())}
    for operation in {lake.stamp.operation, *(record.id for record in begun)}:
        folder = _folder(table, replace(lake.stamp, operation=operation))
        found = [file.path for file in lake.storage(name.lake).walk(folder)]
        _delete_unreachable(lake, str(name), [path for path in found if same_place(path.rpartition("/")[0]) not in own])


def leave(lake: Writer) -> None:
    """At the end of a run, delete what it wrote and did not publish, also what tasks wrote after they were given up."""
    kept = lake.kept(Written)
    kept.files.clear()
    if kept.is_unsure:
        return  # a resumed run knows
    try:
        for table, folders in kept.folders.items():
            storage = lake.storage(lake.tables.name(table).lake)
            found = [file.path for folder in folders for file in storage.walk(folder)]
            _delete_unreachable(lake, table, [path for path in found if same_place(path) not in kept.published])
    except LakewardenError as error:  # what was published stays so
        log.warning("files that were not published could not be deleted: %s", error.message)


def _delete_unreachable(lake: Writer, table: str, paths: list[str]) -> None:
    if not paths:
        return
    removed = lake.storage(lake.tables.name(table).lake).delete_all(still_unreachable(lake.tables.load(table), paths))
    if removed.failed:
        log.warning("%d files of %s that were not published could not be deleted", len(removed.failed), table)


def _folder(table: Table, stamp: Stamp) -> str:
    """Where the batches of an operation are written."""
    return staging_folder(table, replace(stamp, action="rows"))


def _tell(lake: Writer, says: str) -> None:
    """Report progress. A request to pause is heard once the job is done and its first batch is published."""
    with suppress(Halted):
        lake.progress(0, 1, says)


def _range(reading: Reading, action: Action) -> Range:
    lower, upper = (bound(reading, action.arguments[which]) for which in ("lower", "upper"))
    return Range(lower, upper, action.number("rows"))


def bound(reading: Reading, text: object) -> Tuple | None:
    return reading.columns.load(str(text)) if text else None
