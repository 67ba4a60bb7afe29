"""The driver of the rewrite kernel: sends groups of files to Spark tasks, and checks every report.

Each task takes one group (`task.py`), writes new files into the action's folder, and reports. Here rows in minus rows
dropped must equal rows out, the footers of the new files are read back, and null counts and bounds are compared, before
the files may be published. Files that no report names, such as those of a retried task, are deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lakewarden.engine.base.faults import translating
from lakewarden.engine.commit.rewritten_files import RewrittenGroup
from lakewarden.engine.files.bounds import Bounds, bounds_of
from lakewarden.engine.files.written_files import AddedFile, Footer, check_null_counts, data_file, read_footers
from lakewarden.engine.kernel.messages import Access, Drop, Failure, Group, GroupReport, Input, Layout
from lakewarden.engine.rewrite.single_files import HERE_THREADS, RewrittenFile, checked, fits_here, shared_out
from lakewarden.engine.spark.session import MISSING_MODULE
from lakewarden.errors import BrokenTable, LakewardenError, SparkUnavailable, StorageUnavailable, VerificationFailed
from lakewarden.lifecycle.failpoints import reach

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from lakewarden.config import LakeSettings
    from lakewarden.engine.files.live_files import LiveFile
    from lakewarden.engine.spark.session import Spark
    from lakewarden.engine.storage.storage import Storage

__all__ = ["FileGroup", "RewriteResult", "Rewriter", "RewrittenFile", "access_of"]

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class FileGroup:
    """Live files of one partition to rewrite together."""

    number: int
    files: tuple[LiveFile, ...]

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)


@dataclass(frozen=True)
class RewriteResult:
    """Groups that are ready to publish."""

    groups: tuple[RewrittenGroup, ...]
    peak_bytes: int
    """The highest memory use of any task's process."""


class Rewriter:
    """Rewrites groups of files of one table on Spark."""

    def __init__(self, spark: Callable[[], Spark], settings: LakeSettings, storage: Storage) -> None:
        self._spark = spark
        self._settings = settings
        self._storage = storage

    def rewrite(
        self, table: Table, groups: Sequence[FileGroup], layout: Layout, folder: str, progress: Progress
    ) -> RewriteResult:
        """Rewrite each group into a folder; if anything fails, it raises and leaves nothing there."""
        about = f"table {'.'.join(table.name())}"
        tasks = [_task(group, folder) for group in groups]
        with self._staged(folder), translating(about):
            bounds = bounds_of(table, {group.number: group.files for group in groups})
            reports = self._run(tasks, layout, folder, sum(group.bytes for group in groups), progress)
            self._settle(folder, reports, about)
            rewritten = self._checked(table, groups, bounds, reports, about, {id for id, _ in layout.constants})
            reach("rewrite.checked")
            return rewritten

    def rewrite_each(
        self,
        table: Table,
        files: Sequence[LiveFile],
        drops: Sequence[Drop],
        layout: Layout,
        folder: str,
        progress: Progress,
    ) -> dict[str, RewrittenFile]:
        """Rewrite each file without the dropped rows, keeping its schema and masked rows; returns results by path.

        The folder belongs to this call; if anything fails, nothing is left there.
        """
        about = f"table {'.'.join(table.name())}"
        if not files:
            return {}
        alone = replace(layout, schema=None, verify="full", fingerprint=True)
        with self._staged(folder), translating(about):
            bounds = bounds_of(table, {file.path: [file] for file in files})
            if fits_here(files, folder, self._settings):
                sizes = {file.path: file.bytes for file in files}
                reports = self._run_here(shared_out(files, drops, folder, 2 * HERE_THREADS), alone, sizes, progress)
            else:
                tasks = shared_out(files, drops, folder)
                reports = self._run(tasks, alone, folder, sum(file.bytes for file in files), progress)
            self._settle(folder, reports, about)
            rewritten = checked(table, files, bounds, reports.values(), self._footers(reports), about)
            reach("rewrite.checked")
            return rewritten

    def discard(self, group: RewrittenGroup) -> None:
        """Delete the new files of a group that is not published."""
        self._storage.delete_all([added.file.file_path for added in group.added])

    def _run(
        self, tasks: Sequence[Group], layout: Layout, folder: str, bytes_in: int, progress: Progress
    ) -> dict[int, GroupReport]:
        from lakewarden.engine.kernel.task import REPORT_SCHEMA, parts, run_task
        from lakewarden.engine.spark.session import send_by_value, translating_spark
        from lakewarden.engine.spark.watched import watched

        for part in parts():
            send_by_value(part)
        task = run_task(tasks, layout, access_of(self._settings))
        with explaining_missing_module(), translating_spark():
            session = self._spark().session()
            frame = session.range(0, len(tasks), 1, len(tasks)).mapInArrow(task, REPORT_SCHEMA)
            with watched(lambda: progress(min(self._written(folder), bytes_in), bytes_in), session.interruptAll):
                rows = frame.collect()
        reports = [GroupReport.from_json(row["report"]) for row in rows]
        return {report.number: report for report in reports}

    def _written(self, folder: str) -> int:
        return sum(file.bytes for file in self._storage.walk(folder))

    def _run_here(
        self, tasks: Sequence[Group], layout: Layout, sizes: Mapping[str, int], progress: Progress
    ) -> dict[int, GroupReport]:
        """Run tasks in this process: for little work, starting Spark would take longer."""
        from lakewarden.engine.kernel.deletes import Wanted
        from lakewarden.engine.kernel.memory import plain_allocation
        from lakewarden.engine.kernel.task import rewrite

        wanted = [Wanted(drop) for drop in tasks[0].drops]  # the same for all
        access = access_of(self._settings)
        reports: dict[int, GroupReport] = {}
        done, whole = 0, sum(sizes.values())
        with plain_allocation(), ThreadPoolExecutor(HERE_THREADS, thread_name_prefix="rewrite") as threads:
            ran = threads.map(lambda task: rewrite(task, layout, access, wanted), tasks)
            for task, report in zip(tasks, ran, strict=True):
                reports[report.number] = report
                done += sum(sizes[input_.path] for input_ in task.inputs)
                progress(done, whole)
        return reports

    @contextmanager
    def _staged(self, folder: str) -> Iterator[None]:
        """A folder for new files, emptied if the body raises."""
        self._storage.make_folder(folder)
        try:
            yield
        except BaseException:
            self._storage.delete_all([file.path for file in self._storage.walk(folder)])
            raise

    def _settle(self, folder: str, reports: Mapping[int, GroupReport], about: str) -> None:
        """Raise if a task failed; delete files that no task reported."""
        reach("rewrite.written")
        raise_failures(about, [report.failure for report in reports.values()])
        reported = {output.path for report in reports.values() for output in report.outputs}
        self._storage.delete_all([file.path for file in self._storage.walk(folder) if file.path not in reported])

    def _checked(
        self,
        table: Table,
        groups: Sequence[FileGroup],
        bounds: Mapping[int, Bounds],
        reports: Mapping[int, GroupReport],
        about: str,
        constants: set[int],
    ) -> RewriteResult:
        missing = [group.number for group in groups if group.number not in reports]
        if missing:
            raise VerificationFailed(f"{about}: {len(missing)} rewrite tasks did not report", "Try again.")
        footers = self._footers(reports)
        rewritten = []
        for group in groups:
            made = _rewritten(table, group, reports[group.number], footers, about)
            bounds[group.number].check(about, [added.file for added in made.added], constants)
            rewritten.append(made)
        return RewriteResult(tuple(rewritten), max((report.peak_bytes for report in reports.values()), default=0))

    def _footers(self, reports: Mapping[int, GroupReport]) -> dict[str, Footer]:
        return read_footers(self._storage, [output.path for report in reports.values() for output in report.outputs])


