"""A backfill's branch: it has only the backfill's rows, and is published to main by one commit, after its gates.

The commit appends the files of the branch to main as it is then, and removes the branch.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lakewarden.engine.catalog.snapshots import ancestors
from lakewarden.engine.commit.new_rows import Append
from lakewarden.engine.commit.staging import rows_on
from lakewarden.errors import Conflict, StalePlan
from lakewarden.features.backfill import gates
from lakewarden.features.backfill.position import Found, branch_of, key, stamps_on, unmoved
from lakewarden.lifecycle.action import Action, Outcome
from lakewarden.lifecycle.failpoints import reach

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from lakewarden.engine.sql.batches import Reading
    from lakewarden.features.backfill.registration import Backfill
    from lakewarden.lifecycle.ground import Writer


def publish(lake: Writer, backfill: Backfill, action: Action, reading: Reading) -> Outcome:
    """Run the gates, and append what is on the branch to main, once."""
    table = lake.tables.load(action.subject)
    stamps = list(stamps_on(table, branch_of(backfill.id), backfill.id))
    last = stamps[0].position if stamps else None
    if last is None or (last.run, last.batch) != (action.number("run"), action.number("batch")):
        raise StalePlan(
            f"the plan is stale: branch {branch_of(backfill.id)} of {action.subject} does not have all batches",
            "Nothing was published. Plan again: lakewarden backfill run",
        )
    _check_untouched(backfill, table, stamps)
    staged = rows_on(table, branch_of(backfill.id))
    gates.Check(lake, backfill, table, reading).run(staged.rows)
    reach("backfill.checked")
    done = replace(last, complete=True, whole=True)
    change = Append(
        action.subject,
        str(table.metadata.table_uuid),
        staged=staged,
        facts={key(backfill.id): done.text},
        check=unmoved(backfill.id, last),
    )
    lake.part(f"{backfill.id}-{done.run}-published").commits.publish(change)
    return Outcome({"rows_published": staged.rows, "files_published": len(staged.added)})


def _check_untouched(backfill: Backfill, table: Table, stamps: list[Found]) -> None:
    """Refuse a branch that others have committed to."""
    name = branch_of(backfill.id)
    if set(ancestors(table, table.metadata.refs[name].snapshot_id)) != {found.snapshot for found in stamps}:
        raise Conflict(
            f"others have committed to branch {name} of {'.'.join(table.name())}",
            "Nothing was published. Remove the branch with lakewarden backfill undo, and run the backfill again.",
        )
