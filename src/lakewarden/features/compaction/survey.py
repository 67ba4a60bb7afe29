"""A table's files as compaction sees them: which are live, which are worth rewriting, and whether that needs Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lakewarden.engine.base.route import Route, route_of_manifests
from lakewarden.engine.catalog.snapshots import MAIN
from lakewarden.features.compaction.binpack import Candidate, Packing, pack
from lakewarden.features.erasure.hidden.held_files import held_files
from lakewarden.features.shared.file_sizes import CompactionPolicy, policy_of
from lakewarden.lifecycle.basics import SPARK_SQL

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from lakewarden.engine.base.table_name import TableName
    from lakewarden.engine.files.live_files import LiveFile, SnapshotFiles
    from lakewarden.lifecycle.ground import Reader

_OWN = "/lw-op-"  # in the path of every file that Lakewarden wrote
_NAME_MAPPING = "schema.name-mapping.default"


@dataclass(frozen=True)
class Survey:
    """The files of one table's main branch, and which of them to compact."""

    name: TableName
    table: Table
    files: SnapshotFiles
    policy: CompactionPolicy
    packing: Packing
    route: Route
    left_alone: str = ""
    """A sentence about files that must not be rewritten."""

    @property
    def head(self) -> int | None:
        return self.table.metadata.current_snapshot_id


def survey(
    lake: Reader,
    name: TableName,
    options: Mapping[str, Any],
    where: str = "",
    in_order: Callable[[LiveFile], bool] | None = None,
    table: Table | None = None,
) -> Survey:
    """Survey a table's files: all of them, or those that may hold rows matching a filter.

    If files should be sorted and one is not, Spark rewrites all of them. `table` saves loading the table again.
    """
    table = table or lake.tables.load(name)
    files = lake.files.of(table, table.snapshot_by_name(MAIN))
    policy = policy_of(lake.settings, name, table.metadata.properties, options)
    chosen: Sequence[LiveFile] = files.data
    if where:
        matching = lake.rows.files_of(lake.tables.resolve(str(name)), where)
        chosen = [file for file in chosen if file.path in matching]
    route = route_of(route_of_manifests(lake.tables.route(table, name), table), table, files, chosen)
    held = held_files(lake, table, files) & {file.path for file in chosen}
    found = candidates(table, files, [file for file in chosen if file.path not in held])
    if in_order is not None:
        all_in_order = all(in_order(file) for file in chosen)
        found = [replace(file, is_rewritten=all_in_order) for file in found]
        policy = replace(policy, rewrite_all=True)
    by_spark = route.needs_spark or in_order is not None
    left_alone = _left_alone(len(held), by_spark)
    packing = Packing() if held and by_spark else pack(found, policy)
    reasons = [reason for reason in (packing.reason, left_alone) if reason]
    return Survey(name, table, files, policy, replace(packing, reason="; ".join(reasons)), route, left_alone)


def _left_alone(held: int, by_spark: bool) -> str:
    if not held:
        return ""
    files = "1 file is not rewritten: it has" if held == 1 else f"{held} files are not rewritten: they have"
    why = f"{files} hidden rows of erasure requests that can be withdrawn"
    return f"{why}, and Spark would rewrite all files" if by_spark else why


def route_of(usual: Route, table: Table, files: SnapshotFiles, chosen: Sequence[LiveFile]) -> Route:
    """The usual route, unless only Spark can rewrite these files."""
    if usual.needs_spark:
        return usual
    if any(delete.is_equality for delete in files.deletes):
        return Route(SPARK_SQL, "it has equality deletes, which only Spark can apply")
    formats = {file.format for file in chosen} | {delete.format for file in chosen for delete in file.deletes}
    if others := sorted(formats - {"parquet"}):
        return Route(SPARK_SQL, f"it has {', '.join(others)} files, which only Spark can rewrite")
    if _NAME_MAPPING in table.metadata.properties and any(_OWN not in file.path for file in chosen):
        return Route(SPARK_SQL, "it may have files without field ids, which only Spark can map by name")
    return usual


def candidates(table: Table, files: SnapshotFiles, chosen: Sequence[LiveFile]) -> list[Candidate]:
    shared_by = Counter(delete.identity for file in files.data for delete in file.deletes if delete.is_guessed)
    rewriting = rewriting_snapshots(table)
    floating = floating_columns(table)

    def masked(file: LiveFile) -> int:
        guessed = sum(d.rows // shared_by[d.identity] for d in file.deletes if d.is_guessed)
        return min(files.masked(file) + guessed, file.rows)

    return [
        Candidate(
            path=file.path,
            bytes=file.bytes,
            rows=file.rows,
            partition=file.partition,
            masked=masked(file) if file.deletes else 0,
            deletes=len(file.deletes),
            order=file.sequence,
            is_rewritten=_OWN in file.path or file.added_by in rewriting,
            lacks_nan_counts=_OWN in file.path and file.lacks_nan_counts(floating),
        )
        for file in chosen
    ]


def floating_columns(table: Table) -> frozenset[int]:
    """The ids of the columns that can hold NaN."""
    from pyiceberg.types import DoubleType, FloatType

    schema = table.schema()
    return frozenset(id for id in schema.field_ids if isinstance(schema.find_type(id), DoubleType | FloatType))


def rewriting_snapshots(table: Table) -> set[int]:
    """Snapshots that only rewrote files: readers see the same rows before and after."""
    snapshots = table.metadata.snapshots
    return {s.snapshot_id for s in snapshots if s.summary and s.summary.operation.value == "replace"}
