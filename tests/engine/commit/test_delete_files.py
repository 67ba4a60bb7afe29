"""Position deletes that are added to a branch and taken away again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.transforms import IdentityTransform

from lakewarden.engine.commit.delete_files import Mask, Unmask
from lakewarden.engine.files.live_files import DeleteFile, Files, SnapshotFiles
from lakewarden.engine.files.manifests import Manifests
from lakewarden.engine.rows.position_deletes import (
    file_name,
    is_hide,
    named_positions,
    served_requests,
    write,
    write_rows,
)
from lakewarden.errors import BrokenTable, Conflict, StalePlan
from lakewarden.lifecycle.failpoints import when
from tests.engine.lakes import STAMP, Lake, lake, local
from tests.entries import listed
from tests.steps import steps

__all__ = ["lake"]
REQUEST = "er-20261115-101112-ab12cd"


@pytest.fixture
def numbers(lake: Lake) -> Lake:
    """A table of two files with the ids 0 to 9, and a branch beside main."""
    table = lake.create("db.numbers", appends=0)
    table.append(pa.table({"id": range(5)}))
    table.append(pa.table({"id": range(5, 10)}))
    table.manage_snapshots().create_branch(table.current_snapshot().snapshot_id, "dev").commit()
    return lake


def files_of(lake: Lake, branch: str = "main") -> SnapshotFiles:
    table = lake.table("db.numbers")
    return Files(Manifests()).of(table, table.snapshot_by_name(branch))


def ids(lake: Lake, branch: str = "main") -> list[int]:
    table = lake.table("db.numbers")
    return sorted(table.scan(snapshot_id=table.snapshot_by_name(branch).snapshot_id).to_arrow()["id"].to_pylist())


def masking(lake: Lake, positions: Mapping[int, list[int]], branch: str = "main", number: int = 0) -> Mask:
    """A mask for rows of files, by the place of each file in the order in which they were written."""
    table, live = lake.table("db.numbers"), sorted(files_of(lake, branch).data, key=lambda file: file.sequence)
    chosen = {live[place]: at for place, at in positions.items()}
    path = f"{table.metadata.location}/data/{file_name(STAMP, 'aa', number)}"
    added = write(table.io, path, {file.path: at for file, at in chosen.items()}, next(iter(chosen)), [REQUEST])
    inputs = {file.path: file.deletes_identity for file in chosen}
    return Mask("main.db.numbers", str(table.metadata.table_uuid), (added,), inputs, branch)


def unmasking(lake: Lake, *paths: str) -> Unmask:
    return Unmask("main.db.numbers", str(lake.table("db.numbers").metadata.table_uuid), dict.fromkeys(paths))


def test_rows_are_hidden_on_one_branch_and_seen_again(numbers: Lake) -> None:
    before = numbers.table("db.numbers").metadata
    change = masking(numbers, {1: [3, 0], 0: [2]})
    made = numbers.direct.publish(change)
    after = numbers.table("db.numbers").metadata
    head = after.snapshot_by_id(made)
    assert (after.current_snapshot_id, head.parent_snapshot_id) == (made, before.current_snapshot_id)
    assert ids(numbers) == [0, 1, 3, 4, 6, 7, 9]
    assert ids(numbers, "dev") == [*range(10)]
    told = head.summary.additional_properties
    assert head.summary.operation.value == "delete"
    assert (told["added-position-deletes"], told["total-delete-files"], told["total-records"]) == ("3", "1", "10")
    assert told["lakewarden.operation"] == STAMP.operation
    (delete,) = files_of(numbers).deletes
    assert (delete.sequence, delete.rows) == (head.sequence_number, 3)
    assert served_requests(delete.path, files_of(numbers).opened) == {REQUEST}
    assert numbers.direct.publish(unmasking(numbers, delete.path)) == 1
    assert ids(numbers) == [*range(10)]
    last = numbers.table("db.numbers").current_snapshot()
    assert last.summary.operation.value == "overwrite"
    assert last.summary.additional_properties["removed-position-deletes"] == "3"
    assert last.summary.additional_properties["total-delete-files"] == "0"
    assert numbers.direct.publish(unmasking(numbers, delete.path)) == 0


def test_a_file_of_deletes_is_as_iceberg_has_them(numbers: Lake) -> None:
    change = masking(numbers, {1: [3, 0, 2], 0: [2]})
    file = change.added[0].file
    read = pq.read_table(local(file.file_path))
    paths = [path.split("/data/")[1] for path in read["file_path"].to_pylist()]
    assert paths == sorted(paths)
    assert sorted(read["pos"].to_pylist()) == [0, 2, 2, 3]
    assert [(f.name, f.nullable, f.metadata[b"PARQUET:field_id"]) for f in read.schema] == [
        ("file_path", False, b"2147483546"),
        ("pos", False, b"2147483545"),
    ]
    assert file.file_size_in_bytes == local(file.file_path).stat().st_size
    numbers.direct.publish(change)
    (delete,) = files_of(numbers).deletes
    assert delete.only_for is None
    one = min(change.inputs)
    assert set(named_positions(numbers.warden.ground.storage("main"), delete, [one])) == {one}


def test_one_for_a_single_data_file_says_so(numbers: Lake) -> None:
    """Engines open it only where they read that data file; as some tell it by bounds and some by name, both do."""
    change = masking(numbers, {1: [0]})
    numbers.direct.publish(change)
    (delete,) = files_of(numbers).deletes
    (only,) = change.inputs
    file = listed(delete)
    assert delete.only_for == only == file._data[17]
    assert file.lower_bounds == file.upper_bounds == {2147483546: only.encode()}
    assert ids(numbers) == [0, 1, 2, 3, 4, 6, 7, 8, 9]


def test_all_branches_get_their_rows_back_in_one_commit(numbers: Lake) -> None:
    table = numbers.table("db.numbers")
    numbers.direct.publish(masking(numbers, {0: [0]}))
    numbers.direct.publish(masking(numbers, {0: [0, 1]}, "dev", number=1))
    table.refresh()
    at_main = table.current_snapshot().snapshot_id
    table.manage_snapshots().create_branch(at_main, "copy", max_ref_age_ms=10**12).create_tag(at_main, "v1").commit()
    paths = {delete.path for branch in ("main", "dev") for delete in files_of(numbers, branch).deletes}
    count = len(numbers.metadata_files("db.numbers"))
    assert numbers.direct.publish(unmasking(numbers, *paths)) == 3
    assert len(numbers.metadata_files("db.numbers")) == count + 1
    assert ids(numbers) == ids(numbers, "dev") == ids(numbers, "copy") == [*range(10)]
    assert ids(numbers, "v1") == [*range(1, 10)]
    metadata = numbers.table("db.numbers").metadata
    assert metadata.refs["copy"].snapshot_id == metadata.refs["main"].snapshot_id
    assert metadata.refs["copy"].max_ref_age_ms == 10**12
    sequences = [snapshot.sequence_number for snapshot in metadata.snapshots]
    assert len(set(sequences)) == len(sequences) and max(sequences) == metadata.last_sequence_number
    numbers.append("db.numbers")  # whatever comes next has a number of its own
    assert ids(numbers) == sorted([*range(10), 1, 2])


def test_only_some_deletes_of_a_manifest_go(numbers: Lake) -> None:
    first, second = masking(numbers, {0: [0]}), masking(numbers, {1: [0]}, number=1)
    numbers.direct.publish(
        Mask(first.table, first.uuid, (*first.added, *second.added), {**first.inputs, **second.inputs})
    )
    assert ids(numbers) == [1, 2, 3, 4, 6, 7, 8, 9]
    before = {delete.path: delete.sequence for delete in files_of(numbers).deletes}
    numbers.direct.publish(unmasking(numbers, first.added[0].file.file_path))
    assert ids(numbers) == [0, 1, 2, 3, 4, 6, 7, 8, 9]
    (kept,) = files_of(numbers).deletes
    assert (kept.path, kept.sequence) == (second.added[0].file.file_path, before[kept.path])


class TestOthersMeanwhile:
    def test_an_append_is_kept(self, numbers: Lake) -> None:
        change = masking(numbers, {0: [0]})
        passed = when("commit.ready", lambda: numbers.append("db.numbers"))
        numbers.direct.publish(change)
        assert len(passed) == 2
        assert ids(numbers) == sorted([*range(1, 10), 1, 2])
        left = [p.name for p in (local(numbers.table("db.numbers").metadata.location) / "metadata").glob("lw-*.avro")]
        assert len(left) == 2  # what was written for the attempt that lost is gone

    def test_a_file_that_was_written_anew_is_refused(self, numbers: Lake) -> None:
        change = masking(numbers, {0: [0], 1: [0]})
        when("commit.ready", lambda: numbers.table("db.numbers").delete("id = 3"))
        with pytest.raises(StalePlan, match="1 of the files on branch main"):
            numbers.direct.publish(change)
        assert ids(numbers) == [0, 1, 2, *range(4, 10)]

    def test_more_deletes_on_a_file_do_not_matter_and_fewer_do(self, numbers: Lake) -> None:
        first = masking(numbers, {0: [0]})
        numbers.direct.publish(first)
        knowing = masking(numbers, {0: [1]}, number=1)  # it leaves out what the first masks
        numbers.direct.publish(masking(numbers, {0: [2]}, number=2))
        numbers.direct.publish(knowing)
        assert ids(numbers) == [*range(3, 10)]
        other = masking(numbers, {0: [3]}, number=3)
        numbers.direct.publish(unmasking(numbers, first.added[0].file.file_path))
        with pytest.raises(StalePlan):
            numbers.direct.publish(other)
        assert ids(numbers) == [0, *range(3, 10)]

    def test_a_branch_that_moves_while_rows_come_back(self, numbers: Lake) -> None:
        numbers.direct.publish(masking(numbers, {0: [0]}))
        numbers.direct.publish(masking(numbers, {0: [1]}, "dev", number=1))
        paths = {delete.path for branch in ("main", "dev") for delete in files_of(numbers, branch).deletes}
        passed = when("commit.ready", lambda: numbers.append("db.numbers"))
        assert numbers.direct.publish(unmasking(numbers, *paths)) == 2
        assert len(passed) == 2
        assert ids(numbers) == sorted([*range(10), 1, 2])
        assert ids(numbers, "dev") == [*range(10)]


def test_each_partition_spec_has_a_manifest_of_its_own(lake: Lake) -> None:
    table = lake.create("db.numbers", appends=0)
    table.append(pa.table({"id": range(4)}))
    with table.update_spec() as spec:
        spec.add_field("id", IdentityTransform(), "same")
    table.append(pa.table({"id": [7, 8, 8]}))
    live = {file.path: file for file in files_of(lake).data}
    changes = []
    for number, file in enumerate(live.values()):
        path = f"{table.metadata.location}/data/{file_name(STAMP, 'bb', number)}"
        changes.append(write(table.io, path, {file.path: [0]}, file))
    inputs = {path: file.deletes_identity for path, file in live.items()}
    lake.direct.publish(Mask("main.db.numbers", str(table.metadata.table_uuid), tuple(changes), inputs))
    found = files_of(lake)
    assert len([m for m in found.manifests if m.content == 1]) == 2
    assert {file.path: len(file.deletes) for file in found.data} == dict.fromkeys(live, 1)
    assert ids(lake) == [1, 2, 3, 8]


def test_many_hides_leave_few_manifests(numbers: Lake) -> None:
    """Each added a manifest of its own, and every scan reads them all."""
    for number in range(20):
        numbers.direct.publish(masking(numbers, {number % 2: [number % 5]}, number=number))
    found = files_of(numbers)
    assert len(found.deletes) == 20 and ids(numbers) == []
    assert len([manifest for manifest in found.manifests if manifest.content == 1]) <= 8
    sequences = [delete.sequence for delete in sorted(found.deletes, key=lambda delete: delete.sequence)]
    assert len(set(sequences)) == 20 and sequences[-1] == numbers.table("db.numbers").metadata.last_sequence_number
    assert numbers.direct.publish(unmasking(numbers, *(delete.path for delete in found.deletes))) == 1
    assert ids(numbers) == [*range(10)]


def test_format_v1_has_no_deletes(lake: Lake) -> None:
    table = lake.create("db.numbers", appends=1, **{"format-version": "1"})
    with pytest.raises(Conflict, match="format v1") as caught:
        lake.direct.publish(masking(lake, {0: [0]}))
    assert "upgrade" in caught.value.hint
    assert lake.refs("db.numbers")["main"] == table.current_snapshot().snapshot_id


def test_names_tell_which_files_hide_rows() -> None:
    name = file_name(STAMP, "0123abcd", 7)
    assert is_hide(f"s3://bucket/t/data/{STAMP.file_prefix}/{name}")
    assert not is_hide(f"s3://bucket/t/data/{STAMP.file_prefix}/00000-0.parquet")
    assert not is_hide(f"s3://bucket/{REQUEST}/data/x-hide-deletes.parquet")


@pytest.mark.parametrize("form", ["many files", "many rows"])
def test_what_is_written_is_in_order_and_in_few_groups(numbers: Lake, form: str) -> None:
    """Iceberg asks for the order of paths as bytes, then of positions; the order in which they come is any."""
    table, like = numbers.table("db.numbers"), files_of(numbers).data[0]
    if form == "many files":
        positions = {f"s3://b/é{number}" if number % 2 else f"s3://b/z{number}": {3, 1} for number in range(3000)}
    else:
        positions = {"s3://b/z": set(range(300_000)), "s3://b/a": {5}}
    path = f"{table.metadata.location}/data/{file_name(STAMP, 'cc', 0)}"
    added = write(table.io, path, positions, like).file
    found = pq.ParquetFile(local(path))
    rows = list(zip(*(column.to_pylist() for column in found.read()), strict=True))
    assert rows == sorted(
        ((name, at) for name, some in positions.items() for at in some), key=lambda row: (row[0].encode(), row[1])
    )
    assert added.record_count == len(rows) == found.metadata.num_rows
    assert found.num_row_groups == (1 if form == "many files" else 3)
    assert [field.metadata[b"PARQUET:field_id"] for field in found.schema_arrow] == [b"2147483546", b"2147483545"]


def test_many_files_take_no_more_than_their_share(numbers: Lake) -> None:
    """Eight times as many data files take eight times as many steps, not sixty-four times, and one row group."""
    table = numbers.table("db.numbers")

    def taken(names: int) -> int:
        path = f"{table.metadata.location}/data/{names}.parquet"
        runs = {f"s3://b/{number}": [numpy.array([1, 2])] for number in range(names)}
        found = steps(lambda: write_rows(table.io, path, runs))
        assert pq.read_metadata(local(path)).num_row_groups == 1
        return found

    taken(10)
    assert 4 < taken(16_000) / taken(2_000) < 9


@pytest.mark.parametrize("content", [b"", b"damaged", b"PFA1" + b"\0" * 60, None], ids=["empty", "text", "cut", "gone"])
def test_a_vector_that_cannot_be_read_is_told_by_its_name(numbers: Lake, tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "vector.puffin"
    if content is not None:
        path.write_bytes(content)
    (file,) = files_of(numbers).data[:1]
    puffin: Any = {"format": "puffin", "only_for": file.path, "is_equality": False, "is_vector": True}
    vector = DeleteFile("m", f"file://{path}", 64, 1, file.partition, file.record, 9, **puffin)
    with pytest.raises(BrokenTable, match="vector.puffin"):
        named_positions(numbers.warden.ground.storage("main"), vector)
