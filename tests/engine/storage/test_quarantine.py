"""Where files wait before they are deleted: taken away, brought back or deleted, and gone on with from anywhere."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lakewarden.config import LakeSettings
from lakewarden.engine.storage.quarantine import Batch, QuarantinedFile, batches, discard, find, restore, stash
from lakewarden.engine.storage.storage import Moved, Removed, Storage, Stores
from lakewarden.errors import AlreadyExists, BadValue, BrokenTable, LeaseLost
from tests.engine.lakes import digest, unfenced

MADE = datetime(2026, 11, 15, 10, tzinfo=UTC)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table's folder, with five files that are to leave it and one that stays."""
    for number in range(5):
        path = tmp_path / f"t/data/p={number % 2}/same-name.parquet" if number < 2 else tmp_path / f"t/data/{number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * number)
    (tmp_path / "t/data/stays").write_text("here")
    return tmp_path / "t"


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return _storage(tmp_path)


def _storage(folder: Path) -> Storage:
    settings = LakeSettings(catalog={"type": "sql", "uri": "sqlite:///none"}, warehouse=f"file://{folder}")
    return Storage(Stores(settings), unfenced)


def batch_of(table: Path, id: str = "op-1-a") -> Batch:
    leaving = sorted(path for path in table.rglob("*") if path.is_file() and path.name != "stays")
    return Batch(
        id=id,
        location=f"file://{table}",
        table="main.sales.orders",
        uuid="7c2f",
        operation="op-1",
        reason="orphan",
        made_at=MADE,
        delete_after=MADE + timedelta(days=7),
        files=tuple(QuarantinedFile(f"file://{path}", path.stat().st_size, "data") for path in leaving),
    )


def left(table: Path) -> list[str]:
    """What is in the table's folder besides the quarantine."""
    found = (path.relative_to(table) for path in table.rglob("*") if path.is_file())
    return sorted(str(path) for path in found if path.parts[0] != "_lakewarden")


def test_taken_away_with_a_record_of_where_from(storage: Storage, table: Path) -> None:
    batch = batch_of(table)

    assert stash(storage, batch) == Moved(files=5, bytes=10)

    assert left(table) == ["data/stays"]
    (found,) = batches(storage, f"file://{table}")
    assert replace(found, files=()) == replace(batch, files=())
    assert [replace(file, name="") for file in found.files] == list(batch.files)
    names = [file.name for file in found.files]
    assert names == ["000001-2", "000002-3", "000003-4", "000004-same-name.parquet", "000005-same-name.parquet"]
    record = json.loads((table / "_lakewarden/quarantine/op-1-a/batch.json").read_text())
    assert record["version"] == 1 and record["delete_after"] == "2026-11-22T10:00:00Z"
    assert record["files"][0] == {"path": f"file://{table}/data/2", "bytes": 2, "kind": "data", "name": "000001-2"}


def test_brought_back_as_it_was(storage: Storage, table: Path) -> None:
    before = digest(table)
    stash(storage, batch_of(table))

    assert restore(storage, batches(storage, f"file://{table}")[0]) == Moved(files=5, bytes=10)

    assert digest(table) == before
    assert not (table / "_lakewarden").exists()


def test_deleted_for_good(storage: Storage, table: Path) -> None:
    stash(storage, batch_of(table))

    assert discard(storage, batches(storage, f"file://{table}")[0]) == Removed(files=5, bytes=10)

    assert left(table) == ["data/stays"]
    assert not (table / "_lakewarden").exists()


def test_what_the_record_does_not_list_is_not_deleted(storage: Storage, table: Path) -> None:
    stash(storage, batch_of(table))
    strange = table / "_lakewarden/quarantine/op-1-a/files/somebody-else's"
    strange.write_text("x")
    discard(storage, batches(storage, f"file://{table}")[0])
    assert strange.is_file()


@pytest.mark.parametrize("moved", range(6))
def test_taken_away_again_after_it_stopped_anywhere(storage: Storage, table: Path, moved: int) -> None:
    batch = batch_of(table)
    stash(storage, batch)
    (recorded,) = batches(storage, f"file://{table}")
    for file in recorded.files[moved:]:  # as if it had stopped after so many
        storage.move(recorded.place(file), file.path)
    if moved:  # and in the middle of one
        one = recorded.files[moved - 1]
        os.link(recorded.place(one).removeprefix("file://"), one.path.removeprefix("file://"))

    assert stash(storage, batch) == Moved(files=5, bytes=10)

    assert left(table) == ["data/stays"]
    assert batches(storage, f"file://{table}") == [recorded]


def test_only_what_is_asked_for_now_is_moved_then(storage: Storage, table: Path) -> None:
    """A file that was recorded, and may no longer go when the work is taken up again."""
    batch = batch_of(table)
    stash(storage, batch)
    (recorded,) = batches(storage, f"file://{table}")
    for file in recorded.files[2:]:
        storage.move(recorded.place(file), file.path)
    needed = recorded.files[4]

    again = stash(storage, replace(batch, files=tuple(f for f in batch.files if f.path != needed.path)))

    assert again.files == 4
    assert sorted(left(table)) == sorted(["data/stays", needed.path.removeprefix(f"file://{table}/")])


def test_files_can_be_added_to_a_batch(storage: Storage, table: Path) -> None:
    batch = batch_of(table)
    stash(storage, replace(batch, files=batch.files[:3]))
    assert stash(storage, replace(batch, files=batch.files[2:])) == Moved(files=5, bytes=10)
    (found,) = batches(storage, f"file://{table}")
    assert len({file.name for file in found.files}) == len(found.files) == 5
    assert left(table) == ["data/stays"]


