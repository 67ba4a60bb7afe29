"""Changes branches, tags, properties and the current schema of a table in one commit; through Spark, in statements.

Concurrent changes are never overwritten: a change whose requirements no longer hold is refused as stale. On Spark every
statement is a separate commit on the current head. So expectations are checked right before each statement, and after a
move of main as well: if it skipped a concurrent commit, that commit gets a tag at once, and main is moved back to it
unless others have continued from there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from lakewarden.engine.base.quoting import identifier, literal
from lakewarden.engine.catalog.snapshots import MAIN, named
from lakewarden.engine.commit.change import Change
from lakewarden.engine.commit.publish import Attempt, at_refs, ref_update
from lakewarden.errors import SparkUnavailable, StalePlan
from lakewarden.lifecycle.basics import PUBLISH, SPARK_SQL
from lakewarden.lifecycle.failpoints import reach

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.update import TableRequirement, TableUpdate

    from lakewarden.engine.base.table_name import TableName
    from lakewarden.engine.commit.change import Desk
    from lakewarden.engine.spark.session import Spark

_UNITS = (("DAYS", 86_400_000), ("HOURS", 3_600_000), ("MINUTES", 60_000))


@dataclass(frozen=True)
class SetRef:
    """A branch or tag to point at a snapshot; an existing branch keeps its settings."""

    name: str
    kind: Literal["branch", "tag"]
    snapshot: int
    keep_ms: int | None = None


@dataclass(frozen=True)
class SetSchema:
    """An earlier schema to make current, and the expected schema, partition spec and sort order."""

    to: int
    expects: int
    spec: int
    order: int


@dataclass(frozen=True)
class RefChange(Change[None]):
    """Changes of a table's refs, made together, and the expected snapshot of each ref."""

    expects: Mapping[str, int | None]
    set: tuple[SetRef, ...] = ()
    remove: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    drop_properties: tuple[str, ...] = ()
    route: str = PUBLISH
    schema: SetSchema | None = None
    """Only on the direct route: Iceberg has no statement for it."""

    def publish(self, desk: Desk) -> None:
        self._check_route(PUBLISH)

        def attempt(table: Table) -> Attempt:
            check_expected(table, self)
            requires = (*at_refs(self.uuid, self.expects), *_at_layout(self.schema))
            return Attempt(requires, _ref_updates(table, self))

        desk.publisher.publish(self.table, self.uuid, attempt)

    def publish_through_spark(self, desk: Desk, spark: Spark) -> None:
        self._check_route(SPARK_SQL)
        _Statements(desk, spark, self).run()

    def _check_route(self, route: str) -> None:
        """Refuse if the route changed: what was planned as one commit would be several, or the reverse."""
        if self.route != route:
            raise StalePlan(
                f"the plan is stale: {self.table} was to be changed by {self.route}, but its format version changed",
                "Nothing was written. Plan again.",
            )


class _Statements:
    def __init__(self, desk: Desk, spark: Spark, change: RefChange) -> None:
        self._tables, self._fence = desk.tables, desk.fence
        self._spark = spark
        self._change = change

    def run(self) -> None:
        change = self._change
        name = self._tables.name(change.table)
        self._spark.session()  # starting it takes long, so check afterwards
        table = self._tables.load(name)
        check_expected(table, change)
        reach("commit.ready")
        for statement in list(_statements(name, table, change)):
            check_expected(self._tables.load(name), change)
            self._fence()
            self._run(statement, change)
            reach("commit.statement")
        if any(ref.name == MAIN for ref in change.set):
            self._check_not_over_others(name, change)
        reach("commit.landed")

    def _run(self, statement: str, change: RefChange) -> None:
        try:
            self._spark.sql(statement).collect()
        except SparkUnavailable:
            check_expected(self._tables.load(change.table), change)  # raises if another writer was faster
            raise

    def _check_not_over_others(self, name: TableName, change: RefChange) -> None:
        """Check that main was moved from the snapshot that the plan expected."""
        to = next(ref.snapshot for ref in change.set if ref.name == MAIN)
        table = self._tables.load(name)
        lost = displaced(table, change.expects[MAIN] or 0, to)
        if lost is None:
            return
        kept = self._name(name, lost)
        went_back = self._tables.load(name).metadata.current_snapshot_id == to
        if went_back:
            self._fence()
            self._spark.sql(_move_main(name, lost)).collect()
            also_lost = displaced(self._tables.load(name), to, lost)
            kept += f" and {self._name(name, also_lost)}" if also_lost is not None else ""
        after = (
            ", and main is back on it. Plan again."
            if went_back
            else "; others have committed on top of the older version."
        )
        raise StalePlan(
            f"the plan is stale: ref main of {change.table} moved from {change.expects[MAIN]} to {lost} meanwhile",
            f"Concurrent commits are kept as {kept}{after}",
        )

    def _name(self, name: TableName, lost: int) -> str:
        """Tag a snapshot that no ref points to, before retention can expire it."""
        tag = f"displaced-{lost}"
        self._spark.sql(_altered(name, _create(SetRef(tag, "tag", lost)))).collect()
        return tag


