"""Keeps partitions of a former schema as they are: from then on they count as current.

Their files stay untouched, and so does what metadata says of them. A file has its schema hash as a column too: under
another partition value, readers that filter by the hash would skip its rows, since the file's own statistics rule them
out. So the table's properties say which former hashes count as the current one, in one commit.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from lakewarden.engine.commit.evolved_schema import EvolveSchema
from lakewarden.errors import StalePlan
from lakewarden.features.viewset.catalogue import partitions
from lakewarden.features.viewset.definition import KEPT, ViewSet
from lakewarden.features.viewset.ways.incompatible_partitions import sort_out
from lakewarden.lifecycle.action import Action, Estimate, Outcome
from lakewarden.lifecycle.requirement import TableIs, table_lease
from lakewarden.quantities import counted

if TYPE_CHECKING:
    from lakewarden.features.viewset.ways.options import Group
    from lakewarden.lifecycle.ground import Reader, Writer

KEEP = "keep"


def action_for(view: ViewSet, group: Group) -> Action:
    target, uuid = str(view.table_name), str(view.table.metadata.table_uuid)
    new = f"; new columns are null: {', '.join(group.change.new)}" if group.change.new else ""
    return Action(
        verb=KEEP,
        subject=target,
        lease=table_lease(uuid),
        says=f"keep {counted(len(group.partitions), 'partition')} of schema {group.schema_hash} as they are{new}",
        arguments={"kept": group.schema_hash, "schema_hash": view.schema_hash, "partitions": len(group.partitions)},
        requires=(TableIs(target, uuid),),
        estimate=Estimate(rows=sum(one.num_rows for one in group.partitions)),
    )


def holds(action: Action, lake: Reader, view: ViewSet) -> bool:
    return view.schema_hash == action.arguments["schema_hash"] and action.arguments["kept"] in view.kept


def apply(action: Action, lake: Writer, view: ViewSet) -> Outcome:
    kept = str(action.arguments["kept"])
    found = sort_out(partitions(lake, view), view.schema_hash, lambda one: 0 if one == kept else 1)
    doubled = [one for one in (*found.superseded, *found.overlapping) if one.schema_hash == kept]
    if doubled:
        raise StalePlan(
            f"the plan is stale: {len(doubled)} partitions of schema {kept} share their time with current ones by now",
            "Keeping them would double rows; nothing was changed. Plan again.",
        )
    record = json.dumps({view.schema_hash: sorted({*view.kept, kept})})
    metadata = view.table.metadata
    lake.commits.publish(
        EvolveSchema(
            str(view.table_name), str(metadata.table_uuid), metadata.current_schema_id, properties={KEPT: record}
        )
    )
    return Outcome({"partitions_kept": action.number("partitions")})
