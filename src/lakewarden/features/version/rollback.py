"""`version rollback`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pydantic import Field

from lakewarden.engine.catalog.snapshots import MAIN, ancestors
from lakewarden.engine.commit.refs import RefChange, SetRef, displaced
from lakewarden.errors import AlreadyExists, BadReference, NotAncestor
from lakewarden.features.erasure.hidden import hide_action
from lakewarden.features.shared.summary import live_rows
from lakewarden.features.version import restoring
from lakewarden.features.version.schemas import changes_since, written_with
from lakewarden.lifecycle.action import Action, Finding, Outcome
from lakewarden.lifecycle.plan import Plan
from lakewarden.lifecycle.request import TableOperation, Version
from lakewarden.lifecycle.requirement import RefAt, SnapshotKept, TableIs, table_lease

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table

    from lakewarden.engine.base.route import Route
    from lakewarden.engine.catalog.tables import Resolved
    from lakewarden.lifecycle.ground import Reader, Writer

LEFT_BEHIND = "before-rollback-"
"""How the name of the tag begins that keeps the replaced version."""


class Rollback(TableOperation):
    """Make an earlier version the current one. The replaced version is tagged, so nothing is lost.

    The tag is named before-rollback- and the id of the replaced snapshot, and the plan shows the command that undoes
    the rollback. Columns stay as they are unless --with-schema restores those that the version was written with; the
    plan names the columns that differ. Columns of a view set's table change with its definition only. If the version
    shows rows that erasure hide has hidden, the next commit hides them again.
    """

    destructive = True

    version: Version
    not_ancestor: bool = Field(False, description="Allow a version that is not an ancestor of the current one.")
    with_schema: bool = Field(False, description="Also restore the columns that the version was written with.")

    def plan(self, lake: Reader) -> Plan:
        to = lake.tables.resolve(self.version)
        if to.reference.ref is None:
            raise BadReference(f"{to.name} names no version to roll back to", f"Add one: {to.name}@REF")
        current = to.table.metadata.current_snapshot_id
        if current is None:
            return Plan(self.kind(), str(to.name))
        moves = current != to.snapshot.snapshot_id
        schema = restoring.schema_to_restore(to) if self.with_schema else None
        if moves:
            self._check_ancestor(to, current)
        actions = _actions(to, current, moves, schema, lake.tables.route(to.table, to.name))
        hides, shown = hide_action.after_rollback(lake, to.name, to.table, to.snapshot) if moves else ((), [])
        warnings = [*([_loss(to)] if moves else []), *shown, *restoring.warnings(to, schema)]
        warnings += _undo(to, current, actions)
        return Plan(self.kind(), str(to.name), (*actions, *hides), tuple(warnings))

    def holds(self, action: Action, lake: Reader) -> bool:
        if action.verb == hide_action.HIDE:
            return hide_action.holds(action, lake)
        table = lake.tables.load(action.subject)
        if not restoring.is_restored(action, table):
            return False
        if action.verb in restoring.SCHEMA_VERBS:
            return True
        was, to = _from_to(action)
        kept = table.metadata.refs.get(str(action.arguments["leave"]))
        tagged = kept is not None and kept.snapshot_id == was
        return tagged and (action.verb == "keep" or _is_back(table, was, to))

    def apply(self, action: Action, lake: Writer) -> Outcome:
        if action.verb == hide_action.HIDE:
            return hide_action.apply(action, lake)
        if action.verb in restoring.COLUMN_VERBS:
            return restoring.undo_column(action, lake)
        asked, (was, to) = action.arguments, _from_to(action)
        keeps = () if asked["kept_already"] else (SetRef(str(asked["leave"]), "tag", was),)
        moves = (SetRef(MAIN, "branch", to),)
        lake.commits.publish(
            RefChange(
                table=action.subject,
                uuid=str(asked["uuid"]),
                expects={need.ref: need.snapshot for need in action.requires if isinstance(need, RefAt)},
                route=action.route,
                set={"keep": keeps, "move": moves, "rollback": (*keeps, *moves), "restore-schema": ()}[action.verb],
                schema=restoring.set_schema(action),
            )
        )
        return Outcome(action.expects)

    def verify(self, plan: Plan, lake: Reader) -> list[Finding]:
        """Also check whether a move on Spark that was killed has overwritten another writer's commit."""
        findings = super().verify(plan, lake)
        for action in plan.actions:
            lost = displaced(lake.tables.load(action.subject), *_from_to(action)) if action.verb == "move" else None
            if lost is not None:
                keep = f"lakewarden version tag {action.subject}@{lost} NAME"
                findings.append(
                    Finding(action.subject, f"another writer's commit {lost} is on no branch now; keep it: {keep}")
                )
        return findings

    def _check_ancestor(self, to: Resolved, current: int) -> None:
        if self.not_ancestor or to.snapshot.snapshot_id in set(ancestors(to.table, current)):
            return
        raise NotAncestor(
            f"{to.reference} (snapshot {to.snapshot.snapshot_id}) is not an ancestor of the current version {current}",
            "It is on another branch, or its history has expired. To roll back to it anyway, add --not-ancestor.",
        )


