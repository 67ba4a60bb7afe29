"""Files that are rewritten one by one: distributing them over tasks, and checking the reports.

A file keeps its schema, order and partition; only dropped rows are left out. `driver.py` runs the tasks, and callers
publish the new files.
"""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakewarden.engine.base.locations import apart, is_local
from lakewarden.engine.files.bounds import Bounds
from lakewarden.engine.files.written_files import Footer, check_null_counts, data_file
from lakewarden.engine.kernel.messages import MIB, Drop, Group, GroupReport, Input
from lakewarden.errors import VerificationFailed

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table

    from lakewarden.config import LakeSettings
    from lakewarden.engine.files.live_files import LiveFile

HERE_BYTES = 64 * MIB
"""This process rewrites as much in less time than Spark takes to start."""
HERE_FILES = 512
HERE_THREADS = 4
_TASKS = 32  # minimum, if there is enough work: keeps all cores busy to the end
_LEAST_TASK, _LARGEST_TASK = 16 * MIB, 256 * MIB


@dataclass(frozen=True)
class RewrittenFile:
    """A rewritten file and its replacement: None if all rows were dropped."""

    path: str
    file: DataFile | None = field(repr=False)
    rows_in: int
    rows_dropped: int
    dropped: Sequence[int] = field(repr=False)
    """The positions of the dropped rows, in order."""
    sha256_before: str
    sha256_after: str | None


def fits_here(files: Sequence[LiveFile], folder: str, settings: LakeSettings) -> bool:
    """Whether this process is faster than Spark, and can access the files."""
    if len(files) > HERE_FILES or sum(file.bytes for file in files) > HERE_BYTES:
        return False
    return all(_reached(place, settings) for place in (folder, *(file.path for file in files)))


def _reached(location: str, settings: LakeSettings) -> bool:
    """Object stores only with explicit keys: without them, each host may have different permissions."""
    return is_local(location) or (apart(location)[0].startswith("s3:") and settings.storage.access_key is not None)


def shared_out(files: Sequence[LiveFile], drops: Sequence[Drop], folder: str, tasks: int | None = None) -> list[Group]:
    """Distribute files over groups of about the same size: the largest first, each to the smallest group."""
    if tasks is None:
        whole = sum(file.bytes for file in files)
        tasks = -(-whole // min(max(whole // _TASKS, _LEAST_TASK), _LARGEST_TASK))
    tasks = max(1, min(tasks, len(files)))
    groups: list[list[Input]] = [[] for _ in range(tasks)]
    sizes = [(0, number) for number in range(tasks)]
    for file in sorted(files, key=lambda file: (-file.bytes, file.path)):
        size, number = heapq.heappop(sizes)
        groups[number].append(Input(file.path, file.rows))  # earlier versions still see deleted rows
        heapq.heappush(sizes, (size + max(file.bytes, 1), number))
    return [Group(number, tuple(inputs), folder, tuple(drops)) for number, inputs in enumerate(groups) if inputs]


def checked(
    table: Table,
    files: Sequence[LiveFile],
    bounds: Mapping[str, Bounds],
    reports: Iterable[GroupReport],
    footers: Mapping[str, Footer],
    about: str,
) -> dict[str, RewrittenFile]:
    """Each file with its replacement, once all checks pass."""
    answers: dict[str, RewrittenFile] = {}
    live = {file.path: file for file in files}
    for report in reports:
        if report.checksum_in != report.checksum_out:
            raise VerificationFailed(f"{about}: rewritten rows differ from what was read", "Nothing was published.")
        outputs = {output.source: output for output in report.outputs}
        named = report.fingerprints.keys() & live.keys()
        if len(outputs) != len(report.outputs) or not outputs.keys() <= named:
            raise VerificationFailed(f"{about}: a task wrote unexpected files", "Nothing was published.")
        for path in named:
            dropped = array("q", report.dropped.get(path, ()))
            output = outputs.get(path)
            rows_out = footers[output.path].metadata.num_rows if output else 0
            _check_rows(about, live[path].rows, len(dropped), rows_out)
            new = data_file(table, footers[output.path], output.nans, [live[path]]) if output else None
            if new is not None and output is not None:
                check_null_counts(about, output.nulls, [new])
                bounds[path].check(about, [new])
            answers[path] = RewrittenFile(
                path=path,
                file=new,
                rows_in=live[path].rows,
                rows_dropped=len(dropped),
                dropped=dropped,
                sha256_before=report.fingerprints[path],
                sha256_after=report.fingerprints[output.path] if output else None,
            )
    if missing := live.keys() - answers.keys():
        raise VerificationFailed(f"{about}: {len(missing)} files were not rewritten", "Nothing was published.")
    return answers


def _check_rows(about: str, rows_in: int, dropped: int, rows_out: int) -> None:
    if rows_out != rows_in - dropped:
        raise VerificationFailed(
            f"{about}: {dropped} of {rows_in} rows of a file were to be dropped, but {rows_out} were written",
            "Nothing was published.",
        )
