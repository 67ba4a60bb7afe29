"""A lake's files on a local disk: listed, measured, moved and deleted.

Covers `engine/storage/bulk_result.py`.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lakewarden.config import LakeSettings
from lakewarden.engine.storage.arrow_store import ArrowStore
from lakewarden.engine.storage.storage import Removed, Storage, StoredFile, StoredFiles, Stores
from lakewarden.errors import AlreadyExists, LakeNotFound, LeaseLost, StorageUnavailable
from lakewarden.lifecycle.basics import Stamp
from lakewarden.warden import Workbench
from tests.engine.lakes import open_path, read_only, unfenced
from tests.small_lake import SmallLake

__all__ = ["open_path"]
MOMENT = datetime(2026, 11, 1, 12, 30, tzinfo=UTC)


def stores(folder: Path) -> Stores:
    return Stores(LakeSettings(catalog={"type": "sql", "uri": "sqlite:///none"}, warehouse=f"file://{folder}"))


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage(stores(tmp_path), unfenced)


def put(path: Path, content: str = "x") -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    os.utime(path, (MOMENT.timestamp(), MOMENT.timestamp()))
    return f"file://{path}"


class TestWalk:
    def test_every_file_with_its_size_and_age_spelled_as_the_place_is(self, storage: Storage, tmp_path: Path) -> None:
        put(tmp_path / "t/data/city=Bern/a.parquet", "abc")
        put(tmp_path / "t/data/city=Chur/day=1/b.parquet", "")
        put(tmp_path / "t/metadata/v1.metadata.json", "{}")
        put(tmp_path / "u/c.parquet")
        for top in (f"file://{tmp_path}/t", f"file:{tmp_path}/t/", f"{tmp_path}/t"):
            base = top.rstrip("/")
            assert sorted(storage.walk(top), key=lambda file: file.path) == [
                StoredFile(f"{base}/data/city=Bern/a.parquet", 3, MOMENT),
                StoredFile(f"{base}/data/city=Chur/day=1/b.parquet", 0, MOMENT),
                StoredFile(f"{base}/metadata/v1.metadata.json", 2, MOMENT),
            ]

    def test_a_folder_that_is_not_there_holds_nothing(self, storage: Storage, tmp_path: Path) -> None:
        assert list(storage.walk(f"file://{tmp_path}/none")) == []
        put(tmp_path / "file")
        assert list(storage.walk(f"file://{tmp_path}/file")) == []

    def test_folders_right_below_can_be_left_out(self, storage: Storage, tmp_path: Path) -> None:
        put(tmp_path / "t/_lakewarden/quarantine/a")
        kept = put(tmp_path / "t/data/_lakewarden/b")
        assert [file.path for file in storage.walk(f"file://{tmp_path}/t", ["_lakewarden"])] == [kept]

    def test_links_are_neither_followed_nor_listed(self, storage: Storage, tmp_path: Path) -> None:
        real = put(tmp_path / "t/data/a")
        put(tmp_path / "elsewhere/b")
        (tmp_path / "t/linked").symlink_to(tmp_path / "elsewhere")
        (tmp_path / "t/data/c").symlink_to(tmp_path / "elsewhere/b")
        assert [file.path for file in storage.walk(f"file://{tmp_path}/t")] == [real]

    def test_names_that_are_no_text_are_left_out(self, storage: Storage, tmp_path: Path) -> None:
        kept = put(tmp_path / "t/ü €.parquet")
        Path(os.fsdecode(os.fsencode(tmp_path / "t") + b"/\xff")).write_text("x")
        assert [file.path for file in storage.walk(f"file://{tmp_path}/t")] == [kept]

    def test_many_folders_in_folders(self, storage: Storage, tmp_path: Path) -> None:
        expected = {
            put(tmp_path / f"t/a={a}/b={b}/{n}.parquet") for a in range(20) for b in range(20) for n in range(3)
        }
        found = [file.path for file in storage.walk(f"file://{tmp_path}/t")]
        assert len(found) == len(expected) and set(found) == expected

    def test_a_folder_that_cannot_be_read_is_told(self, open_path: Path) -> None:
        put(open_path / "t/data/a")
        (open_path / "t/data").chmod(0)
        with read_only(open_path), pytest.raises(StorageUnavailable, match="Permission denied"):
            list(StoredFiles(stores(open_path)).walk(f"file://{open_path}/t"))
        (open_path / "t/data").chmod(0o755)

    def test_arrow_lists_the_same(self, storage: Storage, tmp_path: Path) -> None:
        from pyarrow.fs import LocalFileSystem

        put(tmp_path / "t/data/city=Bern/a.parquet", "abc")
        put(tmp_path / "t/metadata/b", "")
        put(tmp_path / "t/_lakewarden/c", "")
        top = f"file://{tmp_path}/t"
        arrow = ArrowStore(LocalFileSystem())
        assert set(arrow.walk(top, ["_lakewarden"])) == set(storage.walk(top, ["_lakewarden"]))
        assert list(arrow.walk(f"{top}/none", ())) == []


class TestLook:
    def test_sizes(self, storage: Storage, tmp_path: Path) -> None:
        three, none = put(tmp_path / "a", "abc"), f"file://{tmp_path}/none"
        assert storage.sizes([three, none, f"file://{tmp_path}"]) == {three: 3, none: None, f"file://{tmp_path}": None}
        assert storage.look([three]) == {three: StoredFile(three, 3, MOMENT)}

    def test_many_at_once(self, storage: Storage, tmp_path: Path) -> None:
        places = [put(tmp_path / f"{n}", "x" * n) for n in range(0, 2500, 100)]
        assert storage.sizes(iter(places * 100)) == dict(zip(places, range(0, 2500, 100), strict=True))

    def test_the_beginning_of_a_file(self, storage: Storage, tmp_path: Path) -> None:
        place = put(tmp_path / "a", "abcdef")
        assert storage.read(place) == b"abcdef"
        assert storage.read(place, 2) == b"ab"

    def test_names_right_below(self, storage: Storage, tmp_path: Path) -> None:
        put(tmp_path / "t/a")
        put(tmp_path / "t/b/c")
        assert sorted(storage.list(f"file://{tmp_path}/t")) == ["a", "b"]
        assert storage.list(f"file://{tmp_path}/none") == []

    def test_a_local_lake_renames(self, storage: Storage, tmp_path: Path) -> None:
        assert storage.renames(str(tmp_path))


class TestDelete:
    def test_what_was_really_freed(self, storage: Storage, tmp_path: Path) -> None:
        places = [put(tmp_path / "a", "abc"), put(tmp_path / "b", "de"), f"file://{tmp_path}/none"]
        told: list[tuple[int, int]] = []

        removed = storage.delete_all(places, lambda done, total: told.append((done, total)))

        assert removed == Removed(files=2, bytes=5, missing=1)
        assert list(tmp_path.iterdir()) == []
        assert told == [(3, 3)]
        assert storage.delete_all(places) == Removed(missing=3)

    def test_one_that_cannot_be_deleted_does_not_hold_up_the_others(self, open_path: Path) -> None:
        kept, gone = put(open_path / "kept/a", "abc"), put(open_path / "open/b", "de")
        (open_path / "open").chmod(0o777)
        with read_only(open_path / "kept"):
            removed = Storage(stores(open_path), unfenced).delete_all([kept, gone])
        assert removed == Removed(files=1, bytes=2, failed=((kept, "Permission denied"),))
        assert (open_path / "kept/a").is_file()

    def test_one_that_cannot_even_be_looked_at_does_not_hold_up_the_others(self, open_path: Path) -> None:
        hidden, gone = put(open_path / "closed/a"), put(open_path / "open/b", "de")
        (open_path / "open").chmod(0o777)
        (open_path / "closed").chmod(0)
        with read_only(open_path):
            removed = Storage(stores(open_path), unfenced).delete_all([hidden, gone])
        (open_path / "closed").chmod(0o755)
        assert (removed.files, removed.bytes, removed.missing) == (1, 2, 0)
        assert [place for place, _ in removed.failed] == [hidden]

    def test_whoever_lost_its_lease_deletes_nothing_more(self, tmp_path: Path) -> None:
        looks = 0

        def fence() -> None:
            nonlocal looks
            looks += 1
            if looks > 1:
                raise LeaseLost("taken over")

        places = [put(tmp_path / f"{n}") for n in range(1500)]
        with pytest.raises(LeaseLost):
            Storage(stores(tmp_path), fence).delete_all(places)
        assert len(list(tmp_path.iterdir())) == 500


class TestMove:
    def test_keeps_content_and_age_and_makes_folders(self, storage: Storage, tmp_path: Path) -> None:
        source, target = put(tmp_path / "a", "abc"), f"file://{tmp_path}/new/folder/b"
        assert storage.move(source, target)
        assert storage.look([source, target]) == {source: None, target: StoredFile(target, 3, MOMENT)}
        assert storage.move(source, target)  # again: it is there
        assert not storage.move(source, f"file://{tmp_path}/neither")

    def test_never_over_another_file(self, storage: Storage, tmp_path: Path) -> None:
        source = put(tmp_path / "a", "abc")
        for other in ("abd", "abcd"):
            target = put(tmp_path / "b", other)
            with pytest.raises(AlreadyExists, match="differs from the file"):
                storage.move(source, target)
            assert (tmp_path / "a").read_text() == "abc"
            assert (tmp_path / "b").read_text() == other

    def test_a_move_that_stopped_halfway(self, storage: Storage, tmp_path: Path) -> None:
        source = put(tmp_path / "a", "abc")
        os.link(tmp_path / "a", tmp_path / "b")
        assert storage.move(source, f"file://{tmp_path}/b")
        assert [path.name for path in tmp_path.iterdir()] == ["b"]

    def test_to_another_disk(self, storage: Storage, tmp_path: Path) -> None:
        """Where a disk cannot link or rename: it is copied whole, and then gone."""
        memory = Path("/dev/shm")
        if not memory.is_dir() or memory.stat().st_dev == tmp_path.stat().st_dev:
            pytest.skip("there is no other disk here")
        target = memory / f"lakewarden-test-{os.getpid()}"
        try:
            assert storage.move(put(tmp_path / "a", "abc"), f"file://{target}")
            assert target.read_text() == "abc"
            assert not (tmp_path / "a").exists()
            assert target.stat().st_mtime == MOMENT.timestamp()
        finally:
            target.unlink(missing_ok=True)

    def test_many(self, storage: Storage, tmp_path: Path) -> None:
        moves = [(put(tmp_path / f"a/{n}", "x" * n), f"file://{tmp_path}/b/{n}") for n in range(10)]
        put(tmp_path / "b/3", "another")
        (tmp_path / "a/7").unlink()

        moved = storage.move_all(moves)

        assert (moved.files, moved.bytes) == (8, sum(range(10)) - 3 - 7)
        assert moved.missing == (f"file://{tmp_path}/a/7",)
        ((place, why),) = moved.failed
        assert place == f"file://{tmp_path}/a/3" and "exists already" in why
        assert (tmp_path / "b/3").read_text() == "another"

    def test_whoever_lost_its_lease_moves_nothing(self, tmp_path: Path) -> None:
        def fence() -> None:
            raise LeaseLost("taken over")

        storage = Storage(stores(tmp_path), fence)
        with pytest.raises(LeaseLost):
            storage.move_all([(put(tmp_path / "a"), f"file://{tmp_path}/b")])
        with pytest.raises(LeaseLost):
            storage.write(f"file://{tmp_path}/c", b"")
        assert [path.name for path in tmp_path.iterdir()] == ["a"]


class TestWrite:
    def test_whole_or_not_at_all(self, storage: Storage, tmp_path: Path) -> None:
        place = f"file://{tmp_path}/a"
        storage.write(place, b"one")
        storage.write(place, b"two")
        assert storage.read(place) == b"two"
        assert [path.name for path in tmp_path.iterdir()] == ["a"]

    def test_folders_go_when_nothing_is_in_them(self, storage: Storage, tmp_path: Path) -> None:
        put(tmp_path / "a/b")
        storage.make_folder(f"file://{tmp_path}/c/d")
        for folder in ("a", "c/d", "c", "none"):
            storage.remove_empty_folder(f"file://{tmp_path}/{folder}")
        assert [path.name for path in tmp_path.iterdir()] == ["a"]


class TestWhoMayChangeWhat:
    def test_a_reader_has_nothing_to_change_files_with(self, tmp_path: Path) -> None:
        with SmallLake(tmp_path) as lake:
            reading = lake.warden.ground.storage("main")
            assert type(reading) is StoredFiles
            changing = {name for name in dir(Storage) if not name.startswith("_")} - set(dir(reading))
            assert changing >= {"write", "delete", "delete_all", "move", "move_all", "make_folder"}
            with pytest.raises(LakeNotFound):
                lake.warden.ground.storage("other")

    def test_what_an_action_changes_is_behind_its_fence(self, tmp_path: Path) -> None:
        def fence() -> None:
            raise LeaseLost("taken over")

        with SmallLake(tmp_path / "lake") as lake:
            writing = Workbench(lake.warden.ground, Stamp("op", "action", "me"), fence, lambda *_: None).storage("main")
            with pytest.raises(LeaseLost):
                writing.delete_all([put(tmp_path / "a")])
        assert (tmp_path / "a").is_file()
