"""Rows are counted by metadata, and only files that may hold a hidden row are read for it."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakewarden.engine.comparison.row_counts import may_hold, visible_rows
from lakewarden.engine.files.live_files import Files
from lakewarden.engine.files.manifests import Manifests
from lakewarden.engine.kernel.messages import Access
from lakewarden.records.erasure import HiddenKey
from tests.small_lake import SmallLake


@pytest.fixture
def people(lake: SmallLake) -> SmallLake:
    lake.catalog.create_namespace("s")
    table = lake.catalog.create_table("s.people", pa.schema([("email", pa.string()), ("amount", pa.int64())]))
    for letter in "abc":
        table.append(pa.table({"email": [f"{letter}1@x", f"{letter}5@x"], "amount": [1, 2]}))
    return lake


def test_files_that_cannot_hold_a_value_are_not_read(people: SmallLake) -> None:
    table = people.catalog.load_table("s.people")
    files = Files(Manifests()).of(table, table.current_snapshot())
    assert list(visible_rows(files.data, Access()).values()) == [2, 2, 2]
    first = {file.path for file in files.data if file.starts.startswith(b"a1@x")}
    assert may_hold(table, files, [HiddenKey(1, "string", ["a3@x", "zz@x"])]) == first and len(first) == 1
    assert may_hold(table, files, [HiddenKey(1, "string", ["aa@x"])]) == set()
    assert may_hold(table, files, [HiddenKey(1, "string", [])]) == set()
    assert len(may_hold(table, files, [HiddenKey(1, "string", ["a1@x"]), HiddenKey(2, "long", ["2"])])) == 3
