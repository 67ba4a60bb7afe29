"""What a reader of a view set sees: one instance, and only partitions with the schema of the version that is read.

Rows of several instances would be there twice, and rows of another schema would have null where a column came later.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from lakewarden.engine.rows.read import version_schema
from lakewarden.features.viewset.catalogue import PartitionRow, partitions
from lakewarden.features.viewset.definition import (
    GLOBAL,
    HASH,
    INSTANCE,
    ViewSet,
    columns_with_ids,
    inner_ids,
    of_table,
)
from lakewarden.features.viewset.history import history_of
from lakewarden.quantities import counted

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression

    from lakewarden.engine.catalog.tables import Resolved
    from lakewarden.lifecycle.ground import Reader


_LONG_AGO = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True)
class Selection:
    """The part of a view set's table that a reader sees."""

    only: BooleanExpression
    columns: tuple[str, ...]
    """The columns of its SQL."""
    left_out: str
    """What the reader does not see, as a sentence; empty if it sees everything."""


def selection(lake: Reader, version: Resolved, instance: str = GLOBAL) -> Selection | None:
    """What a reader of this version sees; None if the table is not a view set's."""
    from pyiceberg.expressions import And

    view = of_table(version.name, version.table)
    if view is None:
        return None
    schema = version_schema(version)
    columns, inner = columns_with_ids(schema), inner_ids(schema)
    is_head = version.snapshot.snapshot_id == version.table.metadata.current_snapshot_id
    rows = partitions(lake, view, at=None if is_head else version.snapshot)
    current = view.hash_of(columns, inner, view.definition.schema_version)
    if not is_head:
        current = _then(view, columns, inner, rows) or current
    stored = view.stored_as(current, version.snapshot)
    is_as_stored = is_head or not view.kept  # else they count as what they are at the head
    there = {row.identity for row in rows} if is_as_stored else view.stored_partitions(version.snapshot)
    others = sum(1 for one in there if one[0] != instance)
    incompatible = sum(1 for one in there if one[0] == instance and one[3] not in stored)
    parts = [
        *([f"{counted(incompatible, 'partition')} of another schema"] if incompatible else []),
        *([f"{counted(others, 'partition')} of other instances"] if others else []),
    ]
    return Selection(
        And(_is(INSTANCE, [instance]), _is(HASH, stored)),
        tuple(columns),
        f"{view.name}, instance {instance}: left out {' and '.join(parts)}" if parts else "",
    )


def _then(
    view: ViewSet, columns: dict[str, tuple[int, str]], inner: dict[str, list[int]], rows: list[PartitionRow]
) -> str | None:
    """The hash that was current in an earlier version: of those with its columns, whatever their schema_version, the
    one that was written last."""
    history = history_of(view.table.metadata.properties) or {}
    versions = {one.definition.schema_version for former in history.values() for one in former}
    known = {view.hash_of(columns, inner, one) for one in versions}
    written = [(row.updated or _LONG_AGO, row.file_schema_hash) for row in rows if row.file_schema_hash in known]
    return max(written)[1] if written else None


def _is(column: str, values: list[str]) -> BooleanExpression:
    from pyiceberg.expressions import In, Reference

    return In(term=Reference(column), literals=set(values))
