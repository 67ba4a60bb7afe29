"""`version tag`."""

from __future__ import annotations

from datetime import timedelta

from pydantic import Field

from lakewarden.engine.base.table_name import Reference
from lakewarden.errors import LakewardenError, VersionNotFound
from lakewarden.features.shared.each import joined
from lakewarden.features.shared.select import is_pattern, select
from lakewarden.features.version.refs import Keep, NewRef, RefName, create, create_actions, created, refs_of
from lakewarden.lifecycle.action import Action, Finding, Outcome
from lakewarden.lifecycle.ground import Reader, Writer
from lakewarden.lifecycle.plan import Plan
from lakewarden.lifecycle.request import TableOperation, Version

_SAME = timedelta(days=1)  # how far the ends of two tags may differ: so long a command can be repeated


class Tag(TableOperation):
    """Tag a version of a table, so that it can be read by that name and never expires.

    A pattern such as 'sales.*' tags every matching table, each in a separate commit. Tables that already have the same
    tag are skipped; a table that cannot be tagged does not stop the others.
    """

    version: Version
    name: RefName = Field(description="The tag's name.")
    keep: Keep | None = Field(
        None, description="How long from now the tag protects its version, as in 90d; by default forever."
    )
    note: str = Field("", max_length=1000, description="What the tag is for.")

    def plan(self, lake: Reader) -> Plan:
        if not is_pattern(self.version):
            version = lake.tables.resolve(self.version)
            return Plan(self.kind(), str(version.name), create_actions(lake, version, self._tag))
        parts = list(lake.tables.read_all(select(lake, self.version), lambda reference: self._for_one(lake, reference)))
        if "@" in self.version and parts and all(part.warnings for part in parts):
            raise VersionNotFound(f"no table has the version {self.version}", parts[0].warnings[0])
        return joined(self.kind(), self.version, parts)

    def holds(self, action: Action, lake: Reader) -> bool:
        return created(action, lake)

    def apply(self, action: Action, lake: Writer) -> Outcome:
        return create(action, lake)

    @property
    def _tag(self) -> NewRef:
        return NewRef("tag", self.name, self.keep, self.note)

    def _for_one(self, lake: Reader, reference: Reference) -> Plan:
        """The plan for one of many tables: its problem does not stop the others."""
        target = str(reference.name)
        try:
            version = lake.tables.resolve(str(reference))
            found = next((ref for ref in refs_of(version.table) if ref.name == self.name), None)
            at = version.snapshot.snapshot_id
            if found is not None and self._tag.is_same(found, at, version.table, lake.clock(), _SAME):
                return Plan(self.kind(), target)
            return Plan(self.kind(), target, create_actions(lake, version, self._tag))
        except VersionNotFound as error:
            return Plan(self.kind(), target, warnings=(f"skipped: {error.message}",))
        except LakewardenError as error:
            return Plan(self.kind(), target, refused=(Finding(target, error.message),))
