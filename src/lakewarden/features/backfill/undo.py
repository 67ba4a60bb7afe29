"""`backfill undo`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lakewarden.engine.commit.new_rows import Overwrite
from lakewarden.features.backfill import bad_rows, undoing
from lakewarden.features.backfill.position import branch_of, is_undone, key, unmoved
from lakewarden.features.backfill.progress import refuse_running
from lakewarden.features.backfill.registration import Database, Version, backfill_of
from lakewarden.lifecycle.action import Outcome
from lakewarden.lifecycle.failpoints import reach
from lakewarden.lifecycle.plan import Plan
from lakewarden.lifecycle.request import TableOperation

if TYPE_CHECKING:
    from lakewarden.lifecycle.action import Action
    from lakewarden.lifecycle.ground import Reader, Writer


class Undo(TableOperation):
    """Remove the rows that a backfill wrote: its branch, and its files on main, in one commit.

    Refused once the target has built on them: if files were compacted, or rows were deleted from them. Rows of others
    stay. Afterwards the backfill is pending, and can be run again. The version before the undo stays until it expires.
    """

    destructive = True

    database: Database
    version: Version

    def plan(self, lake: Reader) -> Plan:
        backfill = backfill_of(lake, self.database, self.version)
        refuse_running(lake, backfill)
        actions = undoing.actions(lake, backfill)
        nothing = () if actions else (f"there is nothing to undo: the target has no rows of backfill {backfill.id}",)
        return Plan(self.kind(), backfill.id, actions, nothing)

    def holds(self, action: Action, lake: Reader) -> bool:
        backfill = str(action.arguments["backfill"])
        if action.verb == undoing.FORGET:
            return not bad_rows.of_backfill(lake, action.subject, backfill)
        table = lake.tables.load(action.subject)
        if action.verb == undoing.DROP:
            return branch_of(backfill) not in table.metadata.refs
        return is_undone(table, backfill)

    def apply(self, action: Action, lake: Writer) -> Outcome:
        backfill = str(action.arguments["backfill"])
        if action.verb == undoing.FORGET:
            return Outcome({"bad_rows_removed": bad_rows.forget(lake, action.subject, backfill)})
        if action.verb == undoing.DROP:
            lake.staging.drop(action.subject, branch_of(backfill))
            return Outcome(action.expects)
        table = lake.tables.load(action.subject)
        last = undoing.expected(action)
        change = Overwrite(
            action.subject,
            str(table.metadata.table_uuid),
            facts={key(backfill): replace(last, undone=True).text},
            check=unmoved(backfill, last),
            removed={file.path: frozenset() for file in action.files.items},
        )
        lake.commits.publish(change)
        reach("backfill.undone")
        return Outcome(action.expects)
