"""The rows that a table got between two versions, whatever became of the versions between them."""

from __future__ import annotations

import pytest

from lakewarden.engine.comparison.new_rows import Since
from tests.small_lake import SmallLake


def test_versions_between_that_have_expired(lake: SmallLake) -> None:
    """Lakewarden remembers on which remaining version one was built: but what the others appended is not in it."""
    lake.create(appends=4)
    warden, tables = lake.warden, lake.warden.ground.tables
    first = lake.catalog.load_table("sales.orders").metadata.snapshots[0].snapshot_id
    warden.version.tag(f"sales.orders@{first}", "first").apply()

    def found() -> int | None:
        since = Since(tables.resolve("sales.orders@first"), tables.resolve("sales.orders"))
        return warden.ground.new_rows.count(since, 1 << 20)

    assert found() == 6
    warden.retention.expire("sales.orders", keep_last=1, keep_days=0).apply()
    assert len(lake.catalog.load_table("sales.orders").metadata.snapshots) == 2
    assert found() == 6


@pytest.mark.spark
def test_a_version_has_no_new_rows_since_itself(lake: SmallLake) -> None:
    lake.create(appends=2)
    now = lake.warden.ground.tables.resolve("sales.orders")
    same = lake.warden.ground.tables.resolve(f"sales.orders@{now.snapshot.snapshot_id}")
    frame = lake.warden.ground.new_rows.frame(Since(same, now))
    assert (frame.count(), frame.columns) == (0, list(now.table.schema().column_names))
