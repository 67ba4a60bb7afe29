"""A lake's files on a real S3 server: listed, measured, moved, deleted and quarantined."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lakewarden.config import LakeSettings, StorageSettings
from lakewarden.engine.base.locations import same_place
from lakewarden.engine.storage import quarantine, s3_store
from lakewarden.engine.storage.arrow_store import ArrowStore
from lakewarden.engine.storage.quarantine import Batch, QuarantinedFile
from lakewarden.engine.storage.s3_store import S3Store
from lakewarden.engine.storage.storage import Removed, Storage, Stores
from lakewarden.errors import AlreadyExists, StorageUnavailable
from tests.cases import in_soak
from tests.engine.lakes import unfenced
from tests.services.s3 import S3

pytestmark = [pytest.mark.spark, pytest.mark.own_processes]  # the server is Java

NOW = datetime.now(UTC)


def stores(s3: S3, bucket: str, secret: str | None = None) -> Stores:
    return Stores(
        LakeSettings(
            catalog={"type": "sql", "uri": "sqlite:///none"},
            warehouse=f"{bucket}/warehouse",
            storage=StorageSettings(
                endpoint=s3.endpoint, access_key=s3.access_key, secret_key=secret or s3.secret_key, region="us-east-1"
            ),
        )
    )


@pytest.fixture
def bucket(s3: S3, tmp_path: Path) -> str:
    return s3.new_bucket(f"storage-{abs(hash(tmp_path)) % 10**9}")


@pytest.fixture(params=["boto3", *in_soak("arrow")])
def storage(s3: S3, bucket: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Storage:
    """By boto3, and as it is where that is not installed."""
    if request.param == "arrow":
        monkeypatch.setattr(s3_store, "can_serve", lambda properties: False)
    storage = Storage(stores(s3, bucket), unfenced)
    kind = S3Store if request.param == "boto3" else ArrowStore
    assert isinstance(storage._stores.of(bucket), kind)
    return storage


@pytest.fixture
def put(s3: S3) -> Callable[[str, str], str]:
    """Objects are made as files: buckets are folders of the server."""

    def put(location: str, content: str = "x") -> str:
        path = s3.folder / location.removeprefix("s3://")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        return location

    return put


Put = Callable[..., str]


class TestWalk:
    def test_every_object_spelled_as_the_place_is(self, storage: Storage, bucket: str, put: Put) -> None:
        names = ["data/city=Bern/day=1/a b+c%20.parquet", "data/city=Chur/é.parquet", "metadata/v1.metadata.json", "x"]
        for name in names:
            put(f"{bucket}/t/{name}", name)
        put(f"{bucket}/t2/other")
        put(f"{bucket}/t/_lakewarden/quarantine/y")
        for top in (f"{bucket}/t", f"{bucket}/t/", f"{bucket}/t".replace("s3:", "s3a:")):
            found = {file.path: file for file in storage.walk(top, ["_lakewarden"])}
            assert set(found) == {f"{top.rstrip('/')}/{name}" for name in names}
            for path, file in found.items():
                assert file.bytes == len(path.removeprefix(f"{top.rstrip('/')}/").encode())
                assert file.modified_at is not None and abs(file.modified_at - NOW) < timedelta(minutes=30)

    def test_many_pages(self, storage: Storage, bucket: str, put: Put) -> None:
        expected = {put(f"{bucket}/t/data/p={n % 3}/{n}", "") for n in range(2500)}
        found = [file.path for file in storage.walk(f"{bucket}/t")]
        assert len(found) == len(expected) and set(found) == expected

    def test_very_many_partitions_are_listed_in_one_row(
        self, s3: S3, bucket: str, put: Put, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(s3_store, "_MOST_PAGES", 0)
        expected = {put(f"{bucket}/t/data/p={n}/{n}") for n in range(30)} | {put(f"{bucket}/t/a")}
        found = [file.path for file in Storage(stores(s3, bucket)).walk(f"{bucket}/t")]
        assert len(found) == len(expected) and set(found) == expected

    def test_nothing_there(self, storage: Storage, bucket: str) -> None:
        assert list(storage.walk(f"{bucket}/none")) == []

    def test_a_wrong_key_is_told(self, s3: S3, bucket: str, put: Put) -> None:
        put(f"{bucket}/t/a")
        storage = Storage(stores(s3, bucket, secret="wrong"))
        with pytest.raises(StorageUnavailable, match="the storage does not respond") as refused:
            list(storage.walk(f"{bucket}/t"))
        assert "wrong" not in str(refused.value)
        with pytest.raises(StorageUnavailable):
            storage.sizes([f"{bucket}/t/a"])


class TestChange:
    def test_what_was_really_freed(self, storage: Storage, bucket: str, put: Put) -> None:
        places = [put(f"{bucket}/t/{n}", "x" * (n % 7)) for n in range(1200)]

        removed = storage.delete_all([*places, f"{bucket}/t/none"])

        assert removed == Removed(files=1200, bytes=sum(n % 7 for n in range(1200)), missing=1)
        assert list(storage.walk(f"{bucket}/t")) == []

    def test_where_a_service_cannot_delete_many_at_once(
        self, s3: S3, bucket: str, put: Put, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        storage = Storage(stores(s3, bucket))
        store = storage._stores.of(bucket)
        assert isinstance(store, S3Store)
        monkeypatch.setattr(s3_store, "_PAGE", 10**6)  # more than one request may hold: it is refused as a whole
        places = [put(f"{bucket}/t/{n}") for n in range(1001)]
        assert store.delete(places) == {}
        assert list(storage.walk(f"{bucket}/t")) == []

    def test_move(self, storage: Storage, bucket: str, put: Put) -> None:
        source, target = put(f"{bucket}/t/a b", "abc"), f"{bucket}/t/_lakewarden/c"
        assert not storage.renames(bucket)
        assert storage.move(source, target)
        assert storage.sizes([source, target]) == {source: None, target: 3}
        assert storage.read(target) == b"abc"
        assert storage.move(source, target)
        assert not storage.move(source, f"{bucket}/neither")

    def test_a_move_that_stopped_before_the_first_object_was_gone(
        self, storage: Storage, bucket: str, put: Put
    ) -> None:
        source, target = put(f"{bucket}/a", "abc"), put(f"{bucket}/b", "abc")
        assert storage.move(source, target)
        assert storage.sizes([source, target]) == {source: None, target: 3}

    def test_never_over_another_object(self, storage: Storage, bucket: str, put: Put) -> None:
        source, target = put(f"{bucket}/a", "abc"), put(f"{bucket}/b", "abd")
        with pytest.raises(AlreadyExists):
            storage.move(source, target)
        assert storage.read(source) == b"abc" and storage.read(target) == b"abd"

    def test_quarantine_there_and_back_and_away(self, storage: Storage, bucket: str, put: Put) -> None:
        location = f"{bucket}/t"
        places = [put(f"{location}/data/{n}.parquet", "x" * n) for n in range(5)]
        batch = Batch(
            "op-1-a",
            location,
            "main.sales.orders",
            "uuid",
            "op-1",
            "orphan",
            NOW,
            NOW + timedelta(days=7),
            tuple(QuarantinedFile(place.replace("s3:", "s3a:"), n, "data") for n, place in enumerate(places)),
        )

        assert quarantine.stash(storage, batch).files == 5
        assert quarantine.stash(storage, batch).bytes == 10
        assert set(storage.sizes(places).values()) == {None}
        (found,) = quarantine.batches(storage, location)
        assert [same_place(file.path) for file in found.files] == places

        assert quarantine.restore(storage, found).files == 5
        assert list(storage.sizes(places).values()) == [0, 1, 2, 3, 4]
        assert quarantine.batches(storage, location) == []

        quarantine.stash(storage, batch)
        (found,) = quarantine.batches(storage, location)
        assert quarantine.discard(storage, found) == Removed(files=5, bytes=10)
        assert list(storage.walk(location)) == []


def test_more_than_this_machine_knows_is_left_to_arrow() -> None:
    assert s3_store.can_serve({"s3.endpoint": "http://127.0.0.1"})
    assert not s3_store.can_serve({"s3.role-arn": "arn:aws:iam::1:role/reader"})
