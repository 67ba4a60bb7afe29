"""`orphan list`.

Covers `features/orphan/batches.py`.
"""

from __future__ import annotations

import pytest

from lakewarden import Warden
from lakewarden.errors import BrokenTable, TableNotFound
from tests.features.orphan.orphans import folder, plant
from tests.small_lake import SmallLake


def test_nothing_yet(lake: SmallLake) -> None:
    lake.create()
    assert lake.warden.orphan.list() == []


def test_every_batch_of_every_table_oldest_first(lake: SmallLake) -> None:
    for name in ("web.b", "sales.a"):
        lake.create(name, appends=1)
        plant(lake, "data/x", "data/y", table=name)
        lake.warden.orphan.quarantine(name).apply()
    rows = lake.warden.orphan.list()
    assert [(row.table, row.files, row.bytes) for row in rows] == [("main.web.b", 2, 10), ("main.sales.a", 2, 10)]
    assert [row.table for row in lake.warden.orphan.list("sales.a")] == ["main.sales.a"]
    assert [row.table for row in lake.warden.orphan.list(namespace="web")] == ["main.web.b"]


def test_a_record_that_cannot_be_read_does_not_hide_the_others(lake: SmallLake) -> None:
    for name in ("sales.a", "sales.b"):
        lake.create(name, appends=1)
        plant(lake, "data/x", table=name)
    lake.warden.orphan.quarantine(all=True).apply()
    next(folder(lake, "sales.a").rglob("batch.json")).write_text("{")

    fine, broken = lake.warden.orphan.list()

    assert (fine.table, fine.problem) == ("main.sales.b", "")
    assert broken.table == "main.sales.a" and "batch.json cannot be read" in broken.problem
    with pytest.raises(BrokenTable):
        lake.warden.orphan.list("sales.a")


def test_a_table_that_is_not_there(lake: SmallLake) -> None:
    with pytest.raises(TableNotFound):
        lake.warden.orphan.list("sales.none")


def test_the_lake_itself_remembers_when_the_control_database_is_lost(lake: SmallLake) -> None:
    lake.create()
    plant(lake, "data/x")
    lake.warden.orphan.quarantine("sales.orders").apply()
    lake.warden.close()
    for path in lake.folder.glob("lakewarden.db*"):
        path.unlink()
    with Warden.open(lake.folder) as warden:
        (batch,) = warden.orphan.list()
        assert warden.orphan.restore(batch.id).apply().result["files_restored"] == 1
