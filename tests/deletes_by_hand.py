"""Deletes that neither Spark nor PyIceberg writes, committed by hand as another writer would."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestEntry,
    ManifestEntryStatus,
    write_manifest_list,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import AddPartitionSpecUpdate, AddSnapshotUpdate, AssertTableUUID, SetSnapshotRefUpdate
from pyiceberg.typedef import Record

from lakewarden.engine.files.manifests import write_entries


def column(name: str, type_: Any, id: int, **options: Any) -> pa.Field:
    """A column with its field id, as files have it."""
    return pa.field(name, type_, metadata={"PARQUET:field_id": str(id)}, **options)


def column_of(name: str, type_: Any, id: int, values: Iterable[Any]) -> pa.Table:
    """Rows of one column."""
    return pa.table([pa.array(values, type_)], schema=pa.schema([column(name, type_, id)]))


def equality_deletes(
    table: Any,
    rows: pa.Table,
    compared: Sequence[int],
    spec_id: int = 0,
    bounds: Mapping[str, Any] | None = None,
    **writing: Any,
) -> DataFile:
    """Write a file that deletes whatever is like one of its rows in the columns compared."""
    path = f"{table.metadata.location}/data/equality-{secrets.token_hex(8)}.parquet"
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, **writing)
    content = sink.getvalue().to_pybytes()
    with table.io.new_output(path).create() as stream:
        stream.write(content)
    file = DataFile.from_args(
        _table_format_version=3,
        content=DataFileContent.EQUALITY_DELETES,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=rows.num_rows,
        file_size_in_bytes=len(content),
        equality_ids=list(compared),
        **(bounds or {}),
    )
    file.spec_id = spec_id
    return file


def unpartitioned(table: Any) -> int:
    """The id of a spec without partitions, made if there is none: its equality deletes are for every file."""
    found = next((id for id, spec in table.metadata.specs().items() if not spec.fields), None)
    if found is None:
        found = 7
        table.catalog.commit_table(table, (), (AddPartitionSpecUpdate(spec=PartitionSpec(spec_id=found)),))
    return int(found)


def commit_deletes(table: Any, file: DataFile, branch: str = "main") -> None:
    """Add one file of deletes to a branch."""
    table = table.refresh()
    metadata, new = table.metadata, table.metadata.new_snapshot_id()
    head, sequence = table.snapshot_by_id(metadata.refs[branch].snapshot_id), metadata.last_sequence_number + 1
    folder = f"{metadata.location}/metadata/{secrets.token_hex(6)}"
    entry = ManifestEntry.from_args(status=ManifestEntryStatus.ADDED, snapshot_id=new, data_file=file)
    manifest = write_entries(metadata, table.io, f"{folder}-m.avro", file.spec_id, new, deletes=True, added=[entry])
    listing = table.io.new_output(f"{folder}-snap.avro")
    with write_manifest_list(2, listing, new, head.snapshot_id, sequence, "deflate") as manifests:
        manifests.add_manifests([manifest, *head.manifests(table.io)])
    snapshot = Snapshot.model_validate(
        {
            "snapshot-id": new,
            "parent-snapshot-id": head.snapshot_id,
            "manifest-list": f"{folder}-snap.avro",
            "sequence-number": sequence,
            "timestamp-ms": metadata.last_updated_ms + 1,
            "schema-id": metadata.current_schema_id,
            "summary": Summary(Operation.DELETE, **_totals(head, file)),
        }
    )
    moved = SetSnapshotRefUpdate.model_validate({"ref-name": branch, "type": "branch", "snapshot-id": new})
    same = AssertTableUUID.model_validate({"uuid": str(metadata.table_uuid)})
    table.catalog.commit_table(table, (same,), (AddSnapshotUpdate(snapshot=snapshot), moved))


def _totals(head: Any, file: DataFile) -> dict[str, str]:
    """What is added, and the version's totals, where the one before told them."""
    kind = "equality" if file.content == DataFileContent.EQUALITY_DELETES else "position"
    more = {
        "total-delete-files": 1,
        "total-files-size": file.file_size_in_bytes,
        f"total-{kind}-deletes": file.record_count,
    }
    before = head.summary.additional_properties
    added = {key.replace("total-", "added-"): str(value) for key, value in more.items()}
    return added | {key: str(int(before[key]) + more.get(key, 0)) for key in before if key.startswith("total-")}
