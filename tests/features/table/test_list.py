"""`table list`."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakewarden.errors import LakeNotFound, NotFound
from tests.small_lake import SmallLake


def test_lists_tables_with_what_their_metadata_says(lake: SmallLake, any_format: int) -> None:
    lake.create("sales.orders", any_format)
    lake.create("crm.customers", appends=0)
    lake.warden.version.tag("sales.orders", "v1").apply()

    empty, full = lake.warden.table.list()

    assert (empty.table, empty.rows, empty.files, empty.snapshots) == ("main.crm.customers", 0, 0, 0)
    assert (full.table, full.format, full.rows, full.snapshots, full.tags) == ("main.sales.orders", any_format, 6, 3, 1)
    assert full.bytes > 0


def test_one_namespace_and_those_below_it(lake: SmallLake) -> None:
    for name in ("a.x", "a.b.y", "ab.z"):
        lake.create(name, appends=0)
    assert [row.table for row in lake.warden.table.list(namespace="a")] == ["main.a.b.y", "main.a.x"]


def test_a_broken_table_does_not_hold_up_the_others(lake: SmallLake) -> None:
    lake.create("sales.good")
    lake.create("sales.bad")
    Path(lake.catalog.load_table("sales.bad").metadata_location.removeprefix("file://")).write_text("{")

    bad, good = lake.warden.table.list()

    assert (bad.table, bad.rows) == ("main.sales.bad", None)
    assert "its metadata cannot be read" in bad.problem
    assert (good.table, good.rows, good.problem) == ("main.sales.good", 6, "")


def test_unknown_lakes_and_namespaces(lake: SmallLake) -> None:
    lake.create()
    with pytest.raises(LakeNotFound, match="no lake 'mian'"):
        lake.warden.table.list(lake="mian")
    with pytest.raises(NotFound, match="no namespace sale") as refused:
        lake.warden.table.list(namespace="sale")
    assert refused.value.hint == "Did you mean sales?"


def test_an_empty_lake_has_none(lake: SmallLake) -> None:
    assert lake.warden.table.list() == []
