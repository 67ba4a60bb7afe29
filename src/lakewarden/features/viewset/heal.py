"""`viewset heal`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from lakewarden.features.viewset import retiring
from lakewarden.features.viewset.catalogue import partitions
from lakewarden.features.viewset.definition import ViewSet, view_set
from lakewarden.features.viewset.former_columns import refuse_former_columns
from lakewarden.features.viewset.overlap import schema_changed
from lakewarden.features.viewset.regenerate import Regenerate
from lakewarden.features.viewset.upgraded import refuse_upgraded
from lakewarden.features.viewset.ways import keeping, rewriting
from lakewarden.features.viewset.ways.incompatible_partitions import Partition, Sorted, sort_out
from lakewarden.features.viewset.ways.options import WAYS, Group, Way, group, rank, transitions
from lakewarden.features.viewset.ways.regenerating import regeneration
from lakewarden.features.viewset.ways.stored_values import by_stored_values
from lakewarden.lifecycle.action import Action, Finding, Outcome
from lakewarden.lifecycle.plan import Plan
from lakewarden.lifecycle.request import Positional, TableOperation
from lakewarden.quantities import counted, from_micros, show_size

if TYPE_CHECKING:
    from lakewarden.features.viewset.ways.transition import Transition
    from lakewarden.lifecycle.ground import Reader, Writer

_NAMED = 5


class Heal(TableOperation):
    """Make the incompatible partitions of a view set current again, each in the cheapest way.

    keep: the current schema reads their rows as they are, so they count as current from then on; new columns are null.
    rewrite: values move to renamed columns, without the source; new columns are null. regenerate: the current SQL
    computes the rows again. retire: the source no longer has them. Rows are only kept or rewritten if the current SQL
    selects the same rows and computes the same values. Partitions whose time the current schema has already are
    retired. The plan shows what each way would cost.
    """

    destructive = True

    name: Annotated[str, Positional()] = Field(description="The view set.")
    only: list[Way] = Field(list(WAYS), description="Only in these ways, as in regenerate,retire.")

    def plan(self, lake: Reader) -> Plan:
        view = view_set(lake, self.name)
        refuse_former_columns(view)
        rows = partitions(lake, view)
        changes = transitions(lake, view, {row.file_schema_hash for row in rows} - {view.schema_hash})
        found = sort_out(rows, view.schema_hash, lambda one: rank(changes[one]))
        planned = _Planned(lake, view, self.only)
        for one in _groups(lake, view, changes, found):
            planned.heal(one)
        planned.supersede(found.superseded)
        if planned.actions():
            refuse_upgraded(lake, view)
        return Plan(
            self.kind(),
            str(view.table_name),
            planned.actions(),
            tuple(planned.notes),
            refused=_refused(view, found.overlapping),
        )

    def holds(self, action: Action, lake: Reader) -> bool:
        if action.verb == retiring.RETIRE:
            return retiring.holds(action, lake)
        if action.verb == keeping.KEEP:
            return keeping.holds(action, lake, view_set(lake, self.name))
        if action.verb == rewriting.REWRITE:
            return rewriting.holds(action, lake, view_set(lake, self.name))
        return self._regenerate(action).holds(action, lake)

    def apply(self, action: Action, lake: Writer) -> Outcome:
        if action.verb == retiring.RETIRE:
            return retiring.apply(action, lake)
        if action.verb not in (keeping.KEEP, rewriting.REWRITE):
            return self._regenerate(action).apply(action, lake)
        view = view_set(lake, self.name)
        if view.schema_hash != action.arguments["schema_hash"]:
            raise schema_changed(view)
        refuse_former_columns(view)
        if action.verb == keeping.KEEP:
            return keeping.apply(action, lake, view)
        return rewriting.apply(action, lake, view)

    def done_already(self, action: Action, lake: Writer) -> Outcome:
        if action.verb == retiring.RETIRE:
            return retiring.done_already(action, lake)
        return super().done_already(action, lake)

    def _regenerate(self, action: Action) -> Regenerate:
        begin, delta = from_micros(action.number("begin")), timedelta(microseconds=action.number("delta"))
        end = begin + delta * (max(map(int, action.texts("numbers"))) + 1)
        instance = str(action.arguments["instance"])
        return Regenerate(name=self.name, begin=begin.isoformat(), end=end.isoformat(), delta=delta, instance=instance)


class _Planned:
    """What was decided so far."""

    def __init__(self, lake: Reader, view: ViewSet, only: Sequence[Way]) -> None:
        self._lake, self._view, self._only = lake, view, only
        self._retired: list[Partition] = []
        self._others: dict[Way, list[Action]] = {way: [] for way in WAYS}
        self.notes: list[str] = []

    def actions(self) -> tuple[Action, ...]:
        """Retirements come first: a kept partition must not double the rows of one that is to go."""
        rows = [row for one in self._retired for row in one.rows]
        return (
            *retiring.actions_for(self._view, rows, by_schema=True),
            *(action for some in self._others.values() for action in some),
        )

    def heal(self, found: Group) -> None:
        ways = found.possible(self._only)
        chosen = ways[0] if ways else None
        self.notes.append(_note(found, chosen))
        left = self._regenerate(found) if chosen == "regenerate" else list(found.partitions)
        if chosen == "regenerate" and left:
            chosen = next((way for way in ways if way != "regenerate"), None)
            what = f"{chosen} them instead" if chosen else "they stay incompatible"
            gone = counted(len(left), "partition")
            self.notes.append(f"schema {found.schema_hash}: the source has no rows for {gone} any more: {what}")
        if left and chosen == "keep":
            self._others["keep"].append(keeping.action_for(self._view, found))
        elif left and chosen == "rewrite":
            self._others["rewrite"] += rewriting.actions_for(self._view, found, left)
        elif left and chosen == "retire":
            self._retired += left

    def supersede(self, found: Sequence[Partition]) -> None:
        if found:
            self._retired += found
            self.notes.append(f"retire {counted(len(found), 'partition')} whose time other partitions have already")

    def _regenerate(self, found: Group) -> list[Partition]:
        """Regenerate partitions; returns those whose source rows are gone."""
        again = regeneration(self._lake, self._view, found.partitions)
        self._others["regenerate"] += again.actions
        if again.changed:
            self.notes.append(
                f"schema {found.schema_hash}: the source of {counted(again.changed, 'partition')} changed since; "
                "rows that it no longer has are not regenerated"
            )
        if found.has_deletes and again.actions:
            self.notes.append(
                f"rows of schema {found.schema_hash} were deleted or hidden in the view set's table: "
                "those that the source still has come back"
            )
        return list(again.gone)


def _groups(lake: Reader, view: ViewSet, changes: dict[str, Transition], found: Sorted) -> list[Group]:
    live = lake.files.of(view.table, view.table.current_snapshot()).by_path
    overlapping = {one.schema_hash for one in found.overlapping}
    by_hash: dict[str, list[Partition]] = {}
    for one in found.left:
        by_hash.setdefault(one.schema_hash, []).append(one)
    groups = []
    for schema_hash, some in sorted(by_hash.items()):
        for part in by_stored_values(lake, view, changes[schema_hash], some):
            paths = [row.file_path for one in part.partitions for row in one.rows if row.file_path is not None]
            has_deletes = any(live[path].deletes for path in paths if path in live)
            is_shared = schema_hash in overlapping
            groups.append(group(lake, view, part.change, part.partitions, is_shared, has_deletes))
    return groups


def _note(found: Group, chosen: Way | None) -> str:
    size = show_size(sum(one.bytes for one in found.partitions))
    options = {one.way: str(one) for one in found.options}
    best = options.pop(chosen) if chosen else "they stay incompatible"
    about = f"schema {found.schema_hash} ({counted(len(found.partitions), 'partition')}, {size})"
    return f"{about}: {best}; other ways: {', '.join(options.values())}"


def _refused(view: ViewSet, overlapping: Sequence[Partition]) -> tuple[Finding, ...]:
    if not overlapping:
        return ()
    named = ", ".join(f"{one.instance} {one.begin:%Y-%m-%d %H:%M}" for one in overlapping[:_NAMED])
    more = f" and {len(overlapping) - _NAMED} more" if len(overlapping) > _NAMED else ""
    what = f"{counted(len(overlapping), 'incompatible partition')} with a part of their time in others: {named}{more}"
    return (Finding(str(view.table_name), f"{what}. Replace them with: lakewarden viewset regenerate"),)
