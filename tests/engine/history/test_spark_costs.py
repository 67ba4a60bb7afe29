"""What erasing through Spark costs, told before: which tags lose which columns."""

from __future__ import annotations

import pyarrow as pa

from lakewarden.engine.history.spark_costs import costs, lost_columns
from tests.engine.lakes import Lake


def test_a_tag_loses_columns_that_the_table_has_no_more(lake: Lake) -> None:
    lake.catalog.create_namespace("crm")
    table = lake.catalog.create_table("crm.people", pa.schema([("id", pa.int64()), ("name", pa.string())]))
    table.append(pa.table({"id": [1], "name": ["a"]}))
    first = table.current_snapshot().snapshot_id
    table.manage_snapshots().create_tag(first, "old").create_branch(first, "work").commit()
    assert lost_columns(table, ["main", "old", "work"]) == {}
    with table.update_schema(allow_incompatible_changes=True) as change:
        change.delete_column("name")
    table.append(pa.table({"id": [2]}))
    table.manage_snapshots().create_tag(table.current_snapshot().snapshot_id, "new").commit()
    assert lost_columns(table, ["main", "old", "work", "new"]) == {"old": ["name"]}  # branches show it no more
    assert any("it permanently loses name" in told for told in costs(table, ["old"]))
