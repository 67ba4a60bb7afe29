"""Requests follow their table when it gets another name; one that cannot be found for the moment is not gone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lakewarden.errors import BrokenTable, LakewardenError, TableNotFound
from lakewarden.features.erasure.requests.due import agenda
from tests.features.erasure.people import configured, ids, with_people
from tests.features.erasure.seen import append, seen
from tests.small_lake import SmallLake

NOBODYS = "p4@example.org"


def asked(lake: SmallLake, table: str = "crm.people", value: str = NOBODYS) -> str:
    return str(lake.warden.erasure.request(table, key="email", value=[value]).id)


def rename(lake: SmallLake) -> None:
    lake.catalog.rename_table("crm.people", "crm.persons")


@contextmanager
def unreadable(lake: SmallLake, name: str) -> Iterator[None]:
    """A table whose metadata is not to be had for a while."""
    file = Path(lake.catalog.load_table(name).metadata_location.removeprefix("file://"))
    away = file.rename(file.with_suffix(".away"))
    try:
        yield
    finally:
        away.rename(file)


class TestPurge:
    @pytest.mark.parametrize("how", ["table", "request", "all"])
    def test_by_its_new_name_by_request_and_among_all(self, lake: SmallLake, how: str) -> None:
        with_people(lake)
        id = asked(lake)
        rename(lake)
        said: dict[str, dict[str, Any]] = {
            "table": {"table": "crm.persons"},
            "request": {"request": [id]},
            "all": {"all": True},
        }
        lake.warden.erasure.purge(**said[how]).apply()
        assert lake.warden.erasure.show(id).state == "closed"
        assert seen(lake, name="crm.persons") == [0, 1, 2, 3, 5]

    def test_asked_for_under_both_names_it_is_one_table(self, lake: SmallLake) -> None:
        with_people(lake)
        one = asked(lake)
        rename(lake)
        two = asked(lake, "crm.persons", "p1@example.org")
        (due,) = agenda(lake.warden.ground, None, True, [], False).tables
        assert (due.table, set(due.ids)) == ("main.crm.persons", {one, two})
        lake.warden.erasure.purge(all=True).apply()
        assert [lake.warden.erasure.show(id).state for id in (one, two)] == ["closed", "closed"]
        assert seen(lake, name="crm.persons") == [0, 2, 3, 5]

    def test_another_table_has_its_old_name(self, lake: SmallLake) -> None:
        with_people(lake)
        id = asked(lake)
        rename(lake)
        with_people(lake, "crm.newcomers")
        lake.catalog.rename_table("crm.newcomers", "crm.people")
        lake.warden.erasure.purge(request=[id]).apply()
        assert seen(lake, name="crm.persons") == [0, 1, 2, 3, 5]
        assert seen(lake) == [0, 1, 2, 3, 4, 5]

    def test_it_is_gone(self, lake: SmallLake) -> None:
        with_people(lake)
        id = asked(lake)
        lake.catalog.drop_table("crm.people")
        with pytest.raises(TableNotFound, match=r"crm\.people"):
            lake.warden.erasure.purge(request=[id])

    def test_it_cannot_be_read(self, lake: SmallLake) -> None:
        with_people(lake)
        id = asked(lake)
        rename(lake)
        with unreadable(lake, "crm.persons"), pytest.raises(LakewardenError):
            lake.warden.erasure.purge(request=[id])
        lake.warden.erasure.purge(request=[id]).apply()
        assert lake.warden.erasure.show(id).state == "closed"


class TestHide:
    @pytest.mark.parametrize("is_taken", [False, True], ids=["free", "taken"])
    def test_by_request(self, lake: SmallLake, is_taken: bool) -> None:
        """Whether its old name is free, or another table has it by now."""
        with_people(lake)
        id = asked(lake)
        rename(lake)
        if is_taken:
            with_people(lake)
        planned = lake.warden.erasure.hide(request=[id])
        assert planned.plan.subjects == ("main.crm.persons",)
        planned.apply()
        assert seen(lake, name="crm.persons") == [0, 1, 2, 3, 5]
        assert not is_taken or seen(lake) == [0, 1, 2, 3, 4, 5]


class TestWithdraw:
    def test_hidden_rows_are_seen_again(self, any_lake: SmallLake) -> None:
        lake = with_people(any_lake)
        id = asked(lake)
        lake.warden.erasure.hide("crm.people").apply()
        rename(lake)
        assert seen(lake, name="crm.persons") == [0, 1, 2, 3, 5]
        planned = lake.warden.erasure.withdraw(id)
        assert planned.plan.warnings == ()
        assert [(each.verb, each.subject) for each in planned.plan.actions] == [
            ("reveal", "main.crm.persons"),
            ("withdraw", "main.crm.persons"),
        ]
        planned.apply()
        assert lake.warden.erasure.show(id).state == "withdrawn"
        assert seen(lake, name="crm.persons") == ids(lake, "crm.persons") == [0, 1, 2, 3, 4, 5]

    def test_nothing_ends_while_it_cannot_be_told_where_the_table_is(self, lake: SmallLake) -> None:
        with_people(lake)
        id = asked(lake)
        lake.warden.erasure.hide("crm.people").apply()
        rename(lake)
        with unreadable(lake, "crm.persons"), pytest.raises(BrokenTable, match=r"while main\.crm\.persons cannot be"):
            lake.warden.erasure.withdraw(id)
        lake.warden.erasure.withdraw(id).apply()
        assert seen(lake, name="crm.persons") == [0, 1, 2, 3, 4, 5]


class TestProve:
    def test_a_table_that_cannot_be_read_is_not_gone(self, lake: SmallLake) -> None:
        with_people(lake)
        id = asked(lake)
        rename(lake)
        with unreadable(lake, "crm.persons"):
            for accept in (False, True):
                with pytest.raises(BrokenTable, match=r"while main\.crm\.persons cannot be read"):
                    lake.warden.erasure.prove(id, accept_missing=accept)
        assert lake.warden.erasure.show(id).state == "open"

    def test_another_one_that_cannot_be_read_does_not_matter_where_it_is_found(self, lake: SmallLake) -> None:
        with_people(lake)
        with_people(lake, "crm.others")
        id = asked(lake)
        rename(lake)
        with unreadable(lake, "crm.others"):
            (action,) = lake.warden.erasure.prove(id).plan.actions
        assert action.subject == "main.crm.persons"


class TestWatch:
    COMES = "p8@example.org"

    def came_back(self, lake: SmallLake, names: Sequence[str]) -> str:
        """A request that was closed, and whose person came back to crm.people after that got another name."""
        configured(lake, subjects={"customer": dict.fromkeys(names, "email")})
        old = str(lake.warden.erasure.request(subject="customer", value=[self.COMES]).id)
        lake.warden.erasure.prove(old).apply()
        assert lake.warden.erasure.show(old).state == "closed"
        rename(lake)
        append(lake, 8, name="crm.persons")
        return old

    def again(self, lake: SmallLake) -> Any:
        report = lake.warden.erasure.watch("crm.persons", again=True).apply()
        assert report.result["requests_registered"] == 1
        return lake.warden.erasure.show(report.result["registered"])

    def test_whoever_came_back_is_asked_for_by_the_present_name(self, lake: SmallLake) -> None:
        with_people(lake)
        configured(lake, tables={"crm.persons": {"erasure": {"grace": "3d"}}})
        old = self.came_back(lake, ["crm.people"])
        new = self.again(lake)
        assert new.reason == f"came back after {old}" and (new.grace_until - new.created_at).days == 3
        assert [key.table for key in new.keys] == ["main.crm.persons"]
        assert lake.warden.erasure.watch("crm.persons").is_empty
        lake.warden.erasure.purge(request=[new.id], now=True).apply()
        assert lake.warden.erasure.show(new.id).state == "closed"
        assert seen(lake, name="crm.persons") == [0, 1, 2, 3, 4, 5]

    def test_another_table_of_the_subject_does_not_stand_for_it(self, lake: SmallLake) -> None:
        with_people(lake)
        with_people(lake, "crm.others")
        self.came_back(lake, ["crm.people", "crm.others"])
        new = self.again(lake)
        assert {key.table for key in new.keys} == {"main.crm.persons", "main.crm.others"}
        lake.warden.erasure.purge(request=[new.id]).apply()
        assert lake.warden.erasure.show(new.id).state == "closed"
        assert seen(lake, name="crm.persons") == seen(lake, name="crm.others") == [0, 1, 2, 3, 4, 5]

    def test_another_table_of_the_subject_that_is_renamed_or_gone(self, lake: SmallLake) -> None:
        for name in ("crm.people", "crm.others", "crm.more"):
            with_people(lake, name)
        self.came_back(lake, ["crm.people", "crm.others", "crm.more"])
        lake.catalog.rename_table("crm.others", "crm.strangers")
        lake.catalog.drop_table("crm.more")
        assert {key.table for key in self.again(lake).keys} == {"main.crm.persons", "main.crm.strangers"}

    def test_nobody_counts_as_asked_for_while_it_cannot_be_told_where_another_table_is(self, lake: SmallLake) -> None:
        with_people(lake)
        with_people(lake, "crm.others")
        self.came_back(lake, ["crm.people", "crm.others"])
        lake.catalog.rename_table("crm.others", "crm.strangers")
        with unreadable(lake, "crm.strangers"), pytest.raises(BrokenTable, match=r"while main\.crm\.strangers cannot"):
            lake.warden.erasure.watch("crm.persons", again=True).apply()
        assert lake.warden.erasure.list(state=["open"]) == []
        assert len(self.again(lake).keys) == 2
