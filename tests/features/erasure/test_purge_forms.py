"""A purge through Spark, over Spark Connect and on S3: the same commands, each in a separate process.

Each process starts Spark, so one of them reads all versions, and the one that creates the table reads them too.
"""

from __future__ import annotations

import json

import pytest

from tests.engine.spark.test_forms import use
from tests.features.erasure.independent import Erased, traces
from tests.services.s3 import S3
from tests.small_lake import SmallLake

pytestmark = [pytest.mark.spark, pytest.mark.own_processes, pytest.mark.slow, pytest.mark.soak]

ORDERS = "sales.orders"
GONE = ("person-3@example.org", "person-7@example.org")
BEFORE = {"v0": set(range(20)), "v20": set(range(40)), "work": set(range(40)), "main": set(range(40)) - {3, 4, 13, 25}}


RUN_AND_READ = f"""
import json, sys
from lakewarden import Warden
with Warden.open(sys.argv[1]) as warden:
    for statement in sys.argv[2:]:
        warden.ground.spark.sql(statement).collect()
    read = {{ref: warden.version.read(f"{ORDERS}@{{ref}}", raw=True) for ref in {list(BEFORE)}}}
    print(json.dumps({{ref: [row["id"] for row in rows] for ref, rows in read.items()}}))
"""


def ids(lake: SmallLake, *statements: str) -> dict[str, set[int]]:
    """The rows of every version, as Spark reads them in a separate process after it has run some statements."""
    read = json.loads(lake.python(RUN_AND_READ, str(lake.folder), *statements))
    return {ref: set(found) for ref, found in read.items()}


def create(lake: SmallLake) -> dict[str, set[int]]:
    """Format v3, tags, a branch, and deletion vectors over rows that are to go and over others."""
    person = "concat('person-', id % 10, '@example.org')"
    return ids(
        lake,
        "CREATE NAMESPACE main.sales",
        f"CREATE TABLE main.{ORDERS} (id BIGINT, mail STRING) USING iceberg PARTITIONED BY (bucket(2, mail)) "
        "TBLPROPERTIES ('format-version' = '3', 'write.delete.mode' = 'merge-on-read')",
        f"INSERT INTO main.{ORDERS} SELECT id, {person} FROM range(0, 20)",
        f"ALTER TABLE main.{ORDERS} CREATE TAG v0",
        f"INSERT INTO main.{ORDERS} SELECT id, {person} FROM range(20, 40)",
        f"ALTER TABLE main.{ORDERS} CREATE TAG v20",
        f"ALTER TABLE main.{ORDERS} CREATE BRANCH work",
        f"DELETE FROM main.{ORDERS} WHERE id IN (3, 4, 13, 25)",
    )


def purge(lake: SmallLake) -> None:
    assert create(lake) == BEFORE
    asked = [part for value in GONE for part in ("--value", value)]
    request = json.loads(lake.run("erasure", "request", ORDERS, "--key", "mail", *asked, "--json").stdout)["id"]

    done = json.loads(lake.run("erasure", "purge", ORDERS, "--apply", "--json").stdout)

    assert done["operation"]["state"] == "done"
    assert (done["result"]["refs_repointed"], done["result"]["requests_closed"]) == (4, 1)
    assert ids(lake) == {ref: {id for id in rows if id % 10 not in (3, 7)} for ref, rows in BEFORE.items()}
    assert json.loads(lake.run("erasure", "show", request, "--json").stdout)["state"] == "closed"
    assert lake.run("erasure", "purge", ORDERS, "--check").returncode == 0


def test_over_spark_connect(lake: SmallLake, spark_connect: str) -> None:
    use(lake, remote=spark_connect)
    purge(lake)
    assert traces(lake.folder, [Erased(2, frozenset(GONE), frozenset())]) == []


def test_on_s3(on_s3: SmallLake, s3: S3) -> None:
    purge(on_s3)
    bucket = on_s3.warden.table.show(ORDERS).location.split("/")[2]
    objects = [path for path in (s3.folder / bucket).rglob("*") if path.is_file()]
    assert len(objects) > 10
    assert traces(s3.folder / bucket, [Erased(2, frozenset(GONE), frozenset())]) == []
    assert [path for path in objects if any(value.encode() in path.read_bytes() for value in GONE)] == []
