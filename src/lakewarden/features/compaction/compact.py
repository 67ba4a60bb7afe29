"""`compaction compact`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from lakewarden.errors import BadValue
from lakewarden.features.compaction import compacting
from lakewarden.features.compaction.sorting import look_for_order
from lakewarden.features.compaction.survey import survey
from lakewarden.features.shared.each import TablesOperation
from lakewarden.lifecycle.plan import Plan

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from lakewarden.engine.base.table_name import TableName
    from lakewarden.lifecycle.ground import Reader


class Compact(TablesOperation):
    """Rewrite small files into larger ones and physically remove deleted rows.

    Files of one partition are combined up to the target size where that pays off. Readers see the same rows, and
    earlier versions stay. With the strategy sort, Spark sorts files that are not in the table's sort order.
    """

    destructive = True
    is_upkeep = True

    strategy: Literal["binpack", "sort"] = Field("binpack", description="Combine files, or also sort their rows.")
    sort_by: str = Field("", description="Sort by these columns instead of the table's order, as in 'city, id DESC'.")
    where: str = Field("", description="Only files that may hold rows matching this filter: \"day = '2026-01-01'\".")
    target_file_size_mb: int | None = Field(None, ge=1, description="Target size of new files.")
    min_file_size_mb: int | None = Field(None, ge=1, description="Files below this size are small.")
    max_concurrent_files: int | None = Field(None, ge=1, description="Write at most this many files per commit.")
    rewrite_all: bool | None = Field(None, description="Rewrite every file that was not written by a compaction.")
    verification: Literal["counts", "full"] | None = Field(
        None,
        alias="verify",
        description="Compare counts, nulls and bounds of old and new files, or their full content.",
    )

    def plan(self, lake: Reader) -> Plan:
        if self.sort_by and self.strategy != "sort":
            raise BadValue("--sort-by requires --strategy sort", "Add --strategy sort.")
        return self.plan_each(lake, partial(self._plan_table, lake))

    def _plan_table(self, lake: Reader, name: TableName) -> Plan:
        given = ("target_file_size_mb", "min_file_size_mb", "max_concurrent_files", "rewrite_all")
        options = {option: getattr(self, option) for option in given} | {"verify": self.verification}
        arguments: dict[str, Any] = {"where": self.where} if self.where else {}
        in_order = None
        if self.strategy == "sort":
            table = lake.tables.load(name)
            order = self._order(table, name)
            arguments |= {"sort_order": order, "sort_by": self.sort_by}
            in_order = look_for_order(table, order, self.sort_by)
        found = survey(lake, name, options, self.where, in_order)
        notes = (f"{name}: {found.left_alone}",) if found.left_alone else ()
        return Plan(self.kind(), str(name), compacting.actions_for(found, arguments), notes)

    def _order(self, table: Table, name: TableName) -> int:
        """The id of the table's sort order; -1 if columns are given."""
        if self.sort_by:
            return -1
        if not table.sort_order().fields:
            raise BadValue(f"{name} has no sort order", "Add --sort-by COLUMNS, or define one with ALTER TABLE.")
        return table.sort_order().order_id
