"""A table in a real REST catalog from its creation on: the server checks what each commit requires.

Format v3 goes through Spark here too where files change, though the server writes the metadata.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import StringType

from lakewarden.engine.commit.created_table import CreateTable
from lakewarden.engine.commit.evolved_schema import EvolveSchema, NewColumn
from lakewarden.engine.commit.new_rows import Append, Overwrite
from lakewarden.errors import AlreadyExists
from lakewarden.lifecycle.failpoints import when
from tests.cases import in_soak
from tests.engine.catalog.test_rest_catalog import RestLake
from tests.engine.lakes import STAMP
from tests.engine.new_files import SALES, new_file, sales
from tests.engine.staged import OTHER, Shop
from tests.services.rest_catalog import RestCatalog

pytestmark = pytest.mark.spark
BY_CITY = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "city"))


@pytest.fixture
def lake(tmp_path: Path, rest_catalog: RestCatalog) -> Iterator[RestLake]:
    with RestLake(tmp_path / "lake", rest_catalog.uri, rest_catalog.warehouse) as lake:
        lake.catalog.create_namespace("shop")
        yield lake


def created(lake: RestLake, format: int) -> Shop:
    shop = Shop.__new__(Shop)
    shop.lake, shop.name, shop.format = lake, "main.shop.sales", format
    properties = {"format-version": str(format)}
    creation = CreateTable(table=shop.name, schema=SALES, spec=BY_CITY, properties=properties)
    shop.uuid = shop.bench().commits.publish(creation)
    assert shop.bench().commits.publish(creation) == shop.uuid
    with pytest.raises(AlreadyExists):
        shop.bench(OTHER).commits.publish(creation)
    assert shop.table.metadata.format_version == format
    return shop


@pytest.mark.parametrize("format", [2, *in_soak(3)], ids=lambda version: f"v{version}")
def test_from_its_creation_on(lake: RestLake, format: int) -> None:
    shop = created(lake, format)
    staged = shop.stage(0, 4)
    when("commit.ready", lambda: shop.insert(100, 102))
    first = shop.append(staged)
    shop.check(*range(4), 100, 102)
    assert shop.append(shop.stage(0, 4)) == first
    shop.check(*range(4), 100, 102, is_swept=False)

    new = NewColumn(4, "note", StringType())
    evolution = EvolveSchema(shop.name, shop.uuid, 0, add=(new,), rename={3: "amount_due"})
    assert shop.bench().commits.publish(evolution) == shop.bench().commits.publish(evolution)
    assert [field.name for field in shop.table.schema().fields] == ["id", "city", "amount_due", "note"]
    back = EvolveSchema(shop.name, shop.uuid, shop.table.metadata.current_schema_id, drop=(4,), rename={3: "amount"})
    shop.bench().commits.publish(back)

    out = shop.known()
    staged = shop.stage(10, 14, OTHER, replaced=out)
    shop.bench(OTHER).commits.publish(Overwrite(shop.name, shop.uuid, staged=staged, removed=out))
    shop.check(*range(10, 14), is_swept=False)


def test_files_written_by_hand_in_a_race(lake: RestLake) -> None:
    """The server refuses an attempt whose head was moved; the next one is built on the new head."""
    shop = created(lake, 2)
    first = new_file(shop.table, sales([1, 2], "Oslo"))
    passed = when("commit.fenced", lambda: shop.insert(4))
    shop.bench().commits.publish(Append(shop.name, shop.uuid, (first,)))
    assert len(passed) == 2
    shop.check(1, 2, 4)

    stamp = replace(STAMP, action="ba9876543210")
    second = new_file(shop.table, sales([3], "Oslo"), stamp)
    when("commit.fenced", lambda: shop.insert(6))
    change = Overwrite(shop.name, shop.uuid, (second,), removed={first.file.file_path: frozenset()})
    shop.bench(stamp).commits.publish(change)
    shop.check(3, 4, 6)
