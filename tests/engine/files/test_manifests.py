"""Manifests: read once, kept within bounds, and written so that every reader understands them.

Covers `engine/base/exact_doubles.py` and `engine/base/kept.py`.
"""

from __future__ import annotations

from functools import partial
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestEntry, ManifestEntryStatus
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record

from lakewarden.engine.base.avro_files import _reader
from lakewarden.engine.files.live_files import _live_files, _Shared
from lakewarden.engine.files.manifests import (
    Manifests,
    partition_key,
    read_entries,
    referenced_data_file,
    schema_for_spec,
    write_entries,
)
from lakewarden.engine.files.manifests import manifests_of as listed
from tests.engine.lakes import Lake, lake, local

__all__ = ["lake"]


def manifests_of(table: Any) -> list[Any]:
    return list(table.current_snapshot().manifests(table.io))


def delete_file(path: str, **told: Any) -> DataFile:
    return DataFile.from_args(
        3,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=5,
        file_size_in_bytes=100,
        **told,
    )


def entry(file: DataFile, sequence: int | None = None, status: Any = ManifestEntryStatus.ADDED) -> ManifestEntry:
    return ManifestEntry.from_args(
        status=status, snapshot_id=7, sequence_number=sequence, file_sequence_number=sequence, data_file=file
    )


