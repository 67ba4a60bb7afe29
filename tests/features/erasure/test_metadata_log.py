"""The metadata log references no file that a purge or an expiry has deleted: Spark's procedures follow it.

Covers `engine/catalog/metadata_log.py`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cases import in_soak
from tests.reachability import aged
from tests.small_lake import SmallLake

pytestmark = pytest.mark.spark
PEOPLE = "crm.people"


@pytest.mark.parametrize("format", [2, *in_soak(3)])
def test_a_table_can_be_copied_after_a_purge_and_an_expiry(lake: SmallLake, format: int, tmp_path: Path) -> None:
    sql, place = lake.warden.ground.spark.sql, f"file:{lake.folder}/lake/warehouse/crm/people"  # as Hadoop spells it

    def copied(to: str) -> str:
        said = sql(
            f"CALL main.system.rewrite_table_path(table => '{PEOPLE}', source_prefix => '{place}', "
            f"target_prefix => 'file:/elsewhere', staging_location => 'file:{tmp_path / to}')"
        )
        return str(said.collect()[0]["latest_version"])

    lake.catalog.create_namespace("crm")
    sql(
        f"CREATE TABLE main.{PEOPLE} (id BIGINT, email STRING) USING iceberg LOCATION '{place}' "
        f"TBLPROPERTIES ('format-version' = '{format}', 'write.metadata.previous-versions-max' = '50')"
    ).collect()
    for start in (0, 10, 20):
        sql(f"INSERT INTO main.{PEOPLE} SELECT id, concat('p', id % 10) FROM range({start}, {start + 10})").collect()
    sql(f"ALTER TABLE main.{PEOPLE} CREATE TAG v1").collect()
    lake.warden.erasure.request(PEOPLE, key="email", value=["p3"])
    lake.warden.erasure.purge(PEOPLE).apply()
    table = lake.catalog.load_table(PEOPLE)
    assert copied("purged") == table.metadata_location.rsplit("/", 1)[1]
    assert table.metadata.properties["write.metadata.previous-versions-max"] == "50"
    assert not [name for name in table.metadata.properties if name.startswith("lakewarden.previous")]

    sql(f"INSERT INTO main.{PEOPLE} VALUES (99, 'p9')").collect()
    aged(lake, PEOPLE, 3)
    sql(f"ALTER TABLE main.{PEOPLE} SET TBLPROPERTIES ('colour' = 'blue')").collect()
    lake.warden.retention.expire(PEOPLE, keep_last=1, keep_days=0).apply()
    assert copied("expired")
    assert sql(f"SELECT count(*) FROM main.{PEOPLE}").collect()[0][0] == 28
