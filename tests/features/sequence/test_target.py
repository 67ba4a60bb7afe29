"""Requirements on database tables, in an installation without a lake."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from lakewarden.errors import ConfigProblem
from lakewarden.features.sequence.connection import Reading
from lakewarden.features.sequence.partitions import PartitionedTable, read_table
from lakewarden.features.sequence.target import SequenceRequest, database_lease, required, sequences_of
from lakewarden.lifecycle.planned_files import FileList
from lakewarden.lifecycle.requirement import document
from tests.features.sequence.conftest import ORDERS
from tests.services.mariadb import Shop

THREE = (
    "PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20), "
    "PARTITION p2 VALUES LESS THAN MAXVALUE)"
)


def orders(settings: Any) -> PartitionedTable:
    with Reading(settings) as db:
        return read_table(db, "orders")


def broken(table: PartitionedTable, names: list[str], lake: Any) -> list[str | None]:
    chosen = tuple(each for each in table.partitions if each.name in names)
    return [need.broken(lake, FileList()) for need in required(table, chosen, None)]


def test_a_table_and_its_partitions_as_planned(shop: Shop, install: Any) -> None:
    shop.run(ORDERS + THREE)
    lake = install().ground
    table = orders(lake.settings.sequences)
    assert database_lease(table) == f"database:{table.server}/{shop.name}.orders"
    assert broken(table, ["p1", "p2"], lake) == [None, None]
    shop.run("ALTER TABLE orders REORGANIZE PARTITION p0 INTO (PARTITION pa VALUES LESS THAN (10))")
    assert broken(table, ["p1", "p2"], lake) == [None, None]
    assert (
        broken(table, ["p0"], lake)[1]
        == f"{shop.name}.orders no longer has the partitions p0 with their planned bounds"
    )
    shop.run(
        "ALTER TABLE orders REORGANIZE PARTITION pa INTO "
        "(PARTITION pa VALUES LESS THAN (5), PARTITION pb VALUES LESS THAN (10))"
    )
    assert broken(table, ["p1"], lake) == [None, None]
    shop.run(
        "ALTER TABLE orders REORGANIZE PARTITION p1, p2 INTO "
        "(PARTITION p1 VALUES LESS THAN (21), PARTITION p2 VALUES LESS THAN MAXVALUE)"
    )
    assert "p1, p2" in str(broken(table, ["p1", "p2"], lake)[1])
    assert broken(table, ["p2"], lake)[1] is not None  # it now begins elsewhere


def test_another_server_or_other_columns(shop: Shop, install: Any) -> None:
    shop.run(ORDERS + THREE)
    warden = install()
    table = orders(warden.ground.settings.sequences)
    other = shop.server.new_database()
    other.run(ORDERS + THREE)
    elsewhere = install(dburl=other.dburl).ground
    assert f"planned in {shop.name} on server" in str(broken(table, ["p1"], elsewhere)[0])
    shop.run(
        "ALTER TABLE orders DROP PRIMARY KEY, ADD PRIMARY KEY (id, created)", "ALTER TABLE orders REMOVE PARTITIONING"
    )
    shop.run("ALTER TABLE orders ADD other INT NOT NULL, DROP PRIMARY KEY, ADD PRIMARY KEY (id, other)")
    shop.run("ALTER TABLE orders " + THREE.replace("(id)", "(other)"))
    assert (
        broken(table, ["p1"], warden.ground)[0]
        == f"{shop.name}.orders was partitioned by id and is now partitioned by other"
    )


def test_a_plan_has_no_address(shop: Shop, install: Any, tmp_path: Path) -> None:
    shop.run(ORDERS + THREE)
    table = orders(install().ground.settings.sequences)
    stored = [document(need) for need in required(table, table.partitions[1:], tmp_path / "partman.yaml")]
    assert [need["kind"] for need in stored] == ["database-table", "partitions"]
    assert stored[1]["partitions"] == [["p1", [20]], ["p2", None]] and stored[1]["after"] == [10]
    assert "s3cret" not in str(stored) and str(shop.server.port) not in str(stored)


def test_settings_come_from_a_file_or_from_the_configuration(shop: Shop, install: Any, tmp_path: Path) -> None:
    settings = install().ground.settings
    file = tmp_path / "partman.yaml"
    file.write_text(yaml.safe_dump({"partitionmanager": {"dburl": shop.dburl, "tables": {"a": None, "b": {}}}}))
    request = SequenceRequest(file=file)
    assert request.chosen(request.sequences(settings)) == ["a", "b"]
    assert SequenceRequest(table=["x", "x"]).chosen(settings.sequences) == ["x"]
    with pytest.raises(ConfigProblem, match="no section sequences"):
        sequences_of(settings.model_copy(update={"sequences": None}), None)
    with pytest.raises(ConfigProblem, match="no tables"):
        SequenceRequest().chosen(settings.sequences.model_copy(update={"tables": {}}))
