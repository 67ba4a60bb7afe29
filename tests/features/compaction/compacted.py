"""Compacts a table and looks at everything that must be the same afterwards, and at everything that must not.

Content is read by Spark, whole and through filters, aggregates and older versions: wrong bounds lose rows only where
somebody filters, wrong counts show only where Spark answers from metadata.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from lakewarden.engine.files.live_files import LiveFile, SnapshotFiles
from lakewarden.engine.files.manifests import read_entries
from lakewarden.lifecycle.basics import PUBLISH
from tests.deletes_by_hand import column_of, commit_deletes, equality_deletes, unpartitioned
from tests.small_lake import SmallLake

MARK = "_lakewarden/erasure.json"  # which a request for erasure leaves
REWRITE_ALL: dict[str, Any] = {"rewrite_all": True}


@dataclass
class Compactable:
    """One table of a lake, and what tests do to it."""

    lake: SmallLake
    name: str

    def sql(self, statement: str) -> list[Any]:
        """Run a statement on Spark, with {t} for the table."""
        return list(self.lake.warden.ground.spark.sql(statement.replace("{t}", f"main.{self.name}")).collect())

    @property
    def table(self) -> Any:
        return self.lake.catalog.load_table(self.name)

    @property
    def files(self) -> SnapshotFiles:
        return self.lake.warden.ground.files.of(self.table, self.table.current_snapshot())

    @property
    def data(self) -> tuple[LiveFile, ...]:
        return self.files.data

    @property
    def folder(self) -> Path:
        return local(self.table.metadata.location)

    def rows(self, where: str = "", version: str | int = "") -> list[str]:
        """Rows as Spark reads them, in no particular order."""
        at = f" VERSION AS OF {version!r}" if version else ""
        return sorted(map(repr, self.sql(f"SELECT * FROM {{t}}{at}" + (f" WHERE {where}" if where else ""))))

    def answers(self, filters: Sequence[str]) -> dict[str, list[str]]:
        with ThreadPoolExecutor(4) as readers:
            return dict(zip(filters, readers.map(self.rows, filters), strict=True))

    def aggregates(self, columns: Sequence[str]) -> list[str]:
        """What Spark may answer from manifests alone."""
        parts = ", ".join(f"MIN({column}), MAX({column}), COUNT({column})" for column in columns)
        return [repr(self.sql("SELECT COUNT(*)" + (f", {parts}" if parts else "") + " FROM {t}"))]

    def plan(self, **options: Any) -> Any:
        return self.lake.warden.compaction.compact(self.name, **{**REWRITE_ALL, **options})

    def compact(self, **options: Any) -> dict[str, Any]:
        return dict(self.plan(**options).apply().result)

    def compact_and_look(
        self, filters: Sequence[str] = (), aggregates: Sequence[str] = (), route: str = PUBLISH, **options: Any
    ) -> dict[str, Any]:
        """Compact, and see that nothing has changed but the files."""
        head = int(self.table.current_snapshot().snapshot_id)
        rows, answers = self.rows(), {where: self.rows(where) for where in filters}
        assert any(0 < len(found) < len(rows) for found in answers.values()) or not answers, (
            "these filters test nothing"
        )
        sums, layers, then = self.aggregates(aggregates), self.live_rows(), self.rows(version=head)

        planned = self.plan(**options)
        assert {action.route for action in planned.plan.actions} == {route}
        result = dict(planned.apply().result)

        assert self.rows() == rows
        after = self.answers(filters)
        assert [where for where in filters if after[where] != answers[where]] == []
        assert self.aggregates(aggregates) == sums
        assert self.rows(version=head) == then
        assert self.live_rows() == layers
        self.look_at_metadata()
        assert self.plan(**options).is_empty
        (analysis,) = self.lake.warden.compaction.analyze(self.name)
        assert analysis.needs_compaction is False, analysis
        return result

    def live_rows(self) -> dict[Any, int]:
        """Rows by partition spec and values that no position delete masks."""
        found: Counter[Any] = Counter()
        for file in self.data:
            found[file.partition] += file.rows - self.files.masked(file)
        return {partition: rows for partition, rows in found.items() if rows}

    def look_at_metadata(self) -> None:
        """The newest snapshot takes nothing from readers, tells true totals, and leaves nothing lying about."""
        snapshot, files = self.table.current_snapshot(), self.files
        assert str(snapshot.summary.operation.value) == "replace"
        told = {key: int(value) for key, value in snapshot.summary.additional_properties.items() if "total" in key}
        positions = [delete for delete in files.deletes if not delete.is_equality]
        assert told == {
            "total-data-files": len(files.data),
            "total-delete-files": len(files.deletes),
            "total-records": sum(file.rows for file in files.data),
            "total-files-size": sum(file.bytes for file in files.data) + sum(file.bytes for file in files.deletes),
            "total-position-deletes": sum(delete.rows for delete in positions),
            "total-equality-deletes": sum(delete.rows for delete in files.deletes if delete.is_equality),
        }
        assert self.unreached() == set()

    def delete_by_equality(self, ids: Sequence[int]) -> None:
        """Commit an equality delete on the column id, as Flink would; Spark writes none."""
        import pyarrow as pa

        spec = unpartitioned(self.table)
        rows = column_of("id", pa.int64(), 1, ids)
        commit_deletes(self.table, equality_deletes(self.table, rows, [1], spec))

    def unreached(self) -> set[str]:
        """Files in the table's folder that its metadata does not reference; what it references must be there."""
        table = self.table
        needed = {table.metadata_location} | {entry.metadata_file for entry in table.metadata.metadata_log}
        for snapshot in table.metadata.snapshots:
            needed.add(snapshot.manifest_list)
            for manifest in snapshot.manifests(table.io):
                needed.add(manifest.manifest_path)
                needed |= {entry.data_file.file_path for entry in read_entries(table.io, manifest)}
        paths = {local(file) for file in needed}
        assert [path for path in paths if not path.is_file()] == []
        found = {path for path in self.folder.rglob("*") if path.is_file() and not path.name.endswith(".crc")}
        return {str(path.relative_to(self.folder)) for path in found - paths} - {MARK}


def local(location: str) -> Path:
    return Path(unquote(urlsplit(location).path))
