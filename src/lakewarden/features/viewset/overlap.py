"""No row may be there twice: partitions of one instance and one schema must not share any time.

Partitions that are written and those that are restored pass the same check: when an operation begins, and again in its
commit, since another process may have written in the meantime.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING

from lakewarden.errors import StalePlan
from lakewarden.features.viewset.catalogue import Identity, Near, PartitionRow, partitions
from lakewarden.features.viewset.definition import ViewSet, of_table
from lakewarden.features.viewset.stored_times import Times

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from lakewarden.lifecycle.ground import Reader


def doubled(there: Iterable[PartitionRow], coming: Iterable[Identity]) -> Identity | None:
    """The first of some partitions to come whose rows would be there twice."""
    times: dict[tuple[str, str], Times] = {}
    for instance, begin, end, schema_hash in sorted({row.identity for row in there}):
        times.setdefault((instance, schema_hash), Times()).add(begin, end)
    for one in coming:
        instance, begin, end, schema_hash = one
        if (instance, schema_hash) in times and times[instance, schema_hash].overlaps(begin, end):
            return one
    return None


def unshared(
    lake: Reader, view: ViewSet, coming: Collection[Identity], leaving: Collection[str] = ()
) -> Callable[[Table], None]:
    """A check for commits: nothing has a part of the time of what is to come, but what leaves in the same commit.

    `leaving` has paths of files, and identities of partitions without rows.
    """

    def check(table: Table) -> None:
        now = of_table(view.table_name, table)
        if now is None or (now.schema_hash, now.kept) != (view.schema_hash, view.kept):
            raise schema_changed(view)
        there = partitions(lake, now, _near(coming))
        found = doubled((row for row in there if (row.file_path or row.identity_text) not in leaving), coming)
        if found is not None:
            instance, begin, end, _ = found
            raise StalePlan(
                f"the plan is stale: {view.name} has partitions of {instance} between {begin:%Y-%m-%d %H:%M} and "
                f"{end:%Y-%m-%d %H:%M} by now",
                "Its rows would be there twice, so nothing was written. Plan again.",
            )

    return check


def _near(coming: Collection[Identity]) -> Near | None:
    instances = {one[0] for one in coming}
    if len(instances) != 1:
        return None
    return Near(instances.pop(), min(one[1] for one in coming), max(one[2] for one in coming))


def schema_changed(view: ViewSet) -> StalePlan:
    return StalePlan(
        f"the plan is stale: the schema of the view set {view.name} changed, or which former ones count as current",
        "Nothing was changed. Plan again.",
    )