class TestReading:
    def test_a_manifest_is_read_once(self, lake: Lake) -> None:
        table = lake.create()
        reader, (newest, *_) = Manifests(), manifests_of(table)
        first = reader.entries(table.io, newest)
        local(newest.manifest_path).unlink()
        assert reader.entries(table.io, newest) is first
        assert [one.data_file.record_count for one in first] == [2]

    def test_a_decoder_is_made_once_for_all_files_of_a_schema(self, lake: Lake) -> None:
        table = lake.create(appends=6)
        _reader.cache_clear()
        found = [
            entry for s in table.metadata.snapshots for m in listed(table.io, s) for entry in read_entries(table.io, m)
        ]
        assert len(found) == 1 + 2 + 3 + 4 + 5 + 6
        assert _reader.cache_info().misses == 2  # of manifests, and of lists of manifests

    def test_what_is_kept_is_bounded(self, lake: Lake) -> None:
        table = lake.create(appends=6)
        one = Manifests()
        (newest, *others) = manifests_of(table)
        one.entries(table.io, newest)
        reader = Manifests(entries_kept=one._entries.weight * 5 // 2, files_kept=2)
        for manifest in (newest, *others):
            reader.entries(table.io, manifest)
            reader.files(table.io, manifest, partial(_live_files, _Shared()))
        assert (len(reader._entries), len(reader._files)) == (2, 2)
        assert reader._files.weight == 2

    def test_entries_inherit_what_their_manifest_says(self, lake: Lake) -> None:
        table = lake.create(appends=3)
        found = [read_entries(table.io, manifest)[0] for manifest in manifests_of(table)]
        assert [one.sequence_number for one in found] == [3, 2, 1]
        assert [one.snapshot_id for one in found] == [s.snapshot_id for s in reversed(table.metadata.snapshots)]

    def test_entries_of_what_went_are_read_only_when_asked_for(self, lake: Lake) -> None:
        table = lake.create(appends=1)
        table.delete("id > 0")
        (manifest,) = manifests_of(lake.table())
        assert read_entries(table.io, manifest) == []
        assert [one.status for one in read_entries(table.io, manifest, live=False)] == [ManifestEntryStatus.DELETED]

    @pytest.mark.parametrize("value", [0.1, 1e308, 5e-324, -0.0, float("inf")])
    def test_partition_values_are_read_exactly(self, lake: Lake, value: float) -> None:
        lake.catalog.create_namespace("db")
        table = lake.catalog.create_table("db.t", pa.schema([("x", pa.float64())]))
        with table.update_spec() as change:
            change.add_field("x", IdentityTransform())
        table.append(pa.table({"x": [value]}))
        (manifest,) = manifests_of(table)
        (found,) = read_entries(table.io, manifest)
        assert repr(found.data_file.partition[0]) == repr(value)


class TestWriting:
    def test_delete_files_with_all_that_they_tell(self, lake: Lake) -> None:
        table = lake.create()
        path = f"{table.metadata.location}/metadata/deletes.avro"
        position = delete_file("d1", content=DataFileContent.POSITION_DELETES, referenced_data_file="data/1.parquet")
        equality = delete_file("d2", content=DataFileContent.EQUALITY_DELETES, equality_ids=[1, 3])
        gone = delete_file("d3", content=DataFileContent.POSITION_DELETES)

        manifest = write_entries(
            table.metadata, table.io, path, 0, 99, True,
            added=[entry(position)], existing=[entry(equality, 4)], removed=[entry(gone, 5)],
        )  # fmt: skip

        assert manifest.content == 1
        counts = (manifest.added_files_count, manifest.existing_files_count, manifest.deleted_files_count)
        assert (counts, manifest.min_sequence_number) == ((1, 1, 1), 4)
        found = {one.data_file.file_path: one for one in read_entries(table.io, manifest, live=False)}
        assert referenced_data_file(found["d1"].data_file) == "data/1.parquet"
        assert found["d2"].data_file.equality_ids == [1, 3]
        assert (found["d2"].snapshot_id, found["d2"].sequence_number) == (7, 4)
        assert (found["d3"].snapshot_id, found["d3"].status) == (99, ManifestEntryStatus.DELETED)

    def test_the_ids_of_equality_columns_are_ints_to_java(self, lake: Lake) -> None:
        import json

        table = lake.create()
        path = f"{table.metadata.location}/metadata/deletes.avro"
        equality = delete_file("d", content=DataFileContent.EQUALITY_DELETES, equality_ids=[1])
        write_entries(table.metadata, table.io, path, 0, 99, True, added=[entry(equality)])
        content = local(path).read_bytes()
        start = (
            content.index(b'{"type": "record"')
            if b'{"type": "record"' in content
            else content.index(b'{"type":"record"')
        )
        schema, _ = json.JSONDecoder().raw_decode(content[start:].decode(errors="replace"))
        file = next(field for field in schema["fields"] if field["name"] == "data_file")["type"]
        fields = {field["name"]: field["type"] for field in file["fields"]}
        (ids,) = [kind for kind in fields["equality_ids"] if kind != "null"]
        assert ids["items"] == "int"
        assert "referenced_data_file" in fields and "content_offset" not in fields

    def test_a_spec_whose_columns_are_gone_is_written_with_the_schema_that_had_them(self, lake: Lake) -> None:
        lake.catalog.create_namespace("db")
        table = lake.catalog.create_table("db.t", pa.schema([("id", pa.int64()), ("part", pa.string())]))
        with table.update_spec() as change:
            change.add_field("part", IdentityTransform())
        table.append(pa.table({"id": [1], "part": ["a"]}))
        with table.update_spec() as change:
            change.remove_field("part")
        with table.update_schema() as schema:
            schema.delete_column("part")
        metadata = lake.table("db.t").metadata
        old = metadata.specs()[1]
        assert "part" not in metadata.schema().column_names
        assert "part" in schema_for_spec(metadata, old).column_names
        (manifest,) = manifests_of(table)
        entries = read_entries(table.io, manifest)
        path = f"{table.metadata.location}/metadata/again.avro"
        again = write_entries(metadata, table.io, path, 1, 99, existing=entries)
        assert [partition_key(one.data_file) for one in read_entries(table.io, again)] == [("a",)]
        (summary,) = again.partitions or []
        assert (summary.lower_bound, summary.upper_bound) == (b"a", b"a")

    @pytest.mark.parametrize(("last", "is_told"), [("10", True), ("7e", False), ("de", False)])
    def test_bounds_of_partitions_by_uuid_are_told_only_where_all_are_the_same(
        self, lake: Lake, last: str, is_told: bool
    ) -> None:
        lake.catalog.create_namespace("db")
        table = lake.catalog.create_table("db.t", pa.schema([("code", pa.uuid())]))
        with table.update_spec() as change:
            change.add_field("code", IdentityTransform())
        entries = [
            entry(DataFile.from_args(file_path=code, file_format=FileFormat.PARQUET, partition=Record(UUID(code)),
                                     record_count=1, file_size_in_bytes=1))
            for code in ("10000000-0000-4000-8000-000000000000", f"{last}000000-0000-4000-8000-000000000000")
        ]  # fmt: skip
        path = f"{table.metadata.location}/metadata/m.avro"
        manifest = write_entries(lake.table("db.t").metadata, table.io, path, 1, 99, added=entries)
        assert (manifest.partitions is not None) is is_told


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (float("nan"), float("nan"), True),
        (0.0, -0.0, False),
        (1.5, 1.5, True),
        (None, None, True),
        ("nan", None, False),
        (0.0, 0.0, True),
    ],
)
def test_partitions_are_told_apart_as_iceberg_does(one: Any, other: Any, same: bool) -> None:
    keys = [partition_key(DataFile.from_args(partition=Record(value))) for value in (one, other)]
    assert (keys[0] == keys[1]) is same