def access_of(settings: LakeSettings) -> Access:
    """The credentials for a lake's storage; sent inside the task, so that no query plan shows them."""
    given = settings.storage
    return Access(
        given.endpoint, given.access_key, given.secret_key, given.session_token, given.region, given.path_style
    )


def _task(group: FileGroup, folder: str) -> Group:
    inputs = tuple(Input(file.path, file.rows, tuple(delete.path for delete in file.deletes)) for file in group.files)
    return Group(group.number, inputs, folder)


def _rewritten(
    table: Table, group: FileGroup, report: GroupReport, footers: Mapping[str, Any], about: str
) -> RewrittenGroup:
    rows_in = sum(file.rows for file in group.files)
    rows_out = sum(footers[output.path].metadata.num_rows for output in report.outputs)
    if report.rows_in != rows_in or rows_out != rows_in - report.rows_masked - report.rows_dropped:
        raise VerificationFailed(
            f"{about}: {rows_in} rows were to be rewritten and {report.rows_masked} of them are deleted, "
            f"but {report.rows_in} were read and {rows_out} written",
            "Nothing was published.",
        )
    if report.checksum_in != report.checksum_out:
        raise VerificationFailed(f"{about}: rewritten rows differ from what was read", "Nothing was published.")
    files = [data_file(table, footers[output.path], output.nans, group.files) for output in report.outputs]
    check_null_counts(about, report.nulls, files)
    sequence = max(file.sequence for file in group.files)
    return RewrittenGroup(
        number=group.number,
        inputs={file.path: file.deletes_identity for file in group.files},
        added=tuple(AddedFile(file, group.files[0].partition[0], sequence) for file in files),
    )


def raise_failures(about: str, found: Iterable[Failure | None]) -> None:
    """Raise the first of the failures that tasks reported."""
    failures = [failure for failure in found if failure is not None]
    if not failures:
        return
    first, more = failures[0], f" (and {len(failures) - 1} more)" if failures[1:] else ""
    message = f"{about}: {first.message}{more}"
    if first.file and first.file not in message:
        message += f": {first.file}"
    if first.kind == "no-field-ids":
        raise BrokenTable(
            message, "Nothing was changed. It was not written for Iceberg: give the table a name mapping."
        )
    if first.kind in ("missing", "unreadable", "rows", "schema"):
        hint = "Nothing was changed. Restore that file, or roll back to a version without it."
        raise BrokenTable(message, hint, file=first.file or "")
    if first.kind in ("unwritable", "storage"):
        raise StorageUnavailable(message, "Nothing was changed. Run lakewarden lake doctor for details.")
    if first.kind == "checksum":
        raise VerificationFailed(message, "Nothing was published.")
    raise LakewardenError(message, "Nothing was changed.")


class MissingModule(SparkUnavailable):
    code = "missing-module"


@contextmanager
def explaining_missing_module() -> Iterator[None]:
    """Name what the Python of Spark's executors lacks."""
    try:
        yield
    except SparkUnavailable as error:
        lacking = MISSING_MODULE.search(f"{error.__cause__} {error}")
        if lacking is None:
            raise
        raise MissingModule(
            f"the Python of Spark's executors has no {lacking[1]}",
            "Nothing was changed. Install it there, or set spark.pyspark.python to a Python that has it.",
        ) from error
