"""Which files only some snapshots lead to, and what is free by the metadata of this moment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakewarden.engine.files.unreachable import is_own, still_unreachable, unreachable_after
from lakewarden.errors import BrokenTable
from tests.engine.lakes import Lake, lake, local

__all__ = ["lake"]


def ids(table: Any) -> list[int]:
    return [snapshot.snapshot_id for snapshot in table.metadata.snapshots]


class TestAfterExpiry:
    def test_a_file_that_two_versions_share_stays(self, lake: Lake) -> None:
        table = lake.create(appends=3)
        found = unreachable_after(table, ids(table)[:2])
        assert sorted(file.kind for file in found.files) == ["manifest-list", "manifest-list"]

    def test_a_file_that_was_deleted_goes_with_the_last_version_that_has_it(self, lake: Lake) -> None:
        table = lake.create(appends=1)
        (data,) = [entry.file.file_path for entry in table.scan().plan_files()]
        table.delete("id > 0")
        lake.append()
        table = lake.table()
        assert data not in [file.path for file in unreachable_after(table, ids(table)[1:2]).files]
        assert data in [file.path for file in unreachable_after(table, ids(table)[:1]).files]
        assert data in [file.path for file in unreachable_after(table, ids(table)[:2]).files]

    def test_nothing_is_told_twice_and_all_of_it_is_there(self, lake: Lake) -> None:
        table = lake.create(appends=4)
        table.overwrite(pa.table({"id": [7]}))
        table = lake.table()
        found = unreachable_after(table, ids(table)[:-1])
        paths = [file.path for file in found.files]
        assert len(paths) == len(set(paths)) and all(local(path).exists() for path in paths)

    def test_how_much_the_others_have(self, lake: Lake) -> None:
        table = lake.create(appends=2)
        (manifests, *_), files = [table.current_snapshot().manifests(table.io)], list(table.scan().plan_files())
        expected = sum(m.manifest_length for m in manifests) + sum(f.file.file_size_in_bytes for f in files)
        assert unreachable_after(table, ids(table)[:1]).bytes_kept == expected

    def test_a_manifest_that_cannot_be_read(self, lake: Lake) -> None:
        table = lake.create(appends=3)
        broken = table.current_snapshot().manifests(table.io)[0].manifest_path
        local(broken).unlink()
        with pytest.raises(BrokenTable, match=Path(broken).name):
            unreachable_after(table, ids(table)[:1])


class TestAtThisMoment:
    def test_what_any_version_leads_to_is_not_free(self, lake: Lake) -> None:
        table = lake.create(appends=2)
        manifest = table.current_snapshot().manifests(table.io)[0].manifest_path
        first = table.metadata.snapshots[0].manifest_list
        (data, *_) = [task.file.file_path for task in table.scan().plan_files()]
        stray = f"{table.metadata.location}/data/stray.parquet"
        assert still_unreachable(table, [manifest, first, data, table.metadata_location, stray]) == [stray]

    def test_however_it_is_spelled(self, lake: Lake) -> None:
        table = lake.create(appends=1)
        (task,) = table.scan().plan_files()
        path = local(task.file.file_path)
        assert still_unreachable(table, [str(path), f"file:{path}", f"file://{path}", f"file:///{path}"]) == []


class TestWhoseFileItIs:
    def test_below_its_location_or_where_its_properties_say(self, lake: Lake) -> None:
        table = lake.create(appends=0, **{"write.data.path": "s3://other/place/"})
        assert is_own(table, f"{table.metadata.location}/data/a.parquet")
        assert is_own(table, "s3a://other/place/b.parquet")
        assert not is_own(table, f"{table.metadata.location}-of-another/data/a.parquet")
        assert not is_own(table, "s3://other/placement/b.parquet")
