"""Hides and rollbacks of a table that was upgraded to format v3 while rows were hidden."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.features.erasure.hidden.test_restoring import hidden, sql, upgraded
from tests.features.erasure.people import ids, with_people
from tests.features.erasure.seen import seen
from tests.small_lake import SmallLake

pytestmark = pytest.mark.spark
TABLE = "crm.people"


@pytest.fixture
def people(tmp_path: Path) -> Iterator[SmallLake]:
    with SmallLake(tmp_path / "lake") as lake:
        yield with_people(lake)


def commits(lake: SmallLake) -> int:
    return len(lake.catalog.load_table(TABLE).snapshots())


def test_a_row_that_a_hide_file_masks_is_not_hidden_for_another_request(people: SmallLake) -> None:
    request = hidden(people, "4")
    upgraded(people)
    other = people.warden.erasure.request(TABLE, key="email", value=["p4@example.org"]).id
    before = commits(people)
    assert people.warden.erasure.hide(TABLE, now=True).is_empty
    assert people.warden.policy.run(TABLE, only=["hide"]).is_empty
    assert commits(people) == before

    assert not people.warden.erasure.withdraw(request).apply().result.get("rows_restored")
    assert seen(people) == ids(people) == [0, 1, 2, 3, 5]
    planned = people.warden.erasure.withdraw(other)
    assert not planned.plan.warnings
    assert planned.apply().result["rows_restored"] == 1
    assert seen(people) == ids(people) == [0, 1, 2, 3, 4, 5]


def test_a_row_that_was_added_again_is_hidden_for_the_next_request(people: SmallLake) -> None:
    request = hidden(people, "1", "4")
    upgraded(people)
    people.warden.erasure.withdraw(request).apply()
    people.warden.erasure.request(TABLE, key="id", value=["1"])
    before = commits(people)

    assert people.warden.erasure.hide(TABLE, now=True).apply().result["rows_hidden"] == 1

    assert seen(people) == ids(people) == [0, 2, 3, 4, 5]
    assert commits(people) == before + 1
    assert people.warden.erasure.hide(TABLE, now=True).is_empty


def test_upkeep_hides_only_what_is_shown_after_others_moved_main_back(people: SmallLake) -> None:
    hidden(people, "4")
    upgraded(people)
    before = people.head(TABLE)
    people.warden.erasure.request(TABLE, key="email", value=["p4@example.org", "p5@example.org"])
    assert people.warden.erasure.hide(TABLE, now=True).apply().result["rows_hidden"] == 1
    sql(people, f"CALL main.system.rollback_to_snapshot('{TABLE}', {before})")
    assert seen(people) == [0, 1, 2, 3, 5]

    assert people.warden.policy.run(TABLE, only=["hide"]).apply().result["rows_hidden"] == 1

    assert seen(people) == ids(people) == [0, 1, 2, 3]
    assert people.warden.policy.run(TABLE, only=["hide"]).is_empty
