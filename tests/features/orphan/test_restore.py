"""`orphan restore`."""

from __future__ import annotations

import pytest

from lakewarden.errors import AlreadyExists, BrokenTable, NotFound
from tests.features.orphan.orphans import contents, folder, plant
from tests.small_lake import SmallLake

PLANTED = ("data/a.parquet", "data/city=Bern/a.parquet", "metadata/c.avro")


@pytest.fixture
def put_away(lake: SmallLake) -> SmallLake:
    lake.create()
    plant(lake, *PLANTED)
    lake.warden.orphan.quarantine("sales.orders").apply()
    return lake


def test_brings_every_file_back_to_where_it_was(lake: SmallLake) -> None:
    lake.create()
    plant(lake, *PLANTED)
    before = contents(lake)
    lake.warden.orphan.quarantine("sales.orders").apply()
    (batch,) = lake.warden.orphan.list()

    report = lake.warden.orphan.restore(batch.id).apply()

    assert (report.result["files_restored"], report.result["bytes_restored"]) == (3, 15)
    assert contents(lake) == before
    assert not (folder(lake) / "_lakewarden").exists()
    assert len(lake.warden.orphan.find("sales.orders", files=True)) == 3  # as old as they were


def test_acts_at_once(put_away: SmallLake) -> None:
    (batch,) = put_away.warden.orphan.list()
    put_away.run("orphan", "restore", batch.id)
    assert set(PLANTED) <= set(contents(put_away))


def test_never_over_a_file_that_is_there_again(put_away: SmallLake) -> None:
    (batch,) = put_away.warden.orphan.list()
    plant(put_away, "data/a.parquet", content="other")
    with pytest.raises(AlreadyExists, match="another file is at .*data/a.parquet"):
        put_away.warden.orphan.restore(batch.id).apply()
    assert (folder(put_away) / "data/a.parquet").read_text() == "other"
    assert put_away.warden.orphan.list() == [batch]


def test_an_id_that_is_not_there(put_away: SmallLake) -> None:
    (batch,) = put_away.warden.orphan.list()
    with pytest.raises(NotFound) as refused:
        put_away.warden.orphan.restore(batch.id[:-1] + "x")
    assert refused.value.hint == f"Did you mean {batch.id}?"
    put_away.create("sales.other")
    with pytest.raises(NotFound):
        put_away.warden.orphan.restore(batch.id, table="sales.other")
    assert put_away.warden.orphan.restore(batch.id, table="sales.orders").apply().result["files_restored"] == 3
    with pytest.raises(NotFound):
        put_away.warden.orphan.restore(batch.id)


@pytest.mark.parametrize("place", ["{lake}/elsewhere", "{table}/../../../../elsewhere"])
def test_a_changed_record_does_not_make_it_write_elsewhere(put_away: SmallLake, place: str) -> None:
    record, where = next(folder(put_away).rglob("batch.json")), f"file://{folder(put_away)}/metadata/c.avro"
    assert where in record.read_text()
    record.write_text(record.read_text().replace(where, place.format(lake=put_away.folder, table=folder(put_away))))
    (batch,) = put_away.warden.orphan.list()
    with pytest.raises(BrokenTable, match="names a location where main.sales.orders has no files"):
        put_away.warden.orphan.restore(batch.id).apply()
    assert not (put_away.folder / "elsewhere").exists()


def test_by_the_operation_that_put_them_away(lake: SmallLake) -> None:
    for name in ("sales.a", "sales.b"):
        lake.create(name, appends=1)
        plant(lake, "data/x", table=name)
    report = lake.warden.orphan.quarantine(namespace="sales").apply()
    assert lake.warden.orphan.restore(str(report.id)).apply().result["files_restored"] == 2
    assert all("data/x" in contents(lake, name) for name in ("sales.a", "sales.b"))
