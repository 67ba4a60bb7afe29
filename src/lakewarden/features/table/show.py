"""`table show`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from lakewarden.display import Shown
from lakewarden.engine.base.route import Route
from lakewarden.errors import UnsupportedTable
from lakewarden.features.shared.columns import Column, columns_of
from lakewarden.features.shared.damage import problems
from lakewarden.features.shared.summary import live_rows, total
from lakewarden.features.version.refs import Ref, refs_of
from lakewarden.lifecycle.request import Question, Table
from lakewarden.quantities import Bytes, SnapshotId, from_millis

if TYPE_CHECKING:
    from pyiceberg.schema import Schema

    from lakewarden.lifecycle.ground import Reader


@dataclass(frozen=True)
class TableDetail(Shown):
    """A table's metadata, and whether the manifests of the current version exist; no manifest is opened."""

    table: str
    uuid: str
    format: int
    location: str
    changed_by: str
    updated_at: datetime
    rows: int | None
    files: int | None
    delete_files: int | None
    bytes: Bytes | None
    snapshots: int
    current_snapshot_id: SnapshotId | None
    partitioned_by: list[str]
    sorted_by: list[str]
    columns: list[Column]
    refs: list[Ref]
    properties: dict[str, str]
    problems: list[str]
    """Damaged metadata of the current version, each with how to recover."""


class Show(Question[TableDetail]):
    """Show a table: its columns, partitions, size, branches, tags, properties, and damaged metadata files."""

    table: Table

    def ask(self, lake: Reader) -> TableDetail:
        name = lake.tables.name(self.table)
        table = lake.tables.load(name)
        metadata, head, schema = table.metadata, table.current_snapshot(), table.schema()
        try:
            route = lake.tables.route(table, name)
        except UnsupportedTable as error:
            route = Route("nothing", error.message)
        return TableDetail(
            table=str(name),
            uuid=str(metadata.table_uuid),
            format=metadata.format_version,
            location=metadata.location,
            changed_by=f"{route.name} ({route.because})" if route.because else route.name,
            updated_at=from_millis(metadata.last_updated_ms),
            rows=live_rows(head),
            files=total(head, "data-files") if head else 0,
            delete_files=total(head, "delete-files") if head else 0,
            bytes=total(head, "files-size") if head else 0,
            snapshots=len(metadata.snapshots),
            current_snapshot_id=metadata.current_snapshot_id,
            partitioned_by=[_term(schema, f.source_id, f.transform) for f in table.spec().fields],
            sorted_by=[f"{_term(schema, f.source_id, f.transform)} {f.direction}" for f in table.sort_order().fields],
            columns=columns_of(schema),
            refs=refs_of(table),
            properties=dict(sorted(metadata.properties.items())),
            problems=problems(lake, name, table),
        )


def _term(schema: Schema, source: int, transform: object) -> str:
    """`day(ts)`, or the column's name if it is not transformed."""
    column, name = schema.find_column_name(source) or f"#{source}", str(transform)
    if name == "identity":
        return column
    function, _, width = name.partition("[")
    return f"{function}({width.rstrip(']')}, {column})" if width else f"{function}({column})"
