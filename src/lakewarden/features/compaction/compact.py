"""`compaction compact`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from lakewarden.errors import BadValue
from lakewarden.features.compaction import compacting
from lakewarden.features.compaction.sorting import look_for_order
from lakewarden.features.compaction.survey import survey
from lakewarden.features.shared.each import plan_each
from lakewarden.features.shared.select import Selects
from lakewarden.lifecycle.action import Action, Outcome
from lakewarden.lifecycle.plan import Plan
from lakewarden.lifecycle.request import TableOperation

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from lakewarden.engine.base.table_name import TableName
    from lakewarden.lifecycle.ground import Reader, Writer


class Compact(Selects, TableOperation):
    """Write small files anew as few large ones, and drop for good the rows that are deleted already.

    Files of one partition are put together up to the target size, where that pays. What readers see stays the same,
    and so do the versions before. With the strategy sort, files that are not in the table's sort order are sorted,
    which goes through Spark.
    """

    destructive = True

    strategy: Literal["binpack", "sort"] = Field("binpack", description="Put files together, or also sort their rows.")
    sort_by: str = Field("", description="Sort by this instead of the table's own order, as in 'city, id DESC'.")
    where: str = Field("", description="Only files that may hold rows of this filter, as in \"day = '2026-01-01'\".")
    target_file_size_mb: int | None = Field(None, ge=1, description="How large new files should be.")
    min_file_size_mb: int | None = Field(None, ge=1, description="Below this a file is small.")
    max_concurrent_files: int | None = Field(None, ge=1, description="New files between two commits, at most.")
    rewrite_all: bool | None = Field(None, description="Write every file anew that no compaction has written.")
    verification: Literal["counts", "full"] | None = Field(
        None,
        alias="verify",
        description="Compare counts, nulls and bounds of old and new files, or all of their content.",
    )

    def plan(self, lake: Reader) -> Plan:
        given = ("target_file_size_mb", "min_file_size_mb", "max_concurrent_files", "rewrite_all")
        options = {name: getattr(self, name) for name in given} | {"verify": self.verification}
        if self.sort_by and self.strategy != "sort":
            raise BadValue("sort_by says how to sort, and the strategy is to bin-pack", "Add --strategy sort.")

        def plan_one(name: TableName) -> Plan:
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

        return plan_each(lake, self.kind(), self, plan_one)

    def skips_held(self) -> bool:
        return not self.is_one

    def holds(self, action: Action, lake: Reader) -> bool:
        return compacting.holds(action, lake)

    def apply(self, action: Action, lake: Writer) -> Outcome:
        return compacting.apply(action, lake)

    def _order(self, table: Table, name: TableName) -> int:
        """The sort order that files should have; columns that were asked for are none of the table's own."""
        if self.sort_by:
            return -1
        if not table.sort_order().fields:
            raise BadValue(f"{name} has no sort order", "Say --sort-by COLUMNS, or give the table one.")
        return table.sort_order().order_id
