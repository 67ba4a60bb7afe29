"""Publishes through Spark SQL what the commit layer cannot: refs of tables in format v3.

Every statement is a commit of its own, so an action here is one statement wherever that matters. Spark
commits on whatever head it finds: what a change expects is looked at right before each statement, and a
move of main is looked at afterwards too. Where it went over a commit that somebody else had made in
between, that commit is given a name at once, and main goes back to it if nobody has gone on since.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lakewarden.engine.changes import MAIN, RefChange, SetRef, ShortenedLog
from lakewarden.engine.commit import check_expected
from lakewarden.engine.metadata_log import dead_entries, shorten
from lakewarden.engine.quoting import identifier, literal
from lakewarden.engine.reference import TableName
from lakewarden.engine.snapshots import named
from lakewarden.engine.spark import Spark
from lakewarden.engine.tables import Tables
from lakewarden.errors import SparkUnavailable, StalePlan
from lakewarden.lifecycle.failpoints import reach
from lakewarden.lifecycle.ground import Fence
from lakewarden.lifecycle.plan import SPARK_SQL

if TYPE_CHECKING:
    from pyiceberg.table import Table

_UNITS = (("DAYS", 86_400_000), ("HOURS", 3_600_000), ("MINUTES", 60_000))


class SparkCommits:
    """Iceberg's own statements on Spark, behind the interface of the commit layer."""

    def __init__(self, tables: Tables, spark: Spark, fence: Fence) -> None:
        self._tables = tables
        self._spark = spark
        self._fence = fence

    def refs(self, change: RefChange) -> None:
        name = self._tables.name(change.table)
        self._spark.session()  # its start takes long: what is looked at is looked at after it
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

    def shorten_log(self, change: ShortenedLog) -> int:
        """Drop entries of the metadata log; answers with how many the catalog keeps all the same."""
        shorten(lambda: self._tables.load(change.table), self.refs, change, SPARK_SQL)
        return len(dead_entries(self._tables.load(change.table), change.files))

    def _run(self, statement: str, change: RefChange) -> None:
        try:
            self._spark.sql(statement).collect()
        except SparkUnavailable:
            check_expected(self._tables.load(change.table), change)  # it refuses where another was quicker: say so
            raise

    def _check_not_over_others(self, name: TableName, change: RefChange) -> None:
        """The state that main was moved away from must be the one the plan knew."""
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
            ", and main is back on it. Plan again." if went_back else "; others have gone on from the older version."
        )
        raise StalePlan(
            f"the plan is stale: ref main of {change.table} moved from {change.expects[MAIN]} to {lost} meanwhile",
            f"What others committed is kept as {kept}{after}",
        )

    def _name(self, name: TableName, lost: int) -> str:
        """Give a commit that no name leads to one, before retention can take it."""
        tag = f"displaced-{lost}"
        self._spark.sql(_alter(name, _create(SetRef(tag, "tag", lost)))).collect()
        return tag


def displaced(table: Table, was: int, to: int) -> int | None:
    """The commit that a move of main from `was` to `to` went over, if it did and no name leads to it."""
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
        yield _alter(name, f"UNSET TBLPROPERTIES IF EXISTS ({', '.join(literal(key) for key in gone_properties)})")
    for gone in change.remove:
        yield _alter(name, f"DROP {str(refs[gone].snapshot_ref_type).upper()} {identifier(gone)}")
    for ref in sorted(change.set, key=lambda ref: ref.name == MAIN):
        yield _move_main(name, ref.snapshot) if ref.name == MAIN else _alter(name, _create(ref))
    if change.properties:
        pairs = ", ".join(f"{literal(key)} = {literal(value)}" for key, value in change.properties.items())
        yield _alter(name, f"SET TBLPROPERTIES ({pairs})")


def _alter(name: TableName, what: str) -> str:
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
    raise ValueError(f"{milliseconds} ms are not whole minutes")
