"""Rows hidden in format v2 come back after an upgrade to v3, or are named with their number."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakewarden.errors import Conflict, Interrupted
from lakewarden.features.erasure.hidden.held_files import held_files
from lakewarden.lifecycle.failpoints import when
from tests.deletes_by_hand import column_of, commit_deletes, equality_deletes, unpartitioned
from tests.features.erasure.people import ids, with_people
from tests.features.erasure.seen import seen
from tests.small_lake import SmallLake

pytestmark = pytest.mark.spark
MERGES = "'write.delete.mode' = 'merge-on-read'"


@pytest.fixture
def people(tmp_path: Path) -> Iterator[SmallLake]:
    with SmallLake(tmp_path / "lake") as lake:
        yield with_people(lake)


def hidden(lake: SmallLake, *values: str) -> str:
    request: str = lake.warden.erasure.request("crm.people", key="id", value=list(values)).id
    lake.warden.erasure.hide("crm.people").apply()
    return request


def sql(lake: SmallLake, statement: str) -> None:
    lake.warden.ground.spark.sql(statement.format("main.crm.people")).collect()


def by_id(rows: list[Any]) -> list[Any]:
    return sorted(rows, key=lambda row: row["id"])


def upgraded(lake: SmallLake) -> None:
    sql(lake, f"ALTER TABLE {{}} SET TBLPROPERTIES ('format-version' = '3', {MERGES})")


def test_they_are_added_again(people: SmallLake) -> None:
    before = people.warden.version.read("crm.people", limit=100).rows
    request, other = hidden(people, "1", "4"), hidden(people, "4")
    upgraded(people)
    sql(people, "DELETE FROM {} WHERE id = 5")  # Spark merges the hide file of one of both data files
    assert seen(people) == [0, 2, 3]
    table = people.catalog.load_table("crm.people")
    files = people.warden.ground.files.of(table, table.current_snapshot())
    assert len(held_files(people.warden.ground, table, files)) == 2
    planned = people.warden.erasure.withdraw(request)
    assert not planned.plan.warnings
    assert planned.apply().result["rows_restored"] == 1
    assert seen(people) == ids(people) == [0, 1, 2, 3]
    assert people.warden.erasure.withdraw(other).apply().result["rows_restored"] == 1
    assert seen(people) == ids(people) == [0, 1, 2, 3, 4]
    back = people.warden.version.read("crm.people", limit=100).rows
    assert by_id(back) == [row for row in by_id(before) if row["id"] != 5]
    assert people.warden.erasure.show(other).state == "withdrawn"
    ground, table = people.warden.ground, people.catalog.load_table("crm.people")
    assert not held_files(ground, table, ground.files.of(table, table.current_snapshot()))


@pytest.mark.parametrize("point", ["withdraw.staged", "commit.landed", "withdraw.revealed"])
def test_stopped_anywhere_a_second_one_adds_them_once(people: SmallLake, point: str) -> None:
    request = hidden(people, "1", "4")
    upgraded(people)

    def stop() -> None:
        raise Interrupted("stopped", "")

    when(point, stop)
    with pytest.raises(Interrupted):
        people.warden.erasure.withdraw(request).apply()
    people.warden.erasure.withdraw(request).apply()
    assert seen(people) == ids(people) == [0, 1, 2, 3, 4, 5]
    stopped = people.warden.operation.list(kind="erasure.withdraw")[-1].id
    people.warden.operation.resume(stopped)
    assert seen(people) == [0, 1, 2, 3, 4, 5] and set(people.refs("crm.people")) == {"main"}


def test_files_that_were_rewritten_since_are_named(people: SmallLake) -> None:
    request, other = hidden(people, "1", "4"), hidden(people, "5")
    upgraded(people)
    purge = people.warden.erasure.purge("crm.people", request=[other], now=True)
    assert f"up to 2 rows that are hidden for {request} are deleted too" in " ".join(purge.plan.warnings)
    purge.apply()
    lost = people.warden.erasure.withdraw(request).plan.warnings
    assert len(lost) == 2  # in both files, which are no longer there
    assert all(each.startswith("main.crm.people: 1 row on branch main does not come back: ") for each in lost)
    people.warden.erasure.withdraw(request).apply()
    assert seen(people) == ids(people) == [0, 2, 3]


def test_those_of_other_branches_are_named(people: SmallLake) -> None:
    people.warden.version.branch("crm.people", "audit").apply()
    request = hidden(people, "1", "4")
    upgraded(people)
    [lost] = people.warden.erasure.withdraw(request).plan.warnings
    assert lost.startswith("main.crm.people: 2 rows on branch audit do not come back: in format v3")
    people.warden.erasure.withdraw(request).apply()
    assert (seen(people), seen(people, "audit")) == ([0, 1, 2, 3, 4, 5], [0, 2, 3, 5])


def test_a_purge_on_spark_does_not_take_the_column_of_another_request(people: SmallLake) -> None:
    upgraded(people)
    other = people.warden.erasure.request("crm.people", key="email", value=["p4@example.org"]).id
    request = people.warden.erasure.request("crm.people", key="id", value=["1"]).id
    sql(people, "ALTER TABLE {} DROP COLUMN email")
    with pytest.raises(Conflict, match="only that column shows which rows other requests cover"):
        people.warden.erasure.purge("crm.people", request=[request], now=True)
    people.warden.erasure.purge("crm.people", request=[request, other], now=True).apply()
    assert seen(people) == ids(people) == [0, 2, 3, 5]


def others_go_on(lake: SmallLake) -> None:
    """Another engine appends a row and expires all other versions."""
    sql(lake, "INSERT INTO {} (id) VALUES (9)")
    expire = "CALL main.system.expire_snapshots(table => 'crm.people', older_than => TIMESTAMP '2099-01-01 00:00:00'"
    lake.warden.ground.spark.sql(f"{expire}, retain_last => 1)").collect()


@pytest.mark.parametrize("point", ["commit.landed", "withdraw.staged"])
def test_stopped_and_then_expired_by_others_they_are_never_there_twice(people: SmallLake, point: str) -> None:
    request = hidden(people, "1", "4")
    upgraded(people)

    def stop() -> None:
        raise Interrupted("stopped", "")

    when(point, stop)
    with pytest.raises(Interrupted):
        people.warden.erasure.withdraw(request).apply()
    others_go_on(people)
    planned = people.warden.erasure.withdraw(request)
    if point == "commit.landed":
        assert not planned.plan.warnings
        planned.apply()
        assert seen(people) == [0, 1, 2, 3, 4, 5, 9]
    else:
        assert "it is not known whether the hidden rows" in " ".join(planned.plan.warnings)
        stopped = people.warden.operation.list(kind="erasure.withdraw")[-1].id
        with pytest.raises(Conflict, match="not known whether the hidden rows"):
            people.warden.operation.resume(stopped)
        planned.apply()
        assert seen(people) == [0, 2, 3, 5, 9]
    assert people.warden.erasure.show(request).state == "withdrawn"


def test_a_hide_whose_line_others_have_expired_is_taken_back(people: SmallLake) -> None:
    request = hidden(people, "1", "4")
    people.warden.version.tag("crm.people", "then").apply()
    others_go_on(people)
    upgraded(people)
    people.warden.erasure.withdraw(request).apply()
    assert seen(people) == [0, 1, 2, 3, 4, 5, 9]


def test_rows_in_files_with_equality_deletes_are_named(people: SmallLake) -> None:
    request = hidden(people, "1", "4")
    table = people.catalog.load_table("crm.people")
    commit_deletes(table, equality_deletes(table, column_of("id", pa.int64(), 1, [5]), [1], unpartitioned(table)))
    upgraded(people)
    warned = " ".join(people.warden.erasure.withdraw(request).plan.warnings)
    assert "up to 2 rows on main do not come back: equality deletes apply to their files" in warned
