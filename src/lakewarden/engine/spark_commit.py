"""Publishes through Spark SQL what the commit layer cannot: refs of tables in format v3.

Statements are ordered so that the one that makes the action's postcondition true comes last: a run
killed in between finds its requirements still met and simply does it again. Spark commits on whatever
head it finds, so a move of main is looked at afterwards, and undone if it went over a commit that
somebody else had made in between.
"""

from __future__ import annotations

from collections.abc import Iterator

from lakewarden.engine.commit import RefChange, SetRef, check_expected
from lakewarden.engine.quoting import identifier, literal
from lakewarden.engine.spark import Spark
from lakewarden.engine.tables import Tables
from lakewarden.errors import StalePlan
from lakewarden.lifecycle.failpoints import reach
from lakewarden.lifecycle.ground import Fence

MAIN = "main"
_UNITS = (("DAYS", 86_400_000), ("HOURS", 3_600_000), ("MINUTES", 60_000))


class SparkCommits:
    """Iceberg's own statements on Spark, behind the interface of the commit layer."""

    def __init__(self, tables: Tables, spark: Spark, fence: Fence) -> None:
        self._tables = tables
        self._spark = spark
        self._fence = fence

    def refs(self, change: RefChange) -> None:
        table = self._tables.load(change.table)
        check_expected(table, change)
        statements = list(self._statements(change))
        reach("commit.ready")
        for statement in statements:
            self._fence()
            self._spark.sql(statement).collect()
            reach("commit.statement")
        if any(ref.name == MAIN for ref in change.set):
            self._check_not_over_others(change)
        reach("commit.landed")

    def _statements(self, change: RefChange) -> Iterator[str]:
        name = self._tables.name(change.table)
        target = identifier(name.lake, name.identifier)
        if change.properties:
            pairs = ", ".join(f"{literal(key)} = {literal(value)}" for key, value in change.properties.items())
            yield f"ALTER TABLE {target} SET TBLPROPERTIES ({pairs})"
        if change.drop_properties:
            keys = ", ".join(literal(key) for key in change.drop_properties)
            yield f"ALTER TABLE {target} UNSET TBLPROPERTIES IF EXISTS ({keys})"
        refs = self._tables.load(name).metadata.refs
        for gone in change.remove:
            yield f"ALTER TABLE {target} DROP {str(refs[gone].snapshot_ref_type).upper()} {identifier(gone)}"
        for ref in sorted(change.set, key=lambda ref: ref.name == MAIN):
            if ref.name == MAIN:
                yield _move_main(name.lake, ".".join(identifier(part) for part in name.identifier), ref.snapshot)
            else:
                yield f"ALTER TABLE {target} {_create(ref)}"

    def _check_not_over_others(self, change: RefChange) -> None:
        """The state that main was moved away from must be the one the plan knew."""
        log = self._tables.load(change.table).metadata.snapshot_log
        before = log[-2].snapshot_id if len(log) > 1 else None
        planned = change.expects[MAIN]
        if before == planned or before is None:
            return
        name = self._tables.name(change.table)
        within = ".".join(identifier(part) for part in name.identifier)
        self._spark.sql(_move_main(name.lake, within, before)).collect()
        raise StalePlan(
            f"the plan is stale: ref main of {change.table} moved from {planned} to {before} meanwhile",
            "Another writer's commit was put back as it was. Plan again.",
        )


def _create(ref: SetRef) -> str:
    retain = f" RETAIN {_retain(ref.keep_ms)}" if ref.keep_ms else ""
    return f"CREATE {ref.kind.upper()} {identifier(ref.name)} AS OF VERSION {int(ref.snapshot)}{retain}"


def _move_main(lake: str, within: str, snapshot: int) -> str:
    procedure = f"{identifier(lake)}.system.set_current_snapshot"
    return f"CALL {procedure}(table => {literal(within)}, snapshot_id => {literal(snapshot)})"


def _retain(milliseconds: int) -> str:
    for unit, size in _UNITS:
        if milliseconds % size == 0:
            return f"{milliseconds // size} {unit}"
    raise ValueError(f"{milliseconds} ms are not whole minutes")
