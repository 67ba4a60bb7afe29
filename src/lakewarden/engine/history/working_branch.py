"""A branch on which a version is rebuilt without some rows, before any ref is moved to it.

Spark deletes the rows by file and position. Files that still contain one, because deletes only mask it, are rewritten;
so are manifests that list removed files. The result is accepted only after checks: no file contains such a row, no
manifest lists a removed file, and all other rows are unchanged. Completed steps are skipped, so that a branch left by a
killed run is continued.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lakewarden.engine.catalog.snapshots import ancestors, named, notes_of
from lakewarden.engine.files.manifests import manifests_of
from lakewarden.engine.spark.session import translating_spark
from lakewarden.errors import VerificationFailed
from lakewarden.lifecycle.failpoints import reach

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot
    from pyspark.sql import Column, DataFrame

    from lakewarden.engine.rows.row_positions import KeyRows
    from lakewarden.engine.spark.statements import TableStatements
    from lakewarden.lifecycle.basics import Stamp

CLEANSED = "lakewarden.cleansed"
"""In a snapshot's summary: the snapshot that it was built from, without some rows."""
MERGING = "lakewarden.merging"
"""In a table's properties: values to restore after manifests were merged."""
_NAME = re.compile(
    r"lakewarden-(?P<operation>op-[0-9]{8}-[0-9]{6}-[0-9a-f]{6})-(?P<snapshot>[0-9]+)(?P<before>-before)?"
)
_HUGE = str(1 << 40)
_MERGE_ALL = {
    "commit.manifest-merge.enabled": "true",
    "commit.manifest.min-count-to-merge": "2",
    "commit.manifest.target-size-bytes": _HUGE,
}
_ONLY_WITH_DELETES = {
    "delete-file-threshold": "1",
    "remove-dangling-deletes": "true",
    "min-file-size-bytes": "0",
    "max-file-size-bytes": _HUGE,
    "min-input-files": str(2**31 - 1),
}
_ALL = {"rewrite-all": "true", "remove-dangling-deletes": "true"}


def working_branch(stamp: Stamp, snapshot: int) -> str:
    """The name of the branch on which an operation rebuilds a version."""
    return f"lakewarden-{stamp.operation}-{snapshot}"


def is_working(ref: str, is_ours: Callable[[str], bool] = lambda operation: True) -> bool:
    """Whether a ref is a working branch of one of our operations; others may use similar names."""
    found = _NAME.fullmatch(ref)
    return found is not None and is_ours(found["operation"])


def is_resumed(table: Table, ref: str, stamp: Stamp) -> bool:
    """Whether an existing branch belongs to this operation and was built on the version in its name."""
    found = _NAME.fullmatch(ref)
    if found is None or found["before"] or found["operation"] != stamp.operation:
        return False
    return int(found["snapshot"]) in ancestors(table, table.metadata.refs[ref].snapshot_id)


def leftover_snapshots(table: Table) -> set[int]:
    """Intermediate snapshots between a version and its rebuilt one, and rebuilt ones that were never used."""
    by_id = {snapshot.snapshot_id: snapshot for snapshot in table.metadata.snapshots}
    leading = named(table)
    found: set[int] = set()
    for snapshot in by_id.values():
        origin = _origin(snapshot)
        if origin is None:
            continue
        between, parent = list[int](), snapshot.parent_snapshot_id
        while parent in by_id and parent != origin:
            between.append(parent)
            parent = by_id[parent].parent_snapshot_id
        if parent == origin:  # else it is not ours, despite its summary
            found.update(between)
            if origin in by_id:  # else it was used, and only its ref is gone
                found.update({snapshot.snapshot_id} - leading)
    return found


def rebuilt(table: Table, among: Collection[int] | None = None) -> dict[int, int]:
    """By versions that are still there, the last ones that were built from them, by default of all that refs have."""
    there = {snapshot.snapshot_id for snapshot in table.metadata.snapshots}
    chosen = there - leftover_snapshots(table) if among is None else among
    origins = {each.snapshot_id: _origin(each) for each in table.metadata.snapshots if each.snapshot_id in chosen}
    return {origin: id for id, origin in origins.items() if origin in there}


def _origin(snapshot: Snapshot) -> int | None:
    origin = notes_of(snapshot).get(CLEANSED, "")
    return int(origin) if origin.isascii() and origin.isdigit() else None


