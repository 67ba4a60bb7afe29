"""`viewset retire`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from lakewarden.engine.base.table_name import parse_time
from lakewarden.errors import BadValue, NotFound
from lakewarden.features.viewset import retiring
from lakewarden.features.viewset.catalogue import Identity, PartitionRow, outdated, parse_identity, partitions
from lakewarden.features.viewset.definition import GLOBAL, ViewSet, view_set
from lakewarden.features.viewset.former_columns import refuse_former_columns
from lakewarden.features.viewset.upgraded import refuse_upgraded
from lakewarden.lifecycle.action import Action, Outcome
from lakewarden.lifecycle.plan import Plan
from lakewarden.lifecycle.request import Positional, TableOperation

if TYPE_CHECKING:
    from lakewarden.lifecycle.ground import Reader, Writer

_NAMED = 5


class Retire(TableOperation):
    """Retire partitions of a view set: exactly those chosen, by their full identity.

    They leave the current version in one commit. Their files stay as long as an older version references them: until
    then, lakewarden viewset restore brings them back as they were. A partition that is gone by now does not stop the
    others.
    """

    destructive = True

    name: Annotated[str, Positional()] = Field(description="The view set.")
    file: list[str] = Field([], description="The partition with this file, whole; may be given several times.")
    identity: list[str] = Field(
        [], description='One partition, with or without rows: ["INSTANCE", "BEGIN", "END", "SCHEMA_HASH"] as JSON.'
    )
    incompatible: bool = Field(False, description="All partitions that were written with another schema.")
    outdated: bool = Field(False, description="All partitions that are older than the view set keeps them.")
    instance: str | None = Field(
        None, description="Partitions of this instance between --begin and --end; global by default."
    )
    begin: str = Field("", description="From this insert time on.")
    end: str = Field("", description="Up to this insert time.")

    def plan(self, lake: Reader) -> Plan:
        view = view_set(lake, self.name)
        rows, missing = self._chosen(lake, view)
        warnings = (*(f"Partition not found: {one}" for one in missing), *self._warnings(view, rows))
        if any(row.file_path is not None for row in rows):
            freed = "storage is freed when the versions that reference the files expire"
            warnings = (*warnings, f"{freed}: lakewarden retention expire {view.table_name}")
        if rows:
            refuse_upgraded(lake, view)
        actions = retiring.actions_for(view, rows, by_schema=self.incompatible or bool(self.file or self.identity))
        return Plan(self.kind(), str(view.table_name), actions, warnings)

    def holds(self, action: Action, lake: Reader) -> bool:
        return retiring.holds(action, lake)

    def apply(self, action: Action, lake: Writer) -> Outcome:
        return retiring.apply(action, lake)

    def done_already(self, action: Action, lake: Writer) -> Outcome:
        return retiring.done_already(action, lake)

    def _chosen(self, lake: Reader, view: ViewSet) -> tuple[list[PartitionRow], list[str]]:
        """The files of the chosen partitions, and names of partitions that are not there."""
        by_range = self.instance is not None or bool(self.begin or self.end)
        if sum((bool(self.file), bool(self.identity), self.incompatible, self.outdated, by_range)) != 1:
            raise BadValue(
                "choose partitions in one way",
                "Give --file, --identity, --incompatible, --outdated, or --begin and --end, perhaps with --instance.",
            )
        rows = partitions(lake, view)
        if self.file:
            known = {row.file_path: row.identity for row in rows}
            return _whole(rows, {path: known.get(path) for path in self.file})
        if self.identity:
            there = {row.identity for row in rows}
            asked = {text: parse_identity(text) for text in self.identity}
            return _whole(rows, {text: one if one in there else None for text, one in asked.items()})
        if self.incompatible:
            refuse_former_columns(view)
            return [row for row in rows if row.file_schema_hash != view.schema_hash], []
        if self.outdated:
            if view.definition.keep is None:
                raise BadValue(f"the view set {view.name} keeps its partitions for ever", "Register it with keep.")
            return outdated(lake, view), []
        begin, end = parse_time(self.begin), parse_time(self.end)
        if begin is None or end is None:
            raise BadValue("a range needs --begin and --end", "Write them as 2026-01-01 or 2026-01-01T06:00:00Z.")
        instance = GLOBAL if self.instance is None else self.instance
        within = [
            row
            for row in rows
            if row.view_instance_id == instance and row.begin_insert_time >= begin and row.end_insert_time <= end
        ]
        return within, []

    def _warnings(self, view: ViewSet, rows: Sequence[PartitionRow]) -> tuple[str, ...]:
        """Retiring by range also takes partitions that have nothing wrong with them."""
        current = sorted({row.identity for row in rows if row.file_schema_hash == view.schema_hash})
        if self.incompatible or self.outdated or not current:
            return ()
        named = ", ".join(f"{instance} {begin:%Y-%m-%d %H:%M}" for instance, begin, _, _ in current[:_NAMED])
        more = f" and {len(current) - _NAMED} more" if len(current) > _NAMED else ""
        return (f"{len(current)} of them have the current schema: {named}{more}",)


def _whole(rows: Sequence[PartitionRow], chosen: Mapping[str, Identity | None]) -> tuple[list[PartitionRow], list[str]]:
    """All files of the chosen partitions: half a partition would look whole to `materialize`."""
    missing = [text for text, identity in chosen.items() if identity is None]
    if len(missing) == len(chosen):
        raise NotFound(f"Partition not found: {missing[0]}", "lakewarden viewset partitions lists them.")
    identities = set(chosen.values())
    return [row for row in rows if row.identity in identities], missing
