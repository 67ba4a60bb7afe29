"""PyIceberg's scan of one version, without two mistakes that its planning makes in 0.12.

It does not find deletes of a partition whose value is NaN, as no NaN equals another in Python: deleted rows would be
read. And it fails on a comparison with a partition whose value is NULL, unless the whole filter leaves that file out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyiceberg.table import DataScan, ManifestGroupPlanner

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.expressions.visitors import ResidualEvaluator
    from pyiceberg.manifest import DataFile, ManifestEntry, ManifestFile
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.typedef import Record

    from lakewarden.engine.catalog.tables import Resolved


def scan(
    version: Resolved,
    schema: Schema,
    predicate: BooleanExpression,
    selected: tuple[str, ...] = (),
    limit: int | None = None,
) -> DataScan:
    """A scan of one version with a schema; no columns means all."""
    table = _pinned(version, schema)
    return _Scan(
        table_metadata=table.metadata,
        io=table.io,
        row_filter=predicate,
        selected_fields=selected or ("*",),
        snapshot_id=version.snapshot.snapshot_id,
        limit=limit,
        catalog=table.catalog,
        table_identifier=table.name(),
    )


class _Scan(DataScan):
    @cached_property
    def _manifest_planner(self) -> ManifestGroupPlanner:
        return _Planner(self.table_metadata, self.io, self.row_filter, self.case_sensitive, self.options)


class _Planner(ManifestGroupPlanner):
    def plan_manifest_entries(self, manifests: Iterable[ManifestFile]) -> Iterator[list[ManifestEntry]]:
        for entries in super().plan_manifest_entries(manifests):
            for entry in entries:
                _make_nan_equal(entry.data_file.partition)
            yield entries

    def _build_residual_evaluator(self, spec_id: int) -> Callable[[DataFile], ResidualEvaluator]:
        build = super()._build_residual_evaluator(spec_id)
        return lambda file: _Residual(build(file), self.row_filter)  # type: ignore[return-value]


class _Residual:
    """What is left to check in a file's rows: the whole filter, where its partition does not decide."""

    def __init__(self, evaluator: ResidualEvaluator, whole: BooleanExpression) -> None:
        self._evaluator, self._whole = evaluator, whole

    def residual_for(self, partition: Record) -> BooleanExpression:
        try:
            return self._evaluator.residual_for(partition)
        except TypeError:  # NULL is compared
            return self._whole


def _make_nan_equal(partition: Any) -> None:
    """Make each NaN the same object, which lists take for equal."""
    for place in range(len(partition)):
        if isinstance(partition[place], float) and math.isnan(partition[place]):
            partition[place] = math.nan


def _pinned(version: Resolved, schema: Schema) -> Table:
    """The table reduced to one version and a schema: PyIceberg binds filters to the current schema."""
    schema_id, schemas = schema.schema_id, version.table.metadata.schemas
    snapshot = version.snapshot.model_copy(update={"schema_id": schema_id})
    pinned = copy(version.table)
    pinned.metadata = version.table.metadata.model_copy(
        update={
            "current_schema_id": schema_id,
            "schemas": [schema, *(each for each in schemas if each.schema_id != schema_id)],
            "snapshots": [snapshot],
        }
    )
    return pinned