def displaced(table: Table, was: int, to: int) -> int | None:
    """The snapshot that a move of main from `was` to `to` skipped, if any, unless a ref still reaches it."""
    log = [entry.snapshot_id for entry in table.metadata.snapshot_log]
    moves = [place for place, snapshot in enumerate(log) if snapshot == to and place > 0]
    if not moves or log[moves[-1] - 1] in (was, to):
        return None
    lost = log[moves[-1] - 1]
    return None if lost in named(table) or table.snapshot_by_id(lost) is None else lost


def _statements(name: TableName, table: Table, change: RefChange) -> Iterator[str]:
    refs, properties = table.metadata.refs, table.metadata.properties
    gone_properties = [key for key in change.drop_properties if key in properties]
    if gone_properties:
        yield _altered(name, f"UNSET TBLPROPERTIES IF EXISTS ({', '.join(literal(key) for key in gone_properties)})")
    for gone in change.remove:
        yield _altered(name, f"DROP {str(refs[gone].snapshot_ref_type).upper()} {identifier(gone)}")
    for ref in sorted(change.set, key=lambda ref: ref.name == MAIN):
        yield _move_main(name, ref.snapshot) if ref.name == MAIN else _altered(name, _create(ref))
    if change.properties:
        pairs = ", ".join(f"{literal(key)} = {literal(value)}" for key, value in change.properties.items())
        yield _altered(name, f"SET TBLPROPERTIES ({pairs})")


def _altered(name: TableName, what: str) -> str:
    return f"ALTER TABLE {identifier(name.lake, name.identifier)} {what}"


def _create(ref: SetRef) -> str:
    retain = f" RETAIN {_retain(ref.keep_ms)}" if ref.keep_ms else ""
    return f"CREATE {ref.kind.upper()} {identifier(ref.name)} AS OF VERSION {int(ref.snapshot)}{retain}"


def _move_main(name: TableName, snapshot: int) -> str:
    procedure = f"{identifier(name.lake)}.system.set_current_snapshot"
    within = ".".join(identifier(part) for part in name.identifier)
    return f"CALL {procedure}(table => {literal(within)}, snapshot_id => {literal(snapshot)})"


def _retain(milliseconds: int) -> str:
    for unit, size in _UNITS:
        if milliseconds % size == 0:
            return f"{milliseconds // size} {unit}"
    raise ValueError(f"{milliseconds} ms is not a whole number of minutes")


def check_expected(table: Table, change: RefChange) -> None:
    """Refuse as stale, with what moved."""
    moved = []
    if str(table.metadata.table_uuid) != change.uuid:
        moved.append(f"{change.table} was recreated: its UUID was {change.uuid} and is now {table.metadata.table_uuid}")
    for ref, expected in change.expects.items():
        found = table.metadata.refs.get(ref)
        at = found.snapshot_id if found else None
        if at != expected:
            moved.append(f"ref {ref} of {change.table} moved from {expected or 'nowhere'} to {at or 'nowhere'}")
    if change.schema is not None and table.metadata.current_schema_id != change.schema.expects:
        now = table.metadata.current_schema_id
        moved.append(f"the schema of {change.table} was {change.schema.expects} and is now {now}")
    if moved:
        raise StalePlan(f"the plan is stale: {'; '.join(moved)}", "Nothing was written. Plan again.")


def _at_layout(schema: SetSchema | None) -> tuple[TableRequirement, ...]:
    """What the catalog itself must check if another schema becomes current."""
    from pyiceberg.table.update import AssertCurrentSchemaId, AssertDefaultSortOrderId, AssertDefaultSpecId

    if schema is None:
        return ()
    return (
        AssertCurrentSchemaId.model_validate({"current-schema-id": schema.expects}),
        AssertDefaultSpecId.model_validate({"default-spec-id": schema.spec}),
        AssertDefaultSortOrderId.model_validate({"default-sort-order-id": schema.order}),
    )


def _ref_updates(table: Table, change: RefChange) -> tuple[TableUpdate, ...]:
    from pyiceberg.table.update import (
        RemovePropertiesUpdate,
        RemoveSnapshotRefUpdate,
        SetCurrentSchemaUpdate,
        SetPropertiesUpdate,
    )

    updates: list[TableUpdate] = []
    if change.schema is not None:
        updates.append(SetCurrentSchemaUpdate.model_validate({"schema-id": change.schema.to}))
    updates += [
        ref_update(ref.name, ref.kind, ref.snapshot, table.metadata.refs.get(ref.name), ref.keep_ms)
        for ref in change.set
    ]
    updates += [RemoveSnapshotRefUpdate.model_validate({"ref-name": name}) for name in change.remove]
    if change.properties:
        updates.append(SetPropertiesUpdate.model_validate({"updates": dict(change.properties)}))
    gone = [name for name in change.drop_properties if name in table.metadata.properties]
    if gone:
        updates.append(RemovePropertiesUpdate.model_validate({"removals": gone}))
    return tuple(updates)
