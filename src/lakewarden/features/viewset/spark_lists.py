"""The lists of view sets as SELECTs over Iceberg's metadata tables, for Spark sessions that belong to others."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING

from lakewarden.engine.base.quoting import identifier, literal
from lakewarden.features.viewset.catalogue import FORMAT_VERSION, PartitionRow
from lakewarden.features.viewset.definition import (
    BEGIN,
    EMPTY_SUFFIX,
    END,
    HASH,
    INSTANCE,
    SOURCE_HASH,
    UPDATED,
    all_view_sets,
)
from lakewarden.features.viewset.list import List, ViewSetRow

if TYPE_CHECKING:
    from lakewarden.features.viewset.definition import ViewSet
    from lakewarden.lifecycle.ground import Reader

_KINDS = {"str": "string", "bool": "boolean", "datetime": "timestamp", "int": "bigint", "Bytes": "bigint"}


def columns_of(row: type[PartitionRow | ViewSetRow]) -> dict[str, str]:
    """The columns of a list and their Spark types."""
    return {field.name: _KINDS[str(field.type).split(" | ")[0]] for field in dataclasses.fields(row)}


def view_sets_as_select(lake: Reader) -> str:
    """The view sets as they are now."""
    rows = [
        "SELECT "
        + ", ".join(f"{literal(getattr(row, column))} AS {identifier(column)}" for column in columns_of(ViewSetRow))
        for row in List().ask(lake)
    ]
    return " UNION ALL ".join(rows) or _nothing(columns_of(ViewSetRow))


def partitions_as_select(lake: Reader) -> str:
    """The partitions of the view sets that there are now; the partitions themselves are read by each statement."""
    parts = [part for view in all_view_sets(lake) for part in _of(view)]
    return " UNION ALL ".join(parts) or _nothing(columns_of(PartitionRow))


def _of(view: ViewSet) -> Iterator[str]:
    """Files, and partitions without rows that have no file."""
    name = view.table_name
    bounds = "readable_metrics.{}.{}"
    event = view.definition.event_time
    is_time = event is not None and str(view.table.schema().find_type(event)).startswith("timestamp")
    times = [
        bounds.format(identifier(event or ""), side) if is_time else "NULL" for side in ("lower_bound", "upper_bound")
    ]
    stored = {part: f"partition.{identifier(part)}" for part in (INSTANCE, BEGIN, END, HASH)}
    files = {
        **stored,
        "min_event_time": times[0],
        "max_event_time": times[1],
        UPDATED: bounds.format(identifier(UPDATED), "upper_bound"),
        "file_path": "file_path",
        "file_size": "file_size_in_bytes",
        SOURCE_HASH: bounds.format(identifier(SOURCE_HASH), "lower_bound"),
        "num_rows": "record_count",
    }
    empty = {part: identifier(part) for part in (INSTANCE, BEGIN, END, HASH, UPDATED, SOURCE_HASH)}
    identity = " AND ".join(f"{stored[part]} = e.{identifier(part)}" for part in stored)
    *namespace, last = name.identifier
    table, beside = (identifier(name.lake, *namespace, one) for one in (last, f"{last}{EMPTY_SUFFIX}"))
    data = f"{table}.files WHERE content = 0"
    yield f"{_select(view, files)} FROM {data}"
    without = _select(view, {**empty, "file_size": "0", "num_rows": "0"})
    yield f"{without} FROM {beside} AS e WHERE NOT EXISTS (SELECT 1 FROM {data} AND {identity})"  # noqa: S608


def _select(view: ViewSet, known: dict[str, str]) -> str:
    fixed = {"view_set_name": literal(view.name), "partition_format_version": str(FORMAT_VERSION)}
    current = literal(view.schema_hash)
    kept = [literal(one) for one in sorted(view.kept)]
    if kept:  # former schemas that count as current
        known = {**known, HASH: f"CASE WHEN {known[HASH]} IN ({', '.join(kept)}) THEN {current} ELSE {known[HASH]} END"}
    columns = columns_of(PartitionRow).items()
    items = (
        f"CAST({({**known, **fixed}).get(name, 'NULL')} AS {kind}) AS {identifier(name)}" for name, kind in columns
    )
    return f"SELECT {', '.join(items)}"


def _nothing(columns: dict[str, str]) -> str:
    return "SELECT " + ", ".join(f"CAST(NULL AS {kind})" for kind in columns.values()) + " WHERE false"
