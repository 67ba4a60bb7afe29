"""`version tag`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from lakewarden.errors import VersionNotFound
from lakewarden.features.table.select import is_pattern, select
from lakewarden.features.version.refs import Keep, RefName, create, create_action, created
from lakewarden.lifecycle.plan import Action, Outcome, Plan
from lakewarden.lifecycle.request import Operation, Version

if TYPE_CHECKING:
    from lakewarden.lifecycle.ground import Reader, Writer


class Tag(Operation):
    """Give a version of a table a name that stays, so that it can be read and is never expired.

    A pattern such as 'sales.*' tags every matching table, each in a commit of its own; tables that have
    the tag at that version already are left as they are.
    """

    version: Version
    name: RefName = Field(description="The tag's name.")
    keep: Keep | None = Field(
        None, description="How long the tag protects its version, as in 90d; without it, for ever."
    )
    note: str = Field("", max_length=1000, description="What the tag is for.")

    def plan(self, lake: Reader) -> Plan:
        actions: list[Action] = []
        warnings: list[str] = []
        many = is_pattern(self.version)
        for reference in select(lake, self.version):
            try:
                version = lake.tables.resolve(str(reference))
                tagged = version.table.metadata.refs.get(self.name)
                if many and tagged is not None and tagged.snapshot_id == version.snapshot.snapshot_id:
                    continue
                actions.append(create_action(lake, version, "tag", self.name, self.keep, self.note))
            except VersionNotFound as error:
                if not many:
                    raise
                warnings.append(f"left out: {error.message}")
        target = self.version if many else actions[0].table
        return Plan(self.kind(), target, tuple(actions), tuple(warnings))

    def holds(self, action: Action, lake: Reader) -> bool:
        return created(action, lake)

    def apply(self, action: Action, lake: Writer) -> Outcome:
        return create(action, lake)
