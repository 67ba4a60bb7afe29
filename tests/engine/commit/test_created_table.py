"""A table is created once, by whichever run of an action gets there; what others created is left alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.table.sorting import SortField, SortOrder
from pyiceberg.transforms import BucketTransform, IdentityTransform

from lakewarden.engine.commit.created_table import CREATED_BY, CreateTable
from lakewarden.errors import AlreadyExists, LeaseLost, NotFound
from lakewarden.lifecycle.failpoints import when
from lakewarden.warden import Workbench
from tests.engine.lakes import STAMP, Lake, elsewhere, lake, local, unfenced
from tests.engine.new_files import SALES

__all__ = ["lake"]

NAME = "main.shop.sales"


@pytest.fixture
def shop(lake: Lake) -> Lake:
    lake.catalog.create_namespace("shop")
    return lake


def creation(**more: Any) -> CreateTable:
    return CreateTable(table=NAME, schema=SALES, **more)


def metadata_files(shop: Lake) -> list[str]:
    folder = local(shop.table("shop.sales").metadata.location) / "metadata"
    return sorted(path.name for path in folder.glob("*.metadata.json"))


@pytest.mark.parametrize("format", [1, 2])
def test_as_it_was_asked_for(shop: Lake, format: int) -> None:
    spec = PartitionSpec(PartitionField(1, 1000, BucketTransform(4), "id_bucket"))
    order = SortOrder(SortField(2, IdentityTransform()))
    place = f"file://{shop.folder}/elsewhere/sales"
    properties = {"format-version": str(format), "owner": "us"}
    uuid = shop.direct.publish(creation(spec=spec, order=order, properties=properties, location=place))
    table = shop.table("shop.sales")
    assert str(table.metadata.table_uuid) == uuid
    assert (table.metadata.format_version, table.metadata.location) == (format, place)
    assert table.metadata.properties["owner"] == "us"
    assert [field.name for field in table.schema().fields] == ["id", "city", "amount"]
    assert [str(field.transform) for field in table.spec().fields] == ["bucket[4]"]
    assert [field.source_id for field in table.sort_order().fields] == [2]
    assert table.metadata.snapshots == []


def test_spark_compresses_it_as_its_own_tables(shop: Lake) -> None:
    shop.direct.publish(creation())
    assert shop.table("shop.sales").metadata.properties["write.parquet.compression-codec"] == "zstd"


def test_a_codec_that_was_asked_for(shop: Lake) -> None:
    shop.direct.publish(creation(properties={"write.parquet.compression-codec": "snappy"}))
    assert shop.table("shop.sales").metadata.properties["write.parquet.compression-codec"] == "snappy"


def test_the_same_action_finds_its_own(shop: Lake) -> None:
    uuid = shop.direct.publish(creation())
    assert shop.direct.publish(creation()) == uuid
    assert len(metadata_files(shop)) == 1


def test_a_table_of_somebody_else_is_left_alone(shop: Lake) -> None:
    shop.create("shop.sales")
    before = shop.table("shop.sales").metadata_location
    with pytest.raises(AlreadyExists, match="main.shop.sales exists already"):
        shop.direct.publish(creation())
    assert shop.table("shop.sales").metadata_location == before


@pytest.mark.parametrize("point", ["commit.ready", "commit.fenced", "commit.staged"])
def test_somebody_who_is_quicker(shop: Lake, point: str) -> None:
    when(point, elsewhere(lambda: shop.create("shop.sales", appends=1)))
    with pytest.raises(AlreadyExists):
        shop.direct.publish(creation())
    table = shop.table("shop.sales")
    assert CREATED_BY not in table.metadata.properties and table.scan().to_arrow().num_rows == 2
    assert len(metadata_files(shop)) == 2  # theirs: the table, and its append


def test_an_earlier_run_that_is_quicker(shop: Lake) -> None:
    """A run that was thought dead creates it after all: it is the same action's, and there is one table."""
    made: list[str] = []
    when("commit.fenced", elsewhere(lambda: made.append(shop.direct.publish(creation()))))
    assert shop.direct.publish(creation()) == made[0]
    assert len(metadata_files(shop)) == 1


def test_another_action_of_the_same_operation_is_another(shop: Lake) -> None:
    from lakewarden.engine.files.manifests import Manifests
    from tests.engine.direct_commits import DirectCommits

    shop.direct.publish(creation())
    other = DirectCommits(shop.tables, unfenced, replace(STAMP, action="ba9876543210"), Manifests())
    with pytest.raises(AlreadyExists):
        other.publish(creation())


def test_no_such_namespace(lake: Lake) -> None:
    with pytest.raises(NotFound, match="no namespace shop in lake main"):
        lake.direct.publish(creation())


def test_a_lease_that_is_lost_creates_nothing(shop: Lake) -> None:
    from lakewarden.engine.files.manifests import Manifests
    from tests.engine.direct_commits import DirectCommits

    def lost() -> None:
        raise LeaseLost("the lease was taken over", "")

    with pytest.raises(LeaseLost):
        DirectCommits(shop.tables, lost, STAMP, Manifests()).publish(creation())
    assert shop.catalog.list_tables("shop") == []


@pytest.mark.spark
@pytest.mark.parametrize("point", ["", "commit.landed", "statement.fenced"])
def test_a_format_that_only_spark_writes(shop: Lake, point: str) -> None:
    """It is created in format v2 and upgraded; a run that was killed between the two is continued."""

    class Killed(BaseException):
        pass

    def killed() -> None:
        raise Killed

    commits = Workbench(shop.warden.ground, STAMP, unfenced, lambda *_: None).commits
    wanted = creation(properties={"format-version": "3", "owner": "us"})
    if point:
        when(point, killed)
        with pytest.raises(Killed):
            commits.publish(wanted)
        assert shop.table("shop.sales").metadata.format_version == 2
    uuid = commits.publish(wanted)
    assert commits.publish(wanted) == uuid
    metadata = shop.table("shop.sales").metadata
    assert (metadata.format_version, metadata.properties["owner"], str(metadata.table_uuid)) == (3, "us", uuid)
