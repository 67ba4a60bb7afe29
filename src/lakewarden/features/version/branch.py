"""`version branch`."""

from __future__ import annotations

from pydantic import Field

from lakewarden.features.version.refs import Keep, NewRef, RefName, create, create_actions, created
from lakewarden.lifecycle.action import Action, Outcome
from lakewarden.lifecycle.ground import Reader, Writer
from lakewarden.lifecycle.plan import Plan
from lakewarden.lifecycle.request import TableOperation, Version


class Branch(TableOperation):
    """Create a branch at a version of a table, to be written to separately from main."""

    version: Version
    name: RefName = Field(description="The branch's name.")
    keep: Keep | None = Field(
        None,
        description="How long to keep it from now, as in 30d; by default forever. Each commit to it starts this again.",
    )
    note: str = Field("", max_length=1000, description="What the branch is for.")

    def plan(self, lake: Reader) -> Plan:
        version = lake.tables.resolve(self.version)
        new = NewRef("branch", self.name, self.keep, self.note)
        return Plan(self.kind(), str(version.name), create_actions(lake, version, new))

    def holds(self, action: Action, lake: Reader) -> bool:
        return created(action, lake)

    def apply(self, action: Action, lake: Writer) -> Outcome:
        return create(action, lake)
