"""`compaction manifests`: entries as they were, specs apart, and only where it pays."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.manifest import ManifestContent, ManifestFile
from pyiceberg.transforms import IdentityTransform

from lakewarden.engine.files.manifests import read_entries
from lakewarden.features.compaction.manifest_merge import bundles
from lakewarden.lifecycle.failpoints import when
from tests.features.compaction.compacted import Compactable
from tests.small_lake import SmallLake
from tests.steps import steps


def entries(table: Compactable) -> dict[str, tuple[Any, ...]]:
    """Every live entry, with all that a reader may go by."""
    found = {}
    loaded = table.table
    for manifest in loaded.current_snapshot().manifests(loaded.io):
        for entry in read_entries(loaded.io, manifest):
            file = entry.data_file
            partition = tuple(file.partition[place] for place in range(len(file.partition)))
            found[file.file_path] = (
                entry.snapshot_id, entry.sequence_number, entry.file_sequence_number, manifest.partition_spec_id,
                manifest.content, partition, file.record_count, file.file_size_in_bytes, file.column_sizes,
                file.value_counts, file.null_value_counts, file.lower_bounds, file.upper_bounds, file.split_offsets,
                file.sort_order_id, file.equality_ids,
            )  # fmt: skip
    return found


def manifests(table: Compactable) -> list[Any]:
    return list(table.table.current_snapshot().manifests(table.table.io))


@pytest.mark.parametrize("version", [1, 2])
def test_entries_stay_as_they_were(lake: SmallLake, version: int) -> None:
    lake.create(format=version, appends=12)
    table = Compactable(lake, "sales.orders")
    before, rows, ids = entries(table), lake.ids(), [entry.added_snapshot_id for entry in manifests(table)]
    assert len(set(ids)) == 12

    result = lake.warden.compaction.manifests("sales.orders").apply().result

    assert (result["manifests_replaced"], result["manifests_written"]) == (12, 1)
    assert len(manifests(table)) == 1
    assert entries(table) == before
    assert lake.ids() == rows
    table.look_at_metadata()
    assert lake.warden.compaction.manifests("sales.orders").is_empty
    lake.append()
    assert len(lake.ids()) == 26


def test_ten_pay_and_nine_do_not(lake: SmallLake) -> None:
    lake.create(appends=9)
    assert lake.warden.compaction.manifests("sales.orders").is_empty
    lake.append()
    assert not lake.warden.compaction.manifests("sales.orders").is_empty


def test_specs_are_kept_apart_and_partitions_in_order(lake: SmallLake) -> None:
    lake.catalog.create_namespace("db")
    schema = pa.schema([("id", pa.int64()), ("part", pa.string())])
    made = lake.catalog.create_table("db.parts", schema)
    with made.update_spec() as change:
        change.add_field("part", IdentityTransform())
    for number in range(10):
        made.append(pa.table({"id": [number, number], "part": [f"p{9 - number}", None]}, schema=schema))
    with made.update_spec() as change:
        change.remove_field("part")
        change.add_field("id", IdentityTransform())
    for number in range(10):
        made.append(pa.table({"id": [number], "part": ["q"]}, schema=schema))
    table = Compactable(lake, "db.parts")
    before = entries(table)

    lake.warden.compaction.manifests("db.parts").apply()

    assert entries(table) == before
    assert sorted(manifest.partition_spec_id for manifest in manifests(table)) == [1, 2]
    summaries = {manifest.partition_spec_id: manifest.partitions[0] for manifest in manifests(table)}
    assert summaries[1].contains_null and (summaries[1].lower_bound, summaries[1].upper_bound) == (b"p0", b"p9")
    read = made.refresh().scan(row_filter="part = 'p3'").to_arrow().to_pylist()
    assert read == [{"id": 6, "part": "p3"}]


def test_an_append_meanwhile_is_kept(lake: SmallLake) -> None:
    lake.create(appends=10)
    when("commit.fenced", lake.append)
    lake.warden.compaction.manifests("sales.orders").apply()
    table = Compactable(lake, "sales.orders")
    assert lake.ids() == list(range(22))
    assert len(manifests(table)) == 2
    table.look_at_metadata()


def test_manifests_that_are_gone_meanwhile_leave_the_rest_as_it_is(lake: SmallLake) -> None:
    lake.create(appends=10)
    when("commit.fenced", lambda: lake.catalog.load_table("sales.orders").delete("id < 4"))
    lake.warden.compaction.manifests("sales.orders").apply()
    table = Compactable(lake, "sales.orders")
    assert lake.ids() == list(range(4, 20))
    assert table.unreached() == set()


def test_only_what_was_done_is_told(lake: SmallLake) -> None:
    """Two specs with ten manifests each; those of one are replaced by somebody else meanwhile."""
    lake.create(appends=10)
    with lake.catalog.load_table("sales.orders").update_spec() as change:
        change.add_field("city", IdentityTransform())
    for _ in range(10):
        lake.append(rows=1)
    when("commit.fenced", lambda: lake.catalog.load_table("sales.orders").delete("id < 4"))
    result = lake.warden.compaction.manifests("sales.orders").apply().result
    assert (result["manifests_replaced"], result["manifests_written"]) == (10, 1)
    assert lake.ids() == list(range(4, 30))


@pytest.mark.spark
def test_format_v3_through_spark(lake: SmallLake) -> None:
    lake.create(format=3, appends=10)
    table = Compactable(lake, "sales.orders")
    planned = lake.warden.compaction.manifests("sales.orders")
    assert [action.route for action in planned.plan.actions] == ["spark-sql"]
    planned.apply()
    assert len(manifests(table)) == 1
    assert lake.ids() == list(range(20))
    assert lake.warden.compaction.manifests("sales.orders").is_empty


def test_four_times_the_manifests_take_four_times_the_steps() -> None:
    def planned(count: int) -> int:
        few_bytes: Any = {"manifest_length": 5_000, "partition_spec_id": 0, "content": ManifestContent.DATA}
        many = [ManifestFile.from_args(manifest_path=f"m{number}", **few_bytes) for number in range(count)]
        return steps(lambda: bundles(many))

    assert planned(1200) < 4.4 * planned(300)
