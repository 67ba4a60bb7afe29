"""`version untag`."""

from __future__ import annotations

from pydantic import Field

from lakewarden.engine.catalog.snapshots import lines_of
from lakewarden.engine.commit.refs import RefChange
from lakewarden.features.version.refs import RefName, existing_tag, note_property
from lakewarden.lifecycle.action import Action, Outcome
from lakewarden.lifecycle.ground import Reader, Writer
from lakewarden.lifecycle.plan import Plan
from lakewarden.lifecycle.request import Table, TableOperation
from lakewarden.lifecycle.requirement import RefAt, TableIs, table_lease


class Untag(TableOperation):
    """Remove a tag. Its version stays until retention expires it, if nothing else protects it."""

    destructive = True

    table: Table
    name: RefName = Field(description="The tag's name.")

    def plan(self, lake: Reader) -> Plan:
        name = lake.tables.name(self.table)
        table, target = lake.tables.load(name), str(name)
        tag = existing_tag(table, target, self.name)
        uuid, route = str(table.metadata.table_uuid), lake.tables.route(table, name)
        others = [ref.snapshot_id for other, ref in table.metadata.refs.items() if other != self.name]
        reachable = lines_of(table, others)
        action = Action(
            verb="untag",
            subject=target,
            lease=table_lease(uuid),
            says=f"remove tag {self.name} from {tag.snapshot_id}",
            arguments={"ref": self.name, "snapshot": str(tag.snapshot_id), "uuid": uuid},
            requires=(TableIs(target, uuid), RefAt(target, self.name, tag.snapshot_id)),
            expects={"tags_removed": 1},
            route=route.name,
            because=route.because,
        )
        alone = f"nothing else protects version {tag.snapshot_id}: the next retention run may expire it"
        return Plan(self.kind(), target, (action,), () if tag.snapshot_id in reachable else (alone,))

    def holds(self, action: Action, lake: Reader) -> bool:
        return lake.tables.ref(action.subject, str(action.arguments["ref"])) is None

    def apply(self, action: Action, lake: Writer) -> Outcome:
        asked, ref = action.arguments, str(action.arguments["ref"])
        lake.commits.publish(
            RefChange(
                table=action.subject,
                uuid=str(asked["uuid"]),
                expects={ref: action.number("snapshot")},
                remove=(ref,),
                drop_properties=(note_property(ref),),
                route=action.route,
            )
        )
        return Outcome({"tags_removed": 1})
