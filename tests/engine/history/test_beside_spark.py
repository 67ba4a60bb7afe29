"""Spark beside a cleansing and after it: it reads every ref, writes on, and refuses what it had begun before."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cases import in_soak
from tests.engine.cleansed import People, email
from tests.small_lake import SmallLake

pytestmark = pytest.mark.spark

MERGE_ON_READ = {f"write.{what}.mode": "merge-on-read" for what in ("delete", "update", "merge")}


@pytest.fixture(scope="module")
def shared_lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallLake]:
    with SmallLake(tmp_path_factory.mktemp("cleansing") / "lake") as lake:
        lake.warden.ground.spark.sql("CREATE NAMESPACE main.crm")
        yield lake


class SparkPeople(People):
    """The table as Spark has it."""

    def sql(self, statement: str) -> list[Any]:
        return list(self.warden.ground.spark.sql(statement.replace("{t}", f"main.{self.name}")).collect())

    def made(self, by: str = "", **properties: str) -> SparkPeople:
        told = ", ".join(f"'{key}' = '{value}'" for key, value in {"format-version": "2", **properties}.items())
        self.sql(f"CREATE TABLE {{t}} (id BIGINT, email STRING) USING iceberg {by} TBLPROPERTIES ({told})")
        return self

    def insert(self, start: int, stop: int) -> None:
        person = "concat('person', id % 10, '@example.org')"
        self.sql(f"INSERT INTO {{t}} SELECT id, {person} FROM range({start}, {stop}, 1, 1)")

    def read(self, ref: str | int = "main", where: str = "true") -> list[tuple[Any, ...]]:
        """What Spark reads at a ref."""
        return sorted(map(tuple, self.sql(f"SELECT * FROM {{t}} VERSION AS OF {ref!r} WHERE {where}")))


def without(rows: list[Any], *who: int) -> list[Any]:
    return [row for row in rows if row[1] not in {email(number) for number in who}]


@pytest.mark.parametrize(
    "by",
    [
        "PARTITIONED BY (truncate(4, email))",
        *in_soak("", "PARTITIONED BY (bucket(4, email))"),
    ],
)
def test_spark_reads_every_ref_and_writes_on(shared_lake: SmallLake, by: str) -> None:
    people = SparkPeople(shared_lake.warden, f"crm.p{time.time_ns()}").made(by, **MERGE_ON_READ)
    people.insert(0, 100)
    people.sql("ALTER TABLE {t} CREATE TAG first RETAIN 30 DAYS")
    people.sql("ALTER TABLE {t} ADD COLUMN city STRING")
    people.sql("INSERT INTO {t} SELECT id, concat('person', id % 10, '@example.org'), 'Ulm' FROM range(100, 150, 1, 1)")
    people.sql("DELETE FROM {t} WHERE id IN (4, 13, 15, 113)")
    people.sql("ALTER TABLE {t} CREATE BRANCH dev")
    people.sql("UPDATE {t}.branch_dev SET city = 'Bonn' WHERE id IN (17, 117, 123)")
    people.sql("DELETE FROM {t} WHERE id = 24")
    before = {ref: people.read(ref) for ref in ("main", "first", "dev")}
    done = people.cleanse(people.rewritten({email(3), email(0)}))
    people.remove(done.superseded)
    assert done.delete_files_rewritten > 0
    for ref, rows in before.items():
        assert people.read(ref) == without(rows, 0, 3)
        for who in (2, 3, 5):
            assert people.read(ref, f"email = '{email(who)}'") == [
                row for row in without(rows, 0, 3) if row[1] == email(who)
            ]
    assert people.sql("SELECT COUNT(*), MIN(email), MAX(email) FROM {t}")[0][:] == (
        len(without(before["main"], 0, 3)),
        email(1),
        email(9),
    )
    head = people.refs["main"]
    people.sql("INSERT INTO {t} VALUES (900, 'a@b', 'Rom')")
    grown = sorted([*without(before["main"], 0, 3), (900, "a@b", "Rom")])
    assert people.read() == grown
    name, end = f"main.{people.name}", people.refs["main"]
    reader = shared_lake.warden.ground.spark.session().read.format("iceberg")
    appended = reader.option("start-snapshot-id", head).option("end-snapshot-id", end).load(name)
    assert list(map(tuple, appended.collect())) == [(900, "a@b", "Rom")]
    people.sql("DELETE FROM {t} WHERE id IN (900, 5, 26)")
    people.sql("UPDATE {t} SET city = 'Ulm' WHERE id = 7")
    left = [row if row[0] != 7 else (7, row[1], "Ulm") for row in grown if row[0] not in (900, 5, 26)]
    assert people.read() == left
    people.sql(f"CALL main.system.rewrite_data_files(table => '{people.name}', options => map('rewrite-all', 'true'))")
    people.sql(f"CALL main.system.rewrite_manifests(table => '{people.name}')")
    assert people.read() == left
    assert people.read("first") == without(before["first"], 0, 3)


@pytest.mark.parametrize("mode", ["copy-on-write", *in_soak("merge-on-read")])
def test_an_update_in_flight_is_refused_rather_than_doubling_a_row(
    shared_lake: SmallLake, tmp_path: Path, mode: str
) -> None:
    people = SparkPeople(shared_lake.warden, f"crm.p{time.time_ns()}").made(**{"write.update.mode": mode})
    people.insert(0, 40)
    people.insert(40, 80)
    begun, go = str(tmp_path / "begun"), str(tmp_path / "go")

    def wait(value: str) -> str:
        Path(begun).touch()
        for _ in range(1200):
            if Path(go).exists():
                break
            time.sleep(0.05)
        return value

    shared_lake.warden.ground.spark.session().udf.register("waited", wait, "string")
    raised: list[Exception] = []

    def update() -> None:
        try:
            people.sql("UPDATE {t} SET email = waited('new@example.org') WHERE id = 1")
        except Exception as error:  # noqa: BLE001 - which one it is, is what is asked
            raised.append(error)

    before = people.read()
    thread = threading.Thread(target=update)
    thread.start()
    try:
        for _ in range(1200):
            if Path(begun).exists():
                break
            time.sleep(0.05)
        assert Path(begun).exists()
        done = people.cleanse(people.rewritten({email(3)}))
    finally:
        Path(go).touch()
        thread.join()
    assert raised, "Spark committed an update of a version that is gone"
    people.remove(done.superseded)
    assert people.read() == without(before, 3)
    people.sql("UPDATE {t} SET email = 'new@example.org' WHERE id = 1")  # and now it may
    assert people.read() == sorted([*(row for row in without(before, 3) if row[0] != 1), (1, "new@example.org")])