@pytest.mark.parametrize("back", range(6))
def test_brought_back_again_after_it_stopped_anywhere(storage: Storage, table: Path, back: int) -> None:
    before = digest(table)
    stash(storage, batch_of(table))
    (recorded,) = batches(storage, f"file://{table}")
    for file in recorded.files[:back]:
        storage.move(recorded.place(file), file.path)

    assert restore(storage, recorded).files == 5

    assert digest(table) == before


@pytest.mark.parametrize("gone", range(6))
def test_deleted_again_after_it_stopped_anywhere(storage: Storage, table: Path, gone: int) -> None:
    stash(storage, batch_of(table))
    (recorded,) = batches(storage, f"file://{table}")
    storage.delete_all([recorded.place(file) for file in recorded.files[:gone]])

    removed = discard(storage, recorded)

    assert (removed.files, removed.missing) == (5 - gone, gone)
    assert not (table / "_lakewarden").exists()


@pytest.mark.parametrize("content", [b"xxx", b"yy"])
def test_never_over_a_file_that_is_there_again(storage: Storage, table: Path, content: bytes) -> None:
    stash(storage, batch_of(table))
    (recorded,) = batches(storage, f"file://{table}")
    (table / "data/2").write_bytes(content)  # of another size, and of the same

    with pytest.raises(AlreadyExists, match="1 of 5 files .* another file is at .*/data/2 now"):
        restore(storage, recorded)

    assert (table / "data/2").read_bytes() == content
    assert left(table) == ["data/2", "data/stays"]
    assert batches(storage, f"file://{table}") == [recorded]
    (table / "data/2").unlink()
    assert restore(storage, recorded).files == 5


def test_a_file_that_is_nowhere_is_told_and_the_others_come_back(storage: Storage, table: Path) -> None:
    stash(storage, batch_of(table))
    (recorded,) = batches(storage, f"file://{table}")
    storage.delete(recorded.place(recorded.files[0]))

    with pytest.raises(BrokenTable, match="1 of 5 files of batch op-1-a are neither"):
        restore(storage, recorded)

    assert len(left(table)) == 5
    assert batches(storage, f"file://{table}") == [recorded]


def test_nothing_to_take_away_leaves_no_trace(storage: Storage, table: Path) -> None:
    assert stash(storage, replace(batch_of(table), files=())) == Moved()
    assert not (table / "_lakewarden").exists()


def test_whoever_lost_its_lease_writes_no_record(table: Path) -> None:
    def fence() -> None:
        raise LeaseLost("taken over")

    storage = Storage(_storage(table.parent)._stores, fence)
    with pytest.raises(LeaseLost):
        stash(storage, batch_of(table))
    assert len(left(table)) == 6
    assert batches(storage, f"file://{table}") == []


def test_long_names_are_cut(storage: Storage, table: Path) -> None:
    (table / "data" / ("ä" * 127)).write_text("long")
    before = digest(table)
    stash(storage, batch_of(table))
    (recorded,) = batches(storage, f"file://{table}")
    restore(storage, recorded)
    assert digest(table) == before


def test_an_id_is_a_name_and_not_a_path(storage: Storage, table: Path) -> None:
    for id in ("../../x", "", ".hidden", "a/b"):
        with pytest.raises(BadValue):
            stash(storage, batch_of(table, id))
        with pytest.raises(BadValue):
            find(storage, f"file://{table}", id)


def test_another_tables_batch_of_the_same_id(storage: Storage, table: Path) -> None:
    batch = batch_of(table)
    stash(storage, replace(batch, files=batch.files[:1]))
    with pytest.raises(AlreadyExists):
        stash(storage, replace(batch, uuid="another"))


@pytest.mark.parametrize("content", ["", "{", "[]", '{"version": 1}', "2026"])
def test_a_record_that_cannot_be_read_is_told(storage: Storage, table: Path, content: str) -> None:
    stash(storage, batch_of(table))
    (table / "_lakewarden/quarantine/op-1-a/batch.json").write_text(content)
    with pytest.raises(BrokenTable, match="batch.json cannot be read"):
        batches(storage, f"file://{table}")


@pytest.mark.parametrize("name", ["../../../data/stays", "stays", "", "000001-../../x"])
def test_a_record_cannot_name_files_elsewhere(storage: Storage, table: Path, name: str) -> None:
    """It is a file in the lake like any other: nobody may have a live file deleted by changing it."""
    stash(storage, batch_of(table))
    record = table / "_lakewarden/quarantine/op-1-a/batch.json"
    record.write_text(record.read_text().replace("000001-2", name))
    with pytest.raises(BrokenTable, match="batch.json cannot be read"):
        batches(storage, f"file://{table}")


def test_a_record_of_a_newer_version_is_refused(storage: Storage, table: Path) -> None:
    stash(storage, batch_of(table))
    record = table / "_lakewarden/quarantine/op-1-a/batch.json"
    record.write_text(record.read_text().replace('"version":1', '"version":2'))
    with pytest.raises(BrokenTable, match="newer Lakewarden"):
        batches(storage, f"file://{table}")


def test_batches_come_oldest_first(storage: Storage, table: Path) -> None:
    batch = batch_of(table)
    for number, file in enumerate(batch.files):
        stash(storage, replace(batch, id=f"b{number}", files=(file,), made_at=MADE - timedelta(days=number)))
    assert [found.id for found in batches(storage, f"file://{table}")] == ["b4", "b3", "b2", "b1", "b0"]
