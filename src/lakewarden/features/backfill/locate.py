"""`backfill locate`."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from pydantic import Field

from lakewarden.engine.catalog.positions import Kept
from lakewarden.engine.catalog.snapshots import MAIN
from lakewarden.engine.commit.refs import RefChange
from lakewarden.features.backfill import bad_rows, undoing
from lakewarden.features.backfill.position import Position, key, whereabouts
from lakewarden.features.backfill.registration import Database, Version, backfill_of
from lakewarden.lifecycle.action import Action, Outcome
from lakewarden.lifecycle.ground import Reader, Writer
from lakewarden.lifecycle.plan import Plan
from lakewarden.lifecycle.request import TableOperation
from lakewarden.lifecycle.requirement import RefAt, TableIs, table_lease


class Locate(TableOperation):
    """Say whether a backfill's rows are in its target, where the target itself no longer shows it.

    That is so if other engines have expired all commits since the last batch, and the metadata files that show whether
    main was rolled back behind it are gone as well. Look at the rows first: what is said wrongly here loses or
    duplicates rows. If only some of them are there, delete these, and say that they are gone.
    """

    database: Database
    version: Version
    rows: Literal["there", "gone"] = Field(
        description="there: the target has all rows that the backfill reports as written, and no later ones of it; "
        "gone: it has none of them, and rows of the source that were put aside are tried again."
    )

    def plan(self, lake: Reader) -> Plan:
        backfill = backfill_of(lake, self.database, self.version)
        name = str(backfill.target(lake))
        table = lake.tables.load(name)
        uuid, head = str(table.metadata.table_uuid), table.metadata.current_snapshot_id
        known = whereabouts(table, backfill.id)
        if known.unknown is None:
            return Plan(self.kind(), backfill.id, (), ("where it is is known: nothing to say",))
        at, more = known.unknown.position, ", and nothing that it wrote later" if self.rows == "there" else ""
        written = f"{at.rows:,} source rows up to batch {at.batch}"
        action = Action(
            verb="locate",
            subject=name,
            lease=table_lease(uuid),
            says=f"note that what backfill {backfill.id} wrote ({written}) is {self.rows}{more}",
            arguments={"backfill": backfill.id, "rows": self.rows, "snapshot": str(head), "uuid": uuid},
            requires=(TableIs(name, uuid), RefAt(name, MAIN, head)),
        )
        forget = undoing.forgetting(lake, backfill) if self.rows == "gone" else []
        return Plan(self.kind(), backfill.id, (action, *forget))

    def holds(self, action: Action, lake: Reader) -> bool:
        backfill = str(action.arguments["backfill"])
        if action.verb == undoing.FORGET:
            return not bad_rows.of_backfill(lake, action.subject, backfill)
        return whereabouts(lake.tables.load(action.subject), backfill).unknown is None

    def apply(self, action: Action, lake: Writer) -> Outcome:
        backfill = str(action.arguments["backfill"])
        if action.verb == undoing.FORGET:
            return Outcome({"bad_rows_removed": bad_rows.forget(lake, action.subject, backfill)})
        head, property = action.number("snapshot"), key(backfill)
        kept = Kept.of(lake.tables.load(action.subject), property)
        assert kept is not None
        is_gone = action.arguments["rows"] == "gone"
        stamp = replace(Position.read(kept.last.stamp), undone=is_gone).text
        there = Kept(replace(kept.last, stamp=stamp), (head,), kept.first)
        change = RefChange(
            action.subject, str(action.arguments["uuid"]), expects={MAIN: head}, properties={property: there.text}
        )
        lake.commits.publish(change)
        return Outcome({"positions": 1})
