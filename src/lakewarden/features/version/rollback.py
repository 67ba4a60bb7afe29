"""`version rollback`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pydantic import Field

from lakewarden.engine.changes import MAIN, RefChange, SetRef
from lakewarden.engine.snapshots import ancestors
from lakewarden.engine.spark_commit import displaced
from lakewarden.errors import AlreadyExists, BadReference, NotAncestor
from lakewarden.features.table.summary import live_rows
from lakewarden.lifecycle.plan import Action, Finding, Outcome, Plan
from lakewarden.lifecycle.request import Operation, Version
from lakewarden.lifecycle.requirement import RefAt, SnapshotKept, TableIs

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from lakewarden.engine.tables import Resolved
    from lakewarden.lifecycle.ground import Reader, Writer


class Rollback(Operation):
    """Make an earlier version the current one. The state left behind is tagged, so nothing is lost.

    The tag is called before-rollback- with the id of the snapshot that was current.
    """

    destructive = True

    version: Version
    not_ancestor: bool = Field(False, description="Also go to a version that the current one was not built on.")

    def plan(self, lake: Reader) -> Plan:
        to = lake.tables.resolve(self.version)
        if to.reference.ref is None:
            raise BadReference(f"{to.name} names no version to go to", f"Say which: {to.name}@REF")
        current = to.table.metadata.current_snapshot_id
        if current == to.snapshot.snapshot_id or current is None:
            return Plan(self.kind(), str(to.name))
        self._check_ancestor(to, current)
        route = lake.tables.route(to.table, to.name)
        steps = _in_two_steps if route.needs_spark else _in_one_commit
        common = {"route": route.name, "because": route.because}
        return Plan(self.kind(), str(to.name), steps(to, current, common), (_loss(to),))

    def holds(self, action: Action, lake: Reader) -> bool:
        table, (was, to) = lake.tables.load(action.table), _from_to(action)
        kept = table.metadata.refs.get(str(action.arguments["leave"]))
        tagged = kept is not None and kept.snapshot_id == was
        return tagged and (action.verb == "keep" or _is_back(table, was, to))

    def apply(self, action: Action, lake: Writer) -> Outcome:
        asked, (was, to) = action.arguments, _from_to(action)
        keeps = () if asked["kept_already"] else (SetRef(str(asked["leave"]), "tag", was),)
        moves = (SetRef(MAIN, "branch", to),)
        lake.commits.refs(
            RefChange(
                table=action.table,
                uuid=str(asked["uuid"]),
                expects={need.ref: need.snapshot for need in action.requires if isinstance(need, RefAt)},
                route=action.route,
                set={"keep": keeps, "move": moves, "rollback": (*keeps, *moves)}[action.verb],
            )
        )
        return Outcome(action.expects)

    def verify(self, plan: Plan, lake: Reader) -> list[Finding]:
        """Look also for what a move on Spark, killed before it could look, may have gone over: somebody's commit."""
        findings = super().verify(plan, lake)
        for action in plan.actions:
            lost = displaced(lake.tables.load(action.table), *_from_to(action)) if action.verb == "move" else None
            if lost is not None:
                keep = f"lakewarden version tag {action.table}@{lost} NAME"
                told = f"another writer's commit {lost} is under no name now; keep it: {keep}"
                findings.append(Finding(action.table, told))
        return findings

    def _check_ancestor(self, to: Resolved, current: int) -> None:
        if self.not_ancestor or to.snapshot.snapshot_id in set(ancestors(to.table, current)):
            return
        raise NotAncestor(
            f"{to.reference} (snapshot {to.snapshot.snapshot_id}) is not an ancestor of the current version {current}",
            "It is on another branch, or its history has expired. To go there all the same, say --not-ancestor.",
        )


def _from_to(action: Action) -> tuple[int, int]:
    return int(action.arguments["from"] or 0), int(action.arguments["to"] or 0)


def _is_back(table: Table, was: int, to: int) -> bool:
    """Whether main has left where it was for where it was to go, or has gone on from there."""
    line = set(ancestors(table, table.metadata.current_snapshot_id))
    return to in line and (was not in line or was in set(ancestors(table, to)))


def _in_one_commit(to: Resolved, current: int, common: Mapping[str, str]) -> tuple[Action, ...]:
    """Tag what is left behind and move main, both or neither."""
    return (_action("rollback", to, current, common),)


def _in_two_steps(to: Resolved, current: int, common: Mapping[str, str]) -> tuple[Action, ...]:
    """The same where every statement is a commit of its own: the tag first."""
    keep, move = _action("keep", to, current, common), _action("move", to, current, common)
    return (move,) if keep.arguments["kept_already"] else (keep, move)


def _action(verb: str, to: Resolved, current: int, common: Mapping[str, str]) -> Action:
    target, uuid, leave = str(to.name), str(to.table.metadata.table_uuid), f"before-rollback-{current}"
    existing = to.table.metadata.refs.get(leave)
    if existing is not None and existing.snapshot_id != current:
        raise AlreadyExists(
            f"{target} has a ref {leave} at another snapshot, {existing.snapshot_id}", "Remove it first."
        )
    kept_already = existing is not None
    tag_stands = RefAt(target, leave, current if kept_already or verb == "move" else None)
    says = {
        "keep": f"tag the current version {current} as {leave}",
        "move": f"move main from {current} to {to.snapshot.snapshot_id}",
        "rollback": f"move main from {current} to {to.snapshot.snapshot_id}; {current} stays as {leave}",
    }
    return Action(
        verb=verb,
        table=target,
        says=says[verb],
        arguments={
            "from": str(current),
            "to": str(to.snapshot.snapshot_id),
            "leave": leave,
            "kept_already": kept_already,
            "uuid": uuid,
        },
        requires=(
            TableIs(target, uuid),
            RefAt(target, MAIN, current),
            tag_stands,
            SnapshotKept(target, to.snapshot.snapshot_id),
        ),
        expects={} if verb == "keep" else {"refs_moved": 1},
        route=common["route"],
        because=common["because"],
    )


def _loss(to: Resolved) -> str:
    """What readers of main will no longer see, or see again."""
    head = to.table.current_snapshot()
    now, then = live_rows(head), live_rows(to.snapshot)
    change = f"rows go from {now:,} to {then:,}" if now is not None and then is not None else "row counts are unknown"
    return f"readers of main see another version at once: {change}"
