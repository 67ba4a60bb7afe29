"""Orphans of a table on a real S3 server, where a move is a copy and a deletion."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from lakewarden.errors import DeletionForbidden
from tests.features.orphan.orphans import age
from tests.services.s3 import S3
from tests.small_lake import SmallLake

pytestmark = [pytest.mark.spark, pytest.mark.own_processes]  # the server is Java


@pytest.fixture
def on_s3(on_s3: SmallLake) -> SmallLake:
    """That lake, with sales.orders in it."""
    on_s3.create()
    return on_s3


def place(lake: SmallLake, s3: S3) -> Path:
    location: str = lake.catalog.load_table("sales.orders").metadata.location
    return s3.folder / location.removeprefix("s3://")


def plant(lake: SmallLake, s3: S3, *names: str) -> None:
    for name in names:
        path = place(lake, s3) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("stray")
        age(path, 10)


def objects(lake: SmallLake) -> set[str]:
    location = lake.catalog.load_table("sales.orders").metadata.location
    return {file.path.removeprefix(f"{location}/") for file in lake.warden.ground.storage("main").walk(location)}


def test_found_put_away_brought_back_and_deleted(on_s3: SmallLake, s3: S3) -> None:
    before = objects(on_s3)
    planted = {"data/a.parquet", "data/city=Bern/b c.parquet", "metadata/c.avro"}
    plant(on_s3, s3, *planted)
    (row,) = on_s3.warden.orphan.find("sales.orders")
    assert (row.orphans, row.bytes) == (3, 15)

    planned = on_s3.warden.orphan.quarantine("sales.orders")
    assert "cannot rename" in planned.plan.warnings[0]
    assert planned.apply().result["files_quarantined"] == 3
    assert {name for name in objects(on_s3) if not name.startswith("_lakewarden/")} == before
    (batch,) = on_s3.warden.orphan.list()

    on_s3.warden.orphan.restore(batch.id).apply()
    assert objects(on_s3) == before | planted

    for name in planted:
        age(place(on_s3, s3) / name, 10)  # copied, they are as young as the copy
    on_s3.warden.orphan.quarantine("sales.orders").apply()
    report = on_s3.warden.orphan.delete(all=True, now=True).apply()
    assert (report.result["files_deleted"], report.result["bytes_freed"]) == (3, 15)
    assert objects(on_s3) == before
    assert on_s3.ids() == [0, 1, 2, 3, 4, 5]


def test_s3_and_s3a_are_one_place(on_s3: SmallLake, s3: S3) -> None:
    """A table whose location says s3a while its files are named s3."""
    plant(on_s3, s3, "data/a.parquet")
    location = on_s3.catalog.load_table("sales.orders").metadata.location
    _relocate(on_s3, location.replace("s3:", "s3a:"))
    (row,) = on_s3.warden.orphan.find("sales.orders", files=True)
    assert row.path == f"{location.replace('s3:', 's3a:')}/data/a.parquet"
    assert on_s3.warden.orphan.quarantine("sales.orders").apply().result["files_quarantined"] == 1


def test_the_same_path_in_another_bucket_is_refused(on_s3: SmallLake, s3: S3) -> None:
    """Metadata that names one bucket and a location that names another: every file would look like an orphan."""
    table = on_s3.catalog.load_table("sales.orders")
    bucket = table.metadata.location.removeprefix("s3://").split("/")[0]
    shutil.copytree(s3.folder / bucket, s3.folder / f"{bucket}-b")
    metadata = (s3.folder / table.metadata_location.removeprefix("s3://")).read_text()
    elsewhere = table.metadata.location.replace(bucket, f"{bucket}-b")
    plant(on_s3, s3, "metadata/00009-moved.metadata.json")
    moved = place(on_s3, s3) / "metadata/00009-moved.metadata.json"
    moved.write_text(metadata.replace(f'"location":"{table.metadata.location}"', f'"location":"{elsewhere}"'))
    on_s3.catalog.drop_table("sales.orders")
    on_s3.catalog.register_table("sales.orders", f"{table.metadata.location}/metadata/00009-moved.metadata.json")
    with pytest.raises(DeletionForbidden, match=f"references the same path in s3://{bucket}\\. "):
        on_s3.warden.orphan.find("sales.orders")


def test_a_path_that_metadata_names_in_one_of_two_buckets_is_kept_in_both(on_s3: SmallLake, s3: S3) -> None:
    """Two buckets may be two names of one."""
    location = on_s3.catalog.load_table("sales.orders").metadata.location
    bucket = location.removeprefix("s3://").split("/")[0]
    shutil.copytree(s3.folder / bucket, s3.folder / f"{bucket}-b")
    _relocate(on_s3, location.replace(bucket, f"{bucket}-b"))
    plant(on_s3, s3, "data/a.parquet")
    for path in place(on_s3, s3).rglob("*"):
        if path.is_file():
            age(path, 10)
    (row,) = on_s3.warden.orphan.find("sales.orders", files=True)
    assert row.path.endswith("-b/warehouse/sales/orders/data/a.parquet")


def _relocate(lake: SmallLake, location: str) -> None:
    from pyiceberg.table.update import SetLocationUpdate

    table = lake.catalog.load_table("sales.orders")
    lake.catalog.commit_table(table, (), (SetLocationUpdate(location=location),))
