"""`viewset materialize`."""

from __future__ import annotations

from typing import TYPE_CHECKING

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


class Materialize(WritesRanges, TableOperation):
    """Write the partitions of a view set that are missing, or whose source has changed since.

    The time from begin to end is cut into partitions of equal length. Up to 5,000 of them are written by one Spark job
    and published by one commit. The tables that the SQL reads are pinned to their current versions, and rows that
    erasure requests hide are not read. Partitions of another schema stay; lakewarden viewset regenerate replaces them.
    """

    def plan(self, lake: Reader) -> Plan:
        view, ranges = view_set(lake, self.name), self.ranges()
        refuse_former_columns(view)
        there = self.near(lake, view)
        bounds = {ranges.of(number): number for number in range(ranges.count)}
        for row in there:
            if (row.begin_insert_time, row.end_insert_time) not in bounds:
                raise Conflict(
                    f"{view.name} has a partition from {row.begin_insert_time:%Y-%m-%d %H:%M} to "
                    f"{row.end_insert_time:%Y-%m-%d %H:%M}, which overlaps: its rows would be there twice",
                    "Choose the same --begin and --delta, or replace it with: lakewarden viewset regenerate",
                )
        digests, versions = self.digests(lake, view, ranges)
        known: dict[int, set[str]] = {}
        for row in there:
            known.setdefault(bounds[row.begin_insert_time, row.end_insert_time], set()).add(row.source_data_hash)
        seen = [digests, *self.digests_when_kept(lake, view, ranges, versions)]
        wanted = {
            number: digest
            for number, digest in digests.items()
            if not any(known.get(number) == {one[number]} for one in seen)
        }
        replaced = [row for row in there if bounds[row.begin_insert_time, row.end_insert_time] in wanted]
        if any(self.replaces(view, row) for row in replaced):
            refuse_upgraded(lake, view)
        return self.planned(view, versions, ranges, wanted, replaced)

    def replaces(self, view: ViewSet, row: PartitionRow) -> bool:
        return row.file_schema_hash == view.schema_hash
