"""`table health`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from pydantic import Field

from lakewarden.engine.base.table_name import TableName
from lakewarden.errors import BrokenTable, LakewardenError, UnsupportedTable
from lakewarden.features.policy.condition import score
from lakewarden.features.policy.upkeep import UPKEEP, diagnosis
from lakewarden.features.shared.damage import explaining
from lakewarden.features.shared.planner import Round, TableUpkeep
from lakewarden.features.shared.select import Selects
from lakewarden.lifecycle.ground import Reader
from lakewarden.lifecycle.request import Question
from lakewarden.quantities import Bytes

_SHOWN, _MORE = 20, 100


@dataclass(frozen=True)
class TableHealth:
    """The health of a table, its worst problem, and the command that fixes it."""

    table: str
    score: int
    worst: str = ""
    files: int | None = None
    small_files: int | None = None
    delete_files: int | None = None
    deleted_rows: int | None = None
    snapshots: int | None = None
    manifests: int | None = None
    metadata: Bytes | None = None
    last_upkeep: datetime | None = None
    next: str = ""

    dispensable: ClassVar[tuple[str, ...]] = (  # dropped on a narrow terminal, in this order
        "metadata",
        "manifests",
        "delete_files",
        "snapshots",
        "small_files",
        "deleted_rows",
        "last_upkeep",
        "files",
    )


class Health(Selects, Question[list[TableHealth]]):
    """Report table health, worst first: one row per table, with the command that helps most.

    All tables are reported unless some are named. A table that upkeep would not change scores 100. Points are deducted
    for too many files, deleted rows that are still stored, versions past their retention, manifests and metadata that
    slow down every read, and most of all for overdue erasure requests. Read from metadata, without Spark.
    """

    nothing = "No tables yet."
    all_by_default = True

    worst: int | None = Field(None, gt=0, description="Only this many of the worst; a terminal shows 20 by default.")

    def shown(self) -> tuple[int, str] | None:
        return (_SHOWN, f"--worst {_MORE}") if self.worst is None else None

    def ask(self, lake: Reader) -> list[TableHealth]:
        names, looks, upkept = self.chosen(lake), Round(lake), lake.journal.last_done(UPKEEP)

        def row(name: TableName) -> TableHealth:
            try:
                with explaining(lake, name):
                    return _row(TableUpkeep(looks, name), upkept.get(str(name)))
            except LakewardenError as error:
                if self.is_one:
                    raise
                if isinstance(error, UnsupportedTable):
                    return TableHealth(str(name), 100, f"skipped: {error.message}")
                is_damaged = isinstance(error, BrokenTable) and error.is_explained
                advice = error.hint if is_damaged else f"lakewarden table show {name}"
                return TableHealth(str(name), 0, error.message, next=advice)

        rows = list(lake.tables.read_all(names, row))
        return sorted(rows, key=lambda found: (found.score, found.table))[: self.worst]


def _row(on: TableUpkeep, last_upkeep: datetime | None) -> TableHealth:
    found, complaints = diagnosis(on)
    return TableHealth(
        table=str(on.name),
        score=score(complaints),
        worst=complaints[0].reason if complaints else "",
        files=found.files,
        small_files=found.small_files,
        delete_files=found.delete_files,
        deleted_rows=found.rows_masked,
        snapshots=found.versions,
        manifests=found.manifests,
        metadata=found.metadata_bytes,
        last_upkeep=last_upkeep,
        next=f"lakewarden {complaints[0].remedy} {on.name}" if complaints else "",
    )
