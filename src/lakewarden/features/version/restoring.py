"""Restores the columns that a version was written with, as part of a rollback to it.

Usually the commit that moves main also restores them. On Spark each statement is a separate commit, and only added or
renamed columns can be undone: one action per column, after main has moved.
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
from lakewarden.features.viewset.definition import PROPERTY as VIEW_SET
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
"""The verbs of actions that only restore columns."""


def schema_to_restore(to: Resolved) -> Schema | None:
    """The schema that a version was written with, if the table's schema differs."""
    then = written_with(to)
    if then is None:
        raise Conflict(
            f"{to.name} does not record which columns {to.reference} was written with",
            "Its writer did not record the schema, or the schema was removed since. Roll back without --with-schema.",
        )
    changes = changes_since(then, to.table.schema())
    if not changes:
        return None
    if _is_of_view_set(to):
        raise Conflict(
            f"{to.name} is the table of a view set, and its columns change with its definition only: --with-schema "
            f"would undo: {', '.join(changes)}",
            "Roll back without --with-schema, register the definition that you want, and run: lakewarden viewset heal",
        )
    refuse_unfit(to, then)
    return then


def in_the_commit(action: Action, to: Resolved, then: Schema) -> Action:
    """The action, with a commit that also restores the schema."""
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
    """One action per column that Spark drops or renames after main has moved."""
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
    """Whether the table has the schema or column that an action restores; true if it restores none."""
    if action.verb in COLUMN_VERBS:
        found = {field.field_id: field.name for field in table.schema().fields}
        return found.get(action.number("field"), "") == action.arguments["name"]
    return "schema" not in action.arguments or table.metadata.current_schema_id == action.number("schema")


def set_schema(action: Action) -> SetSchema | None:
    """The schema that the commit of an action sets, and what it requires of the table."""
    layout = next((need for need in action.requires if isinstance(need, LayoutIs)), None)
    return SetSchema(action.number("schema"), layout.schema, layout.spec, layout.order) if layout else None


def undo_column(action: Action, lake: Writer) -> Outcome:
    """Drop or rename one column on Spark, if it is still the planned one."""
    column, name = str(action.arguments["column"]), str(action.arguments["name"])
    found = {field.name: field.field_id for field in lake.tables.load(action.subject).schema().fields}
    if found.get(column) != action.number("field"):
        raise StalePlan(
            f"the plan is stale: column {column} of {action.subject} is gone, or another column has its name",
            "The column was not changed. Plan again.",
        )
    statements = lake.statements(action.subject)
    if action.verb == "drop-column":
        statements.drop_column(column)
    else:
        statements.rename_column(column, name)
    return Outcome(action.expects)


def warnings(to: Resolved, restores: Schema | None) -> list[str]:
    """Warnings about changed columns."""
    then = written_with(to)
    changed = changes_since(then, to.table.schema()) if then is not None else []
    if changed and restores is None:
        since = f"columns changed since {to.reference} was written and stay as they are: {', '.join(changed)}"
        return [f"{since}. {'viewset register changes' if _is_of_view_set(to) else '--with-schema restores'} them"]
    branches = other_branches(to.table)
    return [f"these branches get the restored columns too: {', '.join(branches)}"] if restores and branches else []


def _is_of_view_set(version: Resolved) -> bool:
    return VIEW_SET in version.table.metadata.properties
