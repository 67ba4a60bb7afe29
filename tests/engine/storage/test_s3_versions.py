"""Objects in buckets that keep versions, on a real S3 server: listed, read and erased with all that is kept of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakewarden.config import LakeSettings, StorageSettings
from lakewarden.engine.storage import s3_store, s3_versions
from lakewarden.engine.storage.arrow_store import ArrowStore
from lakewarden.engine.storage.storage import Removed, Storage, Stores
from lakewarden.errors import LeaseLost
from lakewarden.lifecycle.basics import Fence
from tests.cases import in_soak
from tests.engine.lakes import unfenced
from tests.services.s3_versions import VersionedS3


def storage(s3: VersionedS3, fence: Fence = unfenced) -> Storage:
    settings = LakeSettings(
        catalog={"type": "sql", "uri": "sqlite:///none"},
        warehouse="s3://none/warehouse",
        storage=StorageSettings(**s3.storage),
    )
    return Storage(Stores(settings), fence)


@pytest.fixture
def bucket(versioned_s3: VersionedS3, tmp_path: Path) -> str:
    return versioned_s3.new_bucket(f"versions-{abs(hash(tmp_path)) % 10**9}")


class TestVersions:
    def test_all_that_is_and_was_there(self, versioned_s3: VersionedS3, bucket: str) -> None:
        place = versioned_s3.put(f"{bucket}/t/data/a b.parquet", b"one")
        versioned_s3.put(place, b"three")
        versioned_s3.delete(place)
        kept = versioned_s3.put(f"{bucket}/t/b", b"x")
        versioned_s3.put(f"{bucket}/t2/other", b"x")
        lake = storage(versioned_s3)

        found = list(lake.versions(f"{bucket}/t"))

        assert {(v.path, v.bytes, v.is_latest, v.is_delete_marker) for v in found} == {
            (place, 3, False, False),
            (place, 5, False, False),
            (place, 0, True, True),
            (kept, 1, True, False),
        }
        assert [file.path for file in lake.walk(f"{bucket}/t")] == [kept]
        older = next(version for version in found if version.bytes == 3)
        with lake.open_version(older) as stream:
            assert stream.read() == b"one"
            assert stream.seek(1) == 1 and stream.read(1) == b"n"
            assert stream.seek(-1, 2) == 2 and stream.read() == b"e"

    def test_none_where_the_bucket_keeps_none(self, versioned_s3: VersionedS3, tmp_path: Path) -> None:
        plain = versioned_s3.new_bucket(f"plain-{abs(hash(tmp_path)) % 10**9}", versions=False)
        place = versioned_s3.put(f"{plain}/t/a", b"one")
        lake = storage(versioned_s3)
        assert list(lake.versions(f"{plain}/t")) == []
        assert lake.erase_all([place, f"{plain}/t/none"]) == Removed(files=1, bytes=3, missing=1)
        assert versioned_s3.everything(plain) == []

    def test_without_boto3_it_is_said_that_versions_are_not_seen(
        self, versioned_s3: VersionedS3, bucket: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert storage(versioned_s3).sees_versions(bucket)
        monkeypatch.setattr(s3_store, "can_serve", lambda properties: False)
        assert not storage(versioned_s3).sees_versions(bucket)
        assert storage(versioned_s3).sees_versions("/tmp/t")


class TestErase:
    def test_with_every_version_and_mark(
        self, versioned_s3: VersionedS3, bucket: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(s3_versions, "_PAGE", 3)
        there, gone, kept = f"{bucket}/t/a", f"{bucket}/t/b", f"{bucket}/t/ab"
        for n in range(4):
            versioned_s3.put(there, b"x" * n)
            versioned_s3.put(gone, b"yy")
        versioned_s3.delete(gone)
        versioned_s3.put(kept, b"z")
        told: list[tuple[int, int]] = []

        lake = storage(versioned_s3)
        removed = lake.erase_all([there, gone, f"{bucket}/t/none"], progress=lambda *done: told.append(done))

        assert removed == Removed(files=2, bytes=6 + 8, missing=1)
        assert versioned_s3.everything(bucket) == ["t/ab"]
        assert told[-1] == (3, 3)
        assert lake.erase_all([there, gone]) == Removed(missing=2)

    def test_plain_deletion_leaves_the_object_out_of_sight(self, versioned_s3: VersionedS3, bucket: str) -> None:
        place = versioned_s3.put(f"{bucket}/t/a", b"one")
        storage(versioned_s3).delete_all([place])
        assert versioned_s3.everything(bucket) == ["t/a", "t/a"]

    def test_only_behind_the_fence(self, versioned_s3: VersionedS3, bucket: str) -> None:
        place = versioned_s3.put(f"{bucket}/t/a", b"one")

        def lost() -> None:
            raise LeaseLost("the lease is lost")

        with pytest.raises(LeaseLost):
            storage(versioned_s3, lost).erase_all([place])
        assert versioned_s3.everything(bucket) == ["t/a"]


class TestFolders:
    @pytest.mark.parametrize("versions", [True, *in_soak(False)])
    def test_objects_that_stand_for_folders(self, versioned_s3: VersionedS3, tmp_path: Path, versions: bool) -> None:
        bucket = versioned_s3.new_bucket(f"folders-{abs(hash((tmp_path, versions))) % 10**9}", versions)
        made = versioned_s3.put(f"{bucket}/t/data/mail=a/", b"")
        versioned_s3.put(f"{bucket}/t/data/x", b"x")
        lake = storage(versioned_s3)
        assert list(lake.folders(f"{bucket}/t")) == [made]
        lake.remove_empty_folder(made)
        assert versioned_s3.everything(bucket) == ["t/data/x"]

    def test_by_arrow(self, tmp_path: Path) -> None:
        from pyarrow.fs import LocalFileSystem

        store = ArrowStore(LocalFileSystem())
        (tmp_path / "t/a/b").mkdir(parents=True)
        assert set(store.folders(f"{tmp_path}/t")) == {f"{tmp_path}/t/a", f"{tmp_path}/t/a/b"}
        assert not store.remove_empty_folder(f"{tmp_path}/t/a")
        assert store.remove_empty_folder(f"{tmp_path}/t/a/b") and store.remove_empty_folder(f"{tmp_path}/t/a")
        assert list((tmp_path / "t").iterdir()) == [] and store.remove_empty_folder(f"{tmp_path}/none")


class TestOnDisk:
    def test_folders_that_are_empty_then_go_up_to_the_place(self, tmp_path: Path) -> None:
        lake = Storage(
            Stores(LakeSettings(catalog={"type": "sql", "uri": "sqlite:///none"}, warehouse=f"file://{tmp_path}")),
            unfenced,
        )
        files = {
            name: tmp_path / "t" / name
            for name in ("data/mail=a/day=1/x", "data/mail=a/day=2/y", "data/mail=b/z", "data/w")
        }
        for file in files.values():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("abc")
        (tmp_path / "t/data/mail=a/day=1/.x.crc").write_text("sum")
        assert set(lake.folders(f"file://{tmp_path}/t")) == {
            f"file://{tmp_path}/t/data{below}" for below in ("", "/mail=a", "/mail=a/day=1", "/mail=a/day=2", "/mail=b")
        }

        gone = [f"file://{files[name]}" for name in ("data/mail=a/day=1/x", "data/mail=a/day=2/y", "data/w")]
        removed = lake.erase_all([*gone, f"file://{tmp_path}/t/none/v"], [f"file:{tmp_path}/t"])

        assert removed == Removed(files=3, bytes=9, missing=1)
        left = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*"))
        assert left == ["t", "t/data", "t/data/mail=b", "t/data/mail=b/z"]
        assert lake.erase_all([f"file://{files['data/mail=b/z']}"], [f"{tmp_path}/t"]).files == 1
        assert [path.name for path in (tmp_path / "t").rglob("*")] == ["data"]
