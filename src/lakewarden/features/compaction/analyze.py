"""`compaction analyze`."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import Field

from lakewarden.engine.base.table_name import TableName
from lakewarden.errors import LakewardenError
from lakewarden.features.compaction.survey import Survey, survey
from lakewarden.features.shared.select import Selects
from lakewarden.lifecycle.ground import Reader
from lakewarden.lifecycle.request import Question
from lakewarden.quantities import Bytes


@dataclass(frozen=True)
class Analysis:
    """Statistics of a table's files, and whether rewriting some of them pays off."""

    table: str
    needs_compaction: bool | None = None
    reason: str = ""
    expected_gain: str = ""
    files: int | None = None
    bytes: Bytes | None = None
    average_file_bytes: Bytes | None = None
    small_files: int | None = None
    delete_files: int | None = None
    deleted_rows_present: int | None = None
    files_without_nan_counts: int | None = None
    row_groups: int | None = None
    manifests: int | None = None
    next: str = ""
    problem: str = ""


class Analyze(Selects, Question[list[Analysis]]):
    """Report which tables need compaction, why, and what they would gain; from metadata, without Spark.

    It uses the function that plans a compaction: a table needs none if that finds nothing worth doing, however small
    its files are.
    """

    nothing = "No tables."

    target_file_size_mb: int | None = Field(None, ge=1, description="Target size of new files.")
    min_file_size_mb: int | None = Field(None, ge=1, description="Files below this size are small.")
    rewrite_all: bool | None = Field(None, description="Count every file that was not written by a compaction.")

    def ask(self, lake: Reader) -> list[Analysis]:
        given = ("target_file_size_mb", "min_file_size_mb", "rewrite_all")
        options = {option: getattr(self, option) for option in given}

        def analysis(name: TableName) -> Analysis:
            try:
                return _analysis(survey(lake, name, options))
            except LakewardenError as error:
                if self.is_one:
                    raise
                return Analysis(str(name), problem=error.message)

        return list(lake.tables.read_all(self.chosen(lake), analysis))


def _analysis(found: Survey) -> Analysis:
    files, packing = found.files.data, found.packing
    total = sum(file.bytes for file in files)
    needed = bool(packing.bins)
    return Analysis(
        table=str(found.name),
        needs_compaction=needed,
        reason=packing.reason,
        expected_gain=_gain(found) if needed else "",
        files=len(files),
        bytes=total,
        average_file_bytes=total // len(files) if files else 0,
        small_files=sum(file.bytes < found.policy.small for file in files),
        delete_files=len({delete.path for delete in found.files.deletes}),
        deleted_rows_present=sum(found.files.masked(file) for file in files),
        files_without_nan_counts=sum(file.lacks_nan_counts for bin in packing.bins for file in bin.files),
        row_groups=sum(file.row_groups for file in files),
        manifests=len(found.files.manifests),
        next=f"lakewarden compaction compact {found.name}" if needed else "",
    )


def _gain(found: Survey) -> str:
    packing = found.packing
    gain = f"{packing.files} files become about {packing.files_after(found.policy)}"
    masked = sum(bin.masked for bin in packing.bins)
    return f"{gain}, {masked:,} deleted rows are removed" if masked else gain
