"""`viewset regenerate`."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from lakewarden.errors import Conflict
from lakewarden.features.viewset.definition import view_set
from lakewarden.features.viewset.former_columns import refuse_former_columns
from lakewarden.features.viewset.ranges import WritesRanges
from lakewarden.features.viewset.upgraded import refuse_upgraded
from lakewarden.lifecycle.request import TableOperation

if TYPE_CHECKING:
    from lakewarden.features.viewset.catalogue import PartitionRow
    from lakewarden.features.viewset.definition import ViewSet
    from lakewarden.lifecycle.ground import Reader
    from lakewarden.lifecycle.plan import Plan


class Regenerate(WritesRanges, TableOperation):
    """Rewrite the partitions of a time from the source, and retire what they replace.

    Partitions of any schema and any length within the time are retired in the commit that adds the new ones: a reader
    sees the former rows or the new ones, never none and never both. There is a commit for every 5,000 partitions.
    """

    destructive: ClassVar[bool] = True

    def plan(self, lake: Reader) -> Plan:
        view, ranges = view_set(lake, self.name), self.ranges()
        refuse_former_columns(view)
        there = self.near(lake, view)
        for row in there:
            if row.begin_insert_time < ranges.begin or row.end_insert_time > ranges.end:
                raise Conflict(
                    f"{view.name} has a partition from {row.begin_insert_time:%Y-%m-%d %H:%M} to "
                    f"{row.end_insert_time:%Y-%m-%d %H:%M}, of which only a part would be written",
                    "Choose --begin and --end so that it lies within.",
                )
        if there:
            refuse_upgraded(lake, view)
        digests, versions = self.digests(lake, view, ranges)
        return self.planned(view, versions, ranges, digests, there)

    def replaces(self, view: ViewSet, row: PartitionRow) -> bool:
        return True
