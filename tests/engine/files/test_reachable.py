"""What a table's metadata leads to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakewarden.engine.base.locations import same_place
from lakewarden.engine.files.reachable import ReachableFile, ReachableSet, own_places, reachable_files, reachable_set
from tests.small_lake import SCHEMA, SmallLake


def stored(table: Any) -> set[str]:
    """Every file in the table's folder, but for the checksums that Hadoop puts beside its own."""
    folder = Path(table.metadata.location.removeprefix("file://").removeprefix("file:"))
    return {f"file:{path}" for path in folder.rglob("*") if path.is_file() and not path.name.endswith(".crc")}


def reached(table: Any) -> set[str]:
    return {same_place(file.path) for file in reachable_files(table)}


def test_of_a_table_that_nobody_disturbed_every_file_is_reachable(lake: SmallLake, any_format: int) -> None:
    lake.create(format=any_format)
    table = lake.catalog.load_table("sales.orders")
    assert reached(table) == stored(table)


def test_what_only_tags_branches_and_old_versions_have_is_reachable(lake: SmallLake) -> None:
    lake.create()
    lake.warden.version.tag("sales.orders", "v1").apply()
    lake.warden.version.branch("sales.orders", "try").apply()
    lake.catalog.load_table("sales.orders").overwrite(pa.table({"id": [1], "city": ["Bern"]}, schema=SCHEMA))
    lake.catalog.load_table("sales.orders").delete("id = 1")
    table = lake.catalog.load_table("sales.orders")
    assert reached(table) == stored(table)
    assert len([file for file in reachable_files(table) if file.kind == "manifest-list"]) == len(table.snapshots())


def test_of_some_versions_only(lake: SmallLake) -> None:
    lake.create(appends=3)
    table = lake.catalog.load_table("sales.orders")
    first = table.snapshots()[0]
    kinds = [file.kind for file in reachable_files(table, [first])]
    assert sorted(kinds) == ["data", "manifest", "manifest-list"]


def test_sizes_are_told_where_metadata_has_them(lake: SmallLake) -> None:
    lake.create()
    for file in reachable_files(lake.catalog.load_table("sales.orders")):
        size = Path(file.path.removeprefix("file://")).stat().st_size
        assert file.bytes == (size if file.kind in ("data", "manifest") else None)


@pytest.mark.spark
def test_delete_files_deletion_vectors_and_statistics(lake: SmallLake) -> None:
    sql = lake.warden.ground.spark.sql
    for version in (2, 3):
        lake.create(f"sales.v{version}", format=3, appends=0) if version == 3 else lake.create("sales.v2", appends=0)
        sql(
            f"ALTER TABLE main.sales.v{version} SET TBLPROPERTIES "
            "('write.delete.mode' = 'merge-on-read', 'write.delete.granularity' = 'file')"
        )
        sql(f"INSERT INTO main.sales.v{version} SELECT id, 'x' FROM range(0, 100, 1, 2)")
        sql(f"DELETE FROM main.sales.v{version} WHERE id IN (3, 60)")
        sql(f"CALL main.system.compute_table_stats(table => 'sales.v{version}')")
        table = lake.catalog.load_table(f"sales.v{version}")
        kinds = {file.kind for file in reachable_files(table)}
        assert {"deletes", "statistics"} <= kinds
        assert reached(table) == stored(table)


def test_a_missing_manifest_is_told(lake: SmallLake) -> None:
    from lakewarden.errors import BrokenTable

    lake.create()
    table = lake.catalog.load_table("sales.orders")
    manifest = table.current_snapshot().manifests(table.io)[0]
    Path(manifest.manifest_path.removeprefix("file://")).unlink()
    with pytest.raises(BrokenTable, match="sales.orders.*is missing"):
        list(reachable_files(table))


class TestSet:
    def test_holds_what_it_was_made_of_however_it_is_spelled(self) -> None:
        paths = [f"s3a://bucket/t/data/{number}.parquet" for number in range(1000)]
        found = ReachableSet(ReachableFile(path, "data") for path in paths)
        assert len(found) == 1000
        assert all(path in found for path in paths)
        assert all(path.replace("s3a:", "s3:") in found for path in paths)
        assert not any(f"s3://bucket/t/data/{number}" in found for number in range(1000))
        assert found.authorities == {"s3://bucket"}
        assert found.has_data

    def test_a_path_in_another_bucket_is_known_and_its_bucket_is_not(self) -> None:
        found = ReachableSet([ReachableFile("s3://one/t/a", "metadata")])
        assert "s3://two/t/a" in found
        assert found.authorities == {"s3://one"}
        assert not found.has_data

    def test_of_nothing(self) -> None:
        assert "/a" not in ReachableSet([])

    def test_is_read_once_for_each_metadata_file(self, lake: SmallLake) -> None:
        lake.create()
        table = lake.catalog.load_table("sales.orders")
        first = reachable_set(table)
        assert reachable_set(lake.catalog.load_table("sales.orders")) is first
        lake.append()
        latest = lake.catalog.load_table("sales.orders")
        new = {file.path for file in reachable_files(latest)} - {file.path for file in reachable_files(table)}
        assert new and all(path in reachable_set(latest) for path in new)
        assert not any(path in first for path in new)


def test_own_places(lake: SmallLake) -> None:
    lake.create()
    table = lake.catalog.load_table("sales.orders")
    with table.transaction() as change:
        change.set_properties({"write.data.path": "s3://elsewhere/data/", "write.metadata.path": table.location()})
    assert own_places(lake.catalog.load_table("sales.orders")) == [table.location(), "s3://elsewhere/data"]