class WorkingBranch:
    """Rebuilds one version of a table without the rows of some keys."""

    def __init__(
        self,
        load: Callable[[], Table],
        statements: TableStatements,
        stamp: Stamp,
        rows: KeyRows,
        snapshot: int,
    ) -> None:
        self._load, self._statements, self._stamp, self._rows = load, statements, stamp, rows
        self._origin = snapshot
        self.name = working_branch(stamp, snapshot)
        self._before = f"{self.name}-before"
        self._view = f"lakewarden_{stamp.action}_rows"

    def make(self) -> int:
        """Rebuild and verify it; returns the new snapshot."""
        table = self._load()
        if self.name not in table.metadata.refs:
            self._statements.create_branch(self.name, self._origin)
        if self._before not in table.metadata.refs:
            self._statements.create_branch(self._before, self._origin)
        reach("spark_cleansing.branched")
        try:
            rows = self._statements.view(self._view, self._rows.places(table, self._origin))
            with self._statements.with_summary({**self._stamp.properties(), CLEANSED: str(self._origin)}):
                self._erase()
                self._forget()
            self._compare(rows)
        finally:
            self._statements.drop_view(self._view)
        self._statements.drop_branch(self._before)
        reach("spark_cleansing.made")
        return self._head(self._load()).snapshot_id

    def _erase(self) -> None:
        """Until no file of the branch has such a row: delete, then rewrite files with deletes, then all files."""
        steps: list[tuple[str, Callable[[], None]]] = [
            ("deleted", lambda: self._statements.delete_rows(self.name, self._view)),
            ("unmasked", lambda: self._statements.rewrite_data_files(self.name, _ONLY_WITH_DELETES)),
            ("rewritten", lambda: self._statements.rewrite_data_files(self.name, _ALL)),
        ]
        for point, step in steps:
            if not self._holds_rows():
                return
            step()
            reach(f"spark_cleansing.{point}")
        if self._holds_rows():
            raise VerificationFailed(
                f"table {self._about}: Spark left rows in files that should have been rewritten without them",
                "No ref was moved.",
            )

    def _forget(self) -> None:
        """Until no manifest lists a removed file, and the last snapshot has its summary."""
        steps: list[Callable[[], None]] = [self._append_nothing, self._merge_manifests, self._rewrite_all]
        if self._is_made() and not self._lists_removed():
            return
        for step in steps:
            step()
            reach("spark_cleansing.forgotten")
            if not self._lists_removed():
                return
        raise VerificationFailed(
            f"table {self._about}: manifests written by Spark still list removed files",
            "No ref was moved.",
        )

    def _append_nothing(self) -> None:
        self._statements.append_nothing(self.name)

    def _merge_manifests(self) -> None:
        with merging(self._load(), self._statements):
            self._append_nothing()

    def _rewrite_all(self) -> None:
        """For a manifest that cannot be merged: it is dropped once nothing that it lists is live."""
        self._statements.rewrite_data_files(self.name, _ALL)
        self._append_nothing()

    def _is_made(self) -> bool:
        return _origin(self._head(self._load())) == self._origin

    def _holds_rows(self) -> bool:
        table = self._load()
        return self._rows.is_revealed_by(table, self._head(table).snapshot_id)

    def _lists_removed(self) -> bool:
        table = self._load()
        manifests = manifests_of(table.io, self._head(table))
        return any(manifest.deleted_files_count != 0 for manifest in manifests)

    def _compare(self, rows: DataFrame) -> None:
        """Check that all other rows are unchanged, in any order."""
        was, now = self._statements.read(self._before), self._statements.read(self.name)
        with translating_spark():
            same = (was["_file"] == rows["file"]) & (was["_pos"] == rows["position"])
            both = _content(was.join(rows, same, "left_anti")).unionAll(_content(now))
            (expected, sum_before), (found, sum_after) = both.collect()
        if (expected, sum_before) != (found, sum_after):
            raise VerificationFailed(
                f"table {self._about}: {expected} rows were to stay unchanged, but the {found} rows found are "
                "different",
                "No ref was moved.",
            )
        reach("spark_cleansing.compared")

    def _head(self, table: Table) -> Snapshot:
        head = table.snapshot_by_name(self.name)
        assert head is not None  # only we write to it, and its snapshots are kept
        return head

    @property
    def _about(self) -> str:
        return ".".join(self._load().name())


@contextmanager
def merging(table: Table, statements: TableStatements) -> Iterator[None]:
    """Make all commits in the body merge manifests, then restore the properties; a later run can do that too."""
    before = {key: table.metadata.properties.get(key) for key in _MERGE_ALL}
    statements.set_properties({**_MERGE_ALL, MERGING: json.dumps(before)})
    reach("spark_cleansing.merging")
    try:
        yield
    finally:
        _restore_properties(before, statements)


def restore_properties(table: Table, statements: TableStatements) -> None:
    """Restore properties that a killed run had changed."""
    try:
        before = json.loads(table.metadata.properties.get(MERGING, ""))
    except ValueError:
        return
    if isinstance(before, dict):
        _restore_properties({key: before.get(key) for key in _MERGE_ALL}, statements)


def _restore_properties(before: Mapping[str, str | None], statements: TableStatements) -> None:
    had = {key: value for key, value in before.items() if value is not None}
    if had:
        statements.set_properties(had)
    statements.unset_properties([*(key for key in before if key not in had), MERGING])


def _content(frame: DataFrame) -> DataFrame:
    """The number of rows, and a checksum of their contents, as one row."""
    from pyspark.sql.functions import count, isnull, lit, sum, xxhash64

    columns = [_hashable(frame, name) for name in frame.columns if name not in ("_file", "_pos")]
    hashed = xxhash64(*columns, *(isnull(column) for column in columns)).cast("decimal(20,0)")
    return frame.select(count(lit(1)), sum(hashed))


def _hashable(frame: DataFrame, name: str) -> Column:
    """Spark cannot hash maps and variants: these are compared as text."""
    from pyspark.sql.functions import struct, to_json

    from lakewarden.engine.base.quoting import identifier

    column = frame[identifier(name)]
    kind = frame.schema[name].dataType.simpleString()
    return to_json(struct(column)) if "map<" in kind or "variant" in kind else column
