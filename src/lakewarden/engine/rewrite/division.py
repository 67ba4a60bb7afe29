"""The driver of `divide_task.py`: has Spark write the rows of a query into files, each with rows of one range.

Nothing is published here. As in a rewrite, reports of tasks are checked against the footers of the new files, and files
that no report names are deleted.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lakewarden.engine.files.written_files import AddedFile, layout_for, new_data_file, read_footer
from lakewarden.engine.kernel.messages import GroupReport
from lakewarden.engine.rewrite.driver import access_of, raise_failures
from lakewarden.errors import SparkUnavailable, VerificationFailed
from lakewarden.lifecycle.failpoints import reach

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyspark.sql import DataFrame, SparkSession

    from lakewarden.config import LakeSettings
    from lakewarden.engine.spark.session import Spark
    from lakewarden.engine.storage.storage import Storage

_READERS = 8
_TASK_MEMORY = 768 << 20
_FILE = 512 << 20


class BatchTimeout(SparkUnavailable):
    code = "batch-timeout"


class Division:
    """Writes rows of one lake's tables by range."""

    def __init__(self, spark: Callable[[], Spark], settings: LakeSettings, storage: Storage) -> None:
        self._spark, self._settings, self._storage = spark, settings, storage

    def write(
        self,
        table: Table,
        rows: Callable[[SparkSession], DataFrame],
        folder: str,
        timeout: float,
        look: Callable[[], None],
    ) -> dict[int, tuple[AddedFile, ...]]:
        """Write rows, the last column of which is the number of their range; returns the files of each range."""
        about = f"table {'.'.join(table.name())}"
        self._storage.make_folder(folder)
        try:
            reports = self._run(table, rows, folder, timeout, look)
            reach("division.written")
            raise_failures(about, [report.failure for report in reports])
            return self._checked(table, reports, folder, about)
        except BaseException:
            self._storage.delete_all([file.path for file in self._storage.walk(folder)])
            raise

    def _run(
        self,
        table: Table,
        rows: Callable[[SparkSession], DataFrame],
        folder: str,
        timeout: float,
        look: Callable[[], None],
    ) -> list[GroupReport]:
        from lakewarden.engine.kernel import divide_task
        from lakewarden.engine.kernel.task import parts
        from lakewarden.engine.spark.session import send_by_value, translating_spark

        for part in (*parts(), divide_task):
            send_by_value(part)
        layout = layout_for(table, _FILE, "counts", _TASK_MEMORY)
        task = divide_task.run_division(folder, layout, access_of(self._settings))
        with translating_spark():
            session = self._spark().session()
            frame = rows(session).mapInArrow(task, divide_task.REPORT_SCHEMA)
            with within(session, timeout, look):
                return [GroupReport.from_json(row["report"]) for row in frame.collect()]

    def _checked(
        self, table: Table, reports: list[GroupReport], folder: str, about: str
    ) -> dict[int, tuple[AddedFile, ...]]:
        outputs = [(report.number, output) for report in reports for output in report.outputs]
        reported = {output.path for _, output in outputs}
        self._storage.delete_all([file.path for file in self._storage.walk(folder) if file.path not in reported])
        with ThreadPoolExecutor(_READERS, thread_name_prefix="footers") as readers:
            footers = list(readers.map(lambda each: read_footer(self._storage, each[1].path), outputs))
        files: dict[int, list[AddedFile]] = {}
        for (number, output), footer in zip(outputs, footers, strict=True):
            if footer.metadata.num_rows != output.rows:
                raise VerificationFailed(f"{about}: {output.path} does not have its rows", "Nothing was published.")
            entry = new_data_file(table, footer, output.nans)
            files.setdefault(number, []).append(AddedFile(entry, table.metadata.default_spec_id))
        written = sum(added.file.record_count for some in files.values() for added in some)
        if written != sum(report.rows_in for report in reports):
            raise VerificationFailed(f"{about}: not all rows were written", "Nothing was published.")
        return {number: tuple(some) for number, some in files.items()}


@contextmanager
def within(session: SparkSession, timeout: float, look: Callable[[], None]) -> Iterator[None]:
    """Interrupt the statements of the body after a time, on Ctrl-C, or when `look` asks for it."""
    from lakewarden.engine.spark.watched import watched

    tag, is_late = f"lakewarden-{uuid.uuid4().hex}", threading.Event()

    def interrupt() -> None:
        if not session.interruptTag(tag):  # without Spark Connect, a tag is known to its own thread only
            session.interruptAll()

    def late() -> None:
        is_late.set()
        interrupt()

    timer = threading.Timer(timeout, late)
    timer.daemon = True
    session.addTag(tag)
    timer.start()
    try:
        with watched(look, interrupt):
            yield
    except Exception as error:
        if is_late.is_set():
            raise BatchTimeout(f"a batch took longer than {timeout:g} s", "Raise timeout_seconds.") from error
        raise
    finally:
        timer.cancel()
        session.removeTag(tag)
