"""`table list`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, ClassVar

from pydantic import Field

from lakewarden.engine.base.table_name import TableName
from lakewarden.errors import LakewardenError
from lakewarden.features.shared.summary import live_rows, total
from lakewarden.lifecycle.ground import Reader
from lakewarden.lifecycle.request import Completes, Question
from lakewarden.quantities import Bytes, from_millis


@dataclass(frozen=True)
class TableRow:
    """One table in a list; `problem` says why the rest is unknown."""

    table: str
    format: int | None = None
    rows: int | None = None
    files: int | None = None
    bytes: Bytes | None = None
    snapshots: int | None = None
    tags: int | None = None
    updated_at: datetime | None = None
    problem: str = ""

    dispensable: ClassVar[tuple[str, ...]] = ("tags", "format", "snapshots", "updated_at", "files")


class List(Question[list[TableRow]]):
    """List the tables of all lakes, with rows, files and size from their metadata.

    A table whose metadata cannot be read is listed with its problem.
    """

    nothing = "No tables yet."

    lake: Annotated[str | None, Completes("lakes")] = Field(None, description="Only this lake.")
    namespace: str | None = Field(None, description="Only tables in this namespace and below it.")

    def ask(self, lake: Reader) -> list[TableRow]:
        names = lake.tables.names(self.lake, self.namespace)
        return list(lake.tables.read_all(names, lambda name: _row(lake, name)))


def _row(lake: Reader, name: TableName) -> TableRow:
    try:
        metadata = lake.tables.load(name).metadata
    except LakewardenError as error:
        return TableRow(str(name), problem=error.message)
    head = metadata.current_snapshot()
    return TableRow(
        table=str(name),
        format=metadata.format_version,
        rows=live_rows(head),
        files=total(head, "data-files") if head else 0,
        bytes=total(head, "files-size") if head else 0,
        snapshots=len(metadata.snapshots),
        tags=sum(str(ref.snapshot_ref_type) == "tag" for ref in metadata.refs.values()),
        updated_at=from_millis(metadata.last_updated_ms),
    )
