"""Restoring the columns that a version was written with, as part of a rollback to it.

Through the commit layer they come back in the commit that moves main. On Spark each statement is a commit of its own,
and only columns that were added or renamed since can be undone: one action a column, after main has moved.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lakewarden.engine.catalog.snapshots import MAIN
from lakewarden.engine.commit.refs import SetSchema
from lakewarden.errors import Conflict, StalePlan
from lakewarden.features.version.schemas import (
    changes_since,
    other_branches,
    refuse_unfit,
    statements_back,
    written_with,
)
from lakewarden.lifecycle.action import Action, Outcome
from lakewarden.lifecycle.requirement import LayoutIs, RefAt, TableIs, table_lease

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table

    from lakewarden.engine.base.route import Route
    from lakewarden.engine.catalog.tables import Resolved
    from lakewarden.lifecycle.ground import Writer

COLUMN_VERBS = ("drop-column", "rename-column")
SCHEMA_VERBS = ("restore-schema", *COLUMN_VERBS)
"""Of actions that restore columns and do nothing else."""


def schema_to_restore(to: Resolved) -> Schema | None:
    """The schema that a version was written with, where the table's is another one by now."""
    then = written_with(to)
    if then is None:
        raise Conflict(
            f"{to.name} does not say which columns {to.reference} was written with",
            "Its writer did not record the schema, or it was removed since. Roll back without --with-schema.",
        )
    if not changes_since(then, to.table.schema()):
        return None
    refuse_unfit(to, then)
    return then


def in_the_commit(action: Action, to: Resolved, then: Schema) -> Action:
    """An action whose commit also restores the schema."""
    metadata, target = to.table.metadata, str(to.name)
    layout = LayoutIs(target, metadata.current_schema_id, metadata.default_spec_id, metadata.default_sort_order_id)
    undoes = ", ".join(changes_since(then, to.table.schema()))
    return replace(
        action,
        says=f"{action.says}; restore schema {then.schema_id}, which undoes: {undoes}",
        arguments={**action.arguments, "schema": then.schema_id},
        requires=(*action.requires, layout),
        expects={**action.expects, "schemas_restored": 1},
    )


def by_statements(to: Resolved, then: Schema, route: Route) -> tuple[Action, ...]:
    """One action for each column that Spark drops or renames, once main is at the version."""
    target, uuid = str(to.name), str(to.table.metadata.table_uuid)
    return tuple(
        Action(
            verb=f"{what}-column",
            subject=target,
            lease=table_lease(uuid),
            says=f"{what} column {field.name}{f' back to {name}' if name else ', which was added since'}",
            arguments={"column": field.name, "field": field.field_id, "name": name, "uuid": uuid},
            requires=(TableIs(target, uuid), RefAt(target, MAIN, to.snapshot.snapshot_id)),
            expects={"columns_restored": 1},
            route=route.name,
            because=route.because,
        )
        for what, field, name in statements_back(to, then)
    )


def is_restored(action: Action, table: Table) -> bool:
    """Whether the table has the schema, or the column, that an action restores; true for one that restores none."""
    if action.verb in COLUMN_VERBS:
        found = {field.field_id: field.name for field in table.schema().fields}
        return found.get(action.number("field"), "") == action.arguments["name"]
    return "schema" not in action.arguments or table.metadata.current_schema_id == action.number("schema")


def set_schema(action: Action) -> SetSchema | None:
    """What the commit of an action sets, with what it requires for that."""
    layout = next((need for need in action.requires if isinstance(need, LayoutIs)), None)
    return SetSchema(action.number("schema"), layout.schema, layout.spec, layout.order) if layout else None


def undo_column(action: Action, lake: Writer) -> Outcome:
    """Drop or rename one column on Spark, if it still is the column that was planned for."""
    column, name = str(action.arguments["column"]), str(action.arguments["name"])
    found = {field.name: field.field_id for field in lake.tables.load(action.subject).schema().fields}
    if found.get(column) != action.number("field"):
        raise StalePlan(
            f"the plan is stale: column {column} of {action.subject} is gone, or another column has that name now",
            "That column was left as it is. Plan again.",
        )
    statements = lake.statements(action.subject)
    if action.verb == "drop-column":
        statements.drop_column(column)
    else:
        statements.rename_column(column, name)
    return Outcome(action.expects)


def warnings(to: Resolved, restores: Schema | None) -> list[str]:
    """What readers should know of the columns."""
    then = written_with(to)
    changed = changes_since(then, to.table.schema()) if then is not None else []
    if changed and restores is None:
        since = f"the columns stay as they are now; since {to.reference} was written they changed: {', '.join(changed)}"
        return [f"{since}. --with-schema restores them"]
    branches = other_branches(to.table)
    return [f"branches are read with the restored columns too: {', '.join(branches)}"] if restores and branches else []
