"""Proofs of tables in buckets that keep versions: what was deleted there is out of sight, and still there."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakewarden.engine.proof.scan import Proof, prove, size
from lakewarden.engine.storage import s3_store
from lakewarden.engine.storage.storage import Storage
from lakewarden.records.erasure import HiddenKey
from tests.services.s3_versions import VersionedS3
from tests.small_lake import SmallLake

SCHEMA = pa.schema([("id", pa.int64()), ("email", pa.string())])
KEY = HiddenKey(2, "string", ["zoe@example.org"])


@pytest.fixture
def lake(on_versioned_s3: SmallLake) -> SmallLake:
    on_versioned_s3.catalog.create_namespace("crm")
    table = on_versioned_s3.catalog.create_table("crm.people", SCHEMA)
    table.append(pa.table({"id": [1], "email": ["anna@example.org"]}, schema=SCHEMA))
    return on_versioned_s3


def table(lake: SmallLake) -> Any:
    return lake.catalog.load_table("crm.people")


def proof(lake: SmallLake, *keys: HiddenKey) -> Proof:
    before = datetime.now(UTC) - timedelta(days=3)
    return prove(table(lake), keys or [KEY], lake.warden.ground.storage("main"), before=before)


def parquet(email: str) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table({"id": [1], "email": [email]}, schema=SCHEMA), file, compression="zstd")
    return file.getvalue()


def test_a_deleted_object_and_an_overwritten_one(lake: SmallLake, versioned_s3: VersionedS3) -> None:
    assert proof(lake).clean
    location = table(lake).metadata.location
    deleted = versioned_s3.put(f"{location}/data/deleted.parquet", parquet("zoe@example.org"))
    versioned_s3.delete(deleted)
    changed = versioned_s3.put(f"{location}/metadata/note.txt", b" zoe@example.org ")
    versioned_s3.put(changed, b"nothing")

    found = proof(lake)

    rows = [place for place in found.places if place.where == "column email, 1 row"]
    assert [place.object for place in rows] == [deleted]
    assert {place.object for place in found.places} == {deleted, changed}
    assert all(place.version and not place.live for place in found.places)
    assert found.young == []  # however new they are, nobody commits an earlier version
    assert any("2 of them are old versions" in step for step in found.method)
    assert size(table(lake), lake.warden.ground.storage("main"))[1] == found.bytes


def test_the_name_of_what_was_deleted(lake: SmallLake, versioned_s3: VersionedS3) -> None:
    with table(lake).update_spec() as update:
        update.add_identity("email")
    gone = versioned_s3.put(f"{table(lake).metadata.location}/data/email=zoe%40example.org/x", b"")
    versioned_s3.delete(gone)
    found = proof(lake)
    assert {place.where for place in found.places} == {"name"}
    assert "zoe" not in repr(found)
    Storage(lake.warden.ground.stores["main"]).erase_all([gone])
    assert proof(lake).clean


def test_live_rows_are_told_as_live(lake: SmallLake) -> None:
    found = proof(lake, HiddenKey(2, "string", ["anna@example.org"]))
    assert found.places and all(place.live for place in found.places)


def test_where_versions_cannot_be_seen_nothing_is_proved(lake: SmallLake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3_store, "can_serve", lambda properties: False)
    lake.warden.ground.stores["main"]._open.clear()
    found = proof(lake)
    assert not found.clean and found.places == []
    assert "install lakewarden[s3]" in found.not_read[0].why


def test_uploads_that_never_ended_are_told(lake: SmallLake, versioned_s3: VersionedS3) -> None:
    bucket, _, key = table(lake).metadata.location.removeprefix("s3://").partition("/")
    versioned_s3.client.create_multipart_upload(Bucket=bucket, Key=f"{key}/data/half.parquet")
    found = proof(lake)
    assert found.clean and found.method[-1].startswith("1 incomplete uploads")
