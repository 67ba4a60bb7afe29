"""Hides and rollbacks of a table that was upgraded to format v3 while rows were hidden."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from tests.deletes_by_hand import column_of, commit_deletes, equality_deletes, unpartitioned
from tests.features.erasure.hidden.test_restoring import hidden, others_go_on, sql, upgraded
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


class TestRollback:
    """To versions from before and after a withdrawal whose rows cannot be hidden and shown by delete files."""

    def test_to_a_version_without_the_rows_that_a_withdrawal_added(self, people: SmallLake) -> None:
        request = hidden(people, "1", "4")
        upgraded(people)
        sql(people, "DELETE FROM {} WHERE id = 5")  # Spark merges the hide file of one of both data files
        before = people.head(TABLE)
        people.warden.erasure.withdraw(request).apply()
        after = people.head(TABLE)
        planned = people.warden.version.rollback(f"{TABLE}@{before}")
        [lost] = about(request, planned.plan.warnings)
        assert lost == (
            f"this version hides 2 rows of request {request}, which was withdrawn; in format v3 only undoing the "
            "rollback, as shown below, shows them again"
        )
        undo = f"undo: lakewarden version rollback main.{TABLE}@before-rollback-{after} --not-ancestor --apply"
        assert planned.plan.warnings.index(undo) > planned.plan.warnings.index(lost)
        planned.apply()
        assert seen(people) == [0, 2, 3]
        undone = people.warden.version.rollback(f"{TABLE}@before-rollback-{after}", not_ancestor=True)
        assert not about(request, undone.plan.warnings)
        undone.apply()
        assert seen(people) == [0, 1, 2, 3, 4]

    def test_to_a_version_that_shows_them_is_not_warned_about(self, people: SmallLake) -> None:
        shows = people.head(TABLE)
        request = hidden(people, "1", "4")
        upgraded(people)
        people.warden.erasure.withdraw(request).apply()
        added = people.head(TABLE)
        sql(people, "INSERT INTO {} (id) VALUES (9)")
        for version in (shows, added):
            assert not about(request, people.warden.version.rollback(f"{TABLE}@{version}").plan.warnings)

    def test_to_a_tag_whose_later_versions_others_have_expired(self, people: SmallLake) -> None:
        request = hidden(people, "1", "4")
        upgraded(people)
        people.warden.version.tag(TABLE, "then").apply()
        sql(people, "INSERT INTO {} (id) VALUES (8)")
        people.warden.erasure.withdraw(request).apply()
        people.warden.version.tag(TABLE, "later").apply()
        others_go_on(people)
        assert about(request, people.warden.version.rollback(f"{TABLE}@then", not_ancestor=True).plan.warnings)
        later = people.warden.version.rollback(f"{TABLE}@later", not_ancestor=True)
        assert not about(request, later.plan.warnings)

    def test_to_a_version_that_hides_rows_of_a_request_that_was_withdrawn_in_format_v2(self, people: SmallLake) -> None:
        request = hidden(people, "1", "4")
        before = people.head(TABLE)
        people.warden.erasure.withdraw(request).apply()
        upgraded(people)
        [lost] = about(request, people.warden.version.rollback(f"{TABLE}@{before}").plan.warnings)
        assert "hides 2 rows" in lost and "erasure withdraw" not in lost

    def test_rows_that_did_not_come_back_are_not_promised(self, people: SmallLake) -> None:
        request = hidden(people, "1", "4")
        before = people.head(TABLE)
        table = people.catalog.load_table(TABLE)
        commit_deletes(table, equality_deletes(table, column_of("id", pa.int64(), 1, [5]), [1], unpartitioned(table)))
        upgraded(people)
        people.warden.erasure.withdraw(request).apply()  # names them: they stay hidden on main, too
        assert not about(request, people.warden.version.rollback(f"{TABLE}@{before}").plan.warnings)

    def test_from_a_damaged_version_is_planned_as_before(self, people: SmallLake) -> None:
        request = hidden(people, "1", "4")
        upgraded(people)
        before = people.head(TABLE)
        people.warden.erasure.withdraw(request).apply()
        Path(people.catalog.load_table(TABLE).current_snapshot().manifest_list.removeprefix("file:")).unlink()
        people.configure()
        assert people.warden.version.rollback(f"{TABLE}@{before}").apply().result["refs_moved"] == 1
        assert seen(people) == [0, 2, 3, 5]


def about(request: str, warnings: Sequence[str]) -> list[str]:
    return [warning for warning in warnings if request in warning]