def _from_to(action: Action) -> tuple[int, int]:
    return action.number("from"), action.number("to")


def _is_back(table: Table, was: int, to: int) -> bool:
    """Whether main moved to the version, or has new commits on top of it."""
    line = set(ancestors(table, table.metadata.current_snapshot_id))
    return to in line and (was not in line or was in set(ancestors(table, to)))


def _actions(to: Resolved, current: int, moves: bool, schema: Schema | None, route: Route) -> tuple[Action, ...]:
    """Tag the current version, move main and restore the schema: in one commit, or on Spark in separate statements."""
    if route.needs_spark:
        steps = _in_steps(to, current, route) if moves else ()
        return (*steps, *(restoring.by_statements(to, schema, route) if schema is not None else ()))
    if schema is not None:
        whole = _action("rollback", to, current, route) if moves else _only_schema(to, current, route)
        return (restoring.in_the_commit(whole, to, schema),)
    return (_action("rollback", to, current, route),) if moves else ()


def _in_steps(to: Resolved, current: int, route: Route) -> tuple[Action, ...]:
    """On Spark every statement is a separate commit: the tag comes first."""
    keep, move = _action("keep", to, current, route), _action("move", to, current, route)
    return (move,) if keep.arguments["kept_already"] else (keep, move)


def _only_schema(to: Resolved, current: int, route: Route) -> Action:
    """Main is already at the version, so nothing is tagged."""
    target, uuid = str(to.name), str(to.table.metadata.table_uuid)
    return Action(
        verb="restore-schema",
        subject=target,
        lease=table_lease(uuid),
        says=f"main stays at {current}",
        arguments={"from": str(current), "to": str(current), "leave": "", "kept_already": True, "uuid": uuid},
        requires=(TableIs(target, uuid), RefAt(target, MAIN, current)),
        route=route.name,
        because=route.because,
    )


def _action(verb: str, to: Resolved, current: int, route: Route) -> Action:
    target, uuid, leave = str(to.name), str(to.table.metadata.table_uuid), f"{LEFT_BEHIND}{current}"
    existing = to.table.metadata.refs.get(leave)
    if existing is not None and existing.snapshot_id != current:
        raise AlreadyExists(
            f"{target} has a ref {leave} at another snapshot, {existing.snapshot_id}", "Remove it first."
        )
    kept_already = existing is not None
    tag_exists = RefAt(target, leave, current if kept_already or verb == "move" else None)
    says = {
        "keep": f"tag the current version {current} as {leave}",
        "move": f"move main from {current} to {to.snapshot.snapshot_id}",
        "rollback": f"move main from {current} to {to.snapshot.snapshot_id}; tag {current} as {leave}",
    }
    return Action(
        verb=verb,
        subject=target,
        lease=table_lease(uuid),
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
            tag_exists,
            SnapshotKept(target, to.snapshot.snapshot_id),
        ),
        expects={} if verb == "keep" else {"refs_moved": 1},
        route=route.name,
        because=route.because,
    )


def _loss(to: Resolved) -> str:
    """How the row count of main changes."""
    head = to.table.current_snapshot()
    now, then = live_rows(head), live_rows(to.snapshot)
    change = f"rows go from {now:,} to {then:,}" if now is not None and then is not None else "row counts are unknown"
    return f"readers of main see the other version immediately: {change}"


def _undo(to: Resolved, current: int, actions: tuple[Action, ...]) -> list[str]:
    """How to undo the rollback."""
    if not actions:
        return []
    restores = any("schema" in action.arguments or action.verb in restoring.COLUMN_VERBS for action in actions)
    moves = current != to.snapshot.snapshot_id
    head = to.table.current_snapshot()
    notes = []
    dropped = [str(action.arguments["column"]) for action in actions if action.verb == "drop-column"]
    if dropped:
        notes.append(
            f"undoing does not restore {', '.join(dropped)} on main: Spark drops columns permanently. "
            f"Their values stay readable at {LEFT_BEHIND}{current}"
        )
        restores = False
    if moves:
        forward = "" if current in set(ancestors(to.table, to.snapshot.snapshot_id)) else " --not-ancestor"
        schema = " --with-schema" if restores else ""
        notes.append(f"undo: lakewarden version rollback {to.name}@{LEFT_BEHIND}{current}{forward}{schema} --apply")
    then = written_with(replace(to, snapshot=head)) if head is not None else None
    after = changes_since(then, to.table.schema()) if restores and then is not None else []
    if after:
        notes.append(f"no version was written with the current columns: undoing does not restore {', '.join(after)}")
    return notes
