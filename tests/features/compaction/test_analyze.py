"""`compaction analyze`: from metadata alone, by the very function that plans.

Covers `features/compaction/survey.py`.
"""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from pyiceberg.transforms import IdentityTransform

from tests.features.compaction.compacted import Compactable, local
from tests.small_lake import SmallLake


def test_counts_what_is_there(lake: SmallLake) -> None:
    lake.create(appends=12)
    table = Compactable(lake, "sales.orders")

    (found,) = lake.warden.compaction.analyze("sales.orders")

    sizes = [local(file.path).stat().st_size for file in table.data]
    assert (found.files, found.bytes, found.average_file_bytes) == (12, sum(sizes), sum(sizes) // 12)
    assert (found.small_files, found.delete_files, found.deleted_rows_present) == (12, 0, 0)
    assert (found.row_groups, found.manifests) == (12, 12)
    assert found.needs_compaction is True
    assert found.reason.startswith("12 files are under 10 MB")
    assert found.next == "lakewarden compaction compact main.sales.orders"


def test_one_small_file_and_many_partitions_of_one_need_nothing(lake: SmallLake) -> None:
    lake.create("sales.one", appends=1)
    schema = pa.schema([("id", pa.int64()), ("part", pa.int64())])
    table = lake.catalog.create_table("sales.parts", schema)
    with table.update_spec() as change:
        change.add_field("part", IdentityTransform())
    table.append(pa.table({"id": range(200), "part": range(200)}, schema=schema))
    found = {analysis.table: analysis for analysis in lake.warden.compaction.analyze(all=True)}
    assert [found[name].files for name in ("main.sales.one", "main.sales.parts")] == [1, 200]
    assert [analysis.needs_compaction for analysis in found.values()] == [False, False]
    assert [analysis.next for analysis in found.values()] == ["", ""]


def test_a_table_that_cannot_be_read_does_not_hide_the_others(lake: SmallLake) -> None:
    lake.create("sales.good", appends=12)
    lake.create("sales.bad")
    bad = Compactable(lake, "sales.bad").table
    local(bad.current_snapshot().manifest_list).unlink()
    good, broken = sorted(lake.warden.compaction.analyze(all=True), key=lambda analysis: analysis.table, reverse=True)
    assert good.needs_compaction and good.problem == ""
    assert broken.needs_compaction is None
    assert "main.sales.bad" in broken.table and broken.problem


@pytest.mark.slow
def test_in_a_process_of_its_own_it_starts_no_jvm(lake: SmallLake) -> None:
    lake.create(appends=12)
    done = lake.run("compaction", "analyze", "sales.orders", "--json")
    (found,) = json.loads(done.stdout)
    assert found["needs_compaction"] is True
    assert not (lake.folder / "logs" / "spark.log").exists()
