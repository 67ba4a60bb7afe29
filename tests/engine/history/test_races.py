"""A cleansing beside other writers: whatever they commit meanwhile is kept, and nothing erased comes back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lakewarden.engine.files.manifests import Manifests
from lakewarden.engine.history import carried_deletes
from lakewarden.engine.rows import position_deletes
from lakewarden.errors import CatalogUnavailable, CommitRefused, LeaseLost, StalePlan
from lakewarden.lifecycle.failpoints import when
from lakewarden.warden import Warden
from tests.engine.cleansed import People, email, local
from tests.engine.direct_commits import DirectCommits
from tests.engine.lakes import STAMP, Lake, lake

__all__ = ["lake"]


@pytest.fixture
def people(lake: Lake) -> People:
    people = People(lake.warden).create()
    people.append(range(20))
    people.tag("v1")
    people.append(range(20, 40))
    people.delete({people.files("v1").bare[0].path: [5, 7]})
    return people


@pytest.fixture
def others(people: People, lake: Lake) -> People:
    """The same table as another process has it."""
    return People(Warden.open(lake.folder))


@pytest.fixture
def meanwhile(people: People, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[int]]:
    """Lets somebody act after we have looked and before our commit reaches the catalog: some times, one by one."""

    def arm(*acts: Callable[[], object]) -> list[int]:
        catalog, left, seen = people.catalog, list(acts), list[int]()
        stage = catalog._update_and_stage_table

        def late(*args: Any, **kwargs: Any) -> Any:
            staged = stage(*args, **kwargs)
            seen.append(len(left))
            if left:
                left.pop(0)()
            return staged

        monkeypatch.setattr(catalog, "_update_and_stage_table", late)
        return seen

    return arm


def without(rows: list[Any], who: int) -> list[Any]:
    return [row for row in rows if row[1] != email(who)]


def finish(people: People, done: Any) -> None:
    people.remove(done.superseded)
    people.look_at_metadata()
    left = people.orphans()
    assert left == set(), left


def test_rows_that_are_appended_are_kept(people: People, others: People, meanwhile: Any) -> None:
    change = people.rewritten({email(3)})
    seen = meanwhile(lambda: others.append(range(100, 110), lambda id: 9), lambda: others.append(range(110, 120)))
    before = people.rows("main")
    done = people.cleanse(change)
    assert len(seen) == 3
    added = [(id, email(9)) for id in range(100, 110)] + [(id, email(id % 10)) for id in range(110, 120)]
    assert people.rows("main") == sorted(without(before, 3) + added)  # also 113: it came too late for this purge
    finish(people, done)


def test_a_delete_of_others_on_a_dirty_file_is_carried_over(people: People, others: People, meanwhile: Any) -> None:
    """Neither the row that they deleted nor the one that is erased comes back."""
    change = people.rewritten({email(3)})
    first = people.files("v1").bare[0].path
    meanwhile(lambda: others.delete({first: [14, 13]}))
    before = people.rows("main")
    done = people.cleanse(change)
    assert people.rows("main") == [row for row in without(before, 3) if row[0] not in (13, 14)]
    assert done.delete_files_rewritten == 2
    finish(people, done)


def test_deletes_are_not_written_again_for_each_attempt(
    people: People, others: People, meanwhile: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []
    honest = position_deletes.write_rows

    def counted(io: Any, path: str, *given: Any) -> int:
        written.append(path)
        return honest(io, path, *given)

    monkeypatch.setattr(carried_deletes, "write_rows", counted)
    change = people.rewritten({email(3)})
    meanwhile(*[lambda: others.append(range(3), lambda id: 9)] * 4)
    finish(people, people.cleanse(change))
    assert len(written) == 1


def test_what_an_attempt_wrote_and_the_last_one_does_not_need_goes(
    people: People, others: People, meanwhile: Any
) -> None:
    """The deletes were carried over for an attempt that lost; in the next one nothing has them any more."""
    first = people.files("v1").bare[0].path
    change = people.rewritten({email(3)})

    def roll_back() -> None:
        with others.table.manage_snapshots() as manage:
            manage.rollback_to_snapshot(others.table.snapshot_by_name("v1").snapshot_id)

    meanwhile(roll_back)
    before = people.rows("v1")
    done = people.cleanse(change)
    assert first in done.superseded
    assert people.all_rows() == dict.fromkeys(("main", "v1"), without(before, 3))
    assert done.delete_files_rewritten == 0
    finish(people, done)


@pytest.mark.parametrize("on", ["referenced", "dirty and unreferenced", "clean"])
def test_a_new_tag_is_never_lost(people: People, others: People, meanwhile: Any, on: str) -> None:
    unreferenced = people.table.metadata.snapshots[1].snapshot_id
    at = {"referenced": people.refs["v1"], "dirty and unreferenced": unreferenced}.get(on)
    if at is None:
        people.append(range(3), lambda id: 9, people_branch(people))
        at = people.refs["clean"]
    expected = without(people.rows(at), 3)
    change = people.rewritten({email(3)})
    meanwhile(lambda: others.tag("theirs", at))
    done = people.cleanse(change)
    assert people.rows("theirs") == expected
    finish(people, done)


def people_branch(people: People) -> str:
    """A branch that has nothing of what main has."""
    people.branch("clean")
    table = people.table
    with table.transaction() as transaction:
        transaction.delete("id >= 0", branch="clean")
    return "clean"


def test_a_tag_on_a_version_whose_files_were_not_replaced_makes_it_stale(
    people: People, others: People, meanwhile: Any
) -> None:
    import pyarrow as pa

    lonely = people.append(range(50, 60))
    people.table.overwrite(pa.table({"id": [1], "email": [email(9)]}))
    change = people.rewritten({email(3)})
    assert change.obsolete
    meanwhile(lambda: others.tag("theirs", lonely))
    before = people.all_rows()
    with pytest.raises(StalePlan, match="tag theirs"):
        people.cleanse(change)
    assert {ref: rows for ref, rows in people.all_rows().items() if ref != "theirs"} == before
    assert people.orphans() == of_new_files(change)


def of_new_files(change: Any) -> set[Any]:
    return {local(one.file.file_path) for one in change.replacements.values() if one.file is not None}


def test_nothing_is_left_where_every_attempt_loses(people: People, others: People, meanwhile: Any) -> None:
    """But for the new data files: they are whose who wrote them."""
    change = people.rewritten({email(3)})
    meanwhile(*[lambda: others.append(range(3), lambda id: 9)] * 20)
    with pytest.raises(CommitRefused):
        people.cleanse(change)
    assert people.orphans() == of_new_files(change)
    assert len(people.rows("v1")) == 20


def test_nothing_is_left_where_the_lease_is_lost(people: People) -> None:
    change = people.rewritten({email(3)})

    def fence() -> None:
        raise LeaseLost("somebody else has it")

    commits = DirectCommits(people.warden.ground.tables, fence, STAMP, Manifests(), sleep=lambda _: None)
    before = people.refs
    with pytest.raises(LeaseLost):
        commits.publish(change)
    assert people.refs == before and people.orphans() == of_new_files(change)


def test_nothing_is_left_where_it_cannot_be_told_what_goes(people: People) -> None:
    change = people.rewritten({email(3)})

    def about_to(paths: Any) -> None:
        raise StalePlan("the request was withdrawn")

    with pytest.raises(StalePlan):
        people.cleanse(change, about_to)
    assert people.orphans() == of_new_files(change)


@pytest.mark.parametrize("landed", [True, False])
def test_an_answer_that_is_lost_deletes_nothing(people: People, monkeypatch: pytest.MonkeyPatch, landed: bool) -> None:
    from pyiceberg.exceptions import CommitStateUnknownException

    commit = people.catalog.commit_table

    def unanswered(*args: Any, **kwargs: Any) -> Any:
        if landed:
            commit(*args, **kwargs)
        raise CommitStateUnknownException("no answer")

    change = people.rewritten({email(3)})
    before = people.all_rows()
    monkeypatch.setattr(people.catalog, "commit_table", unanswered)
    with pytest.raises(CatalogUnavailable, match="did not confirm whether"):
        people.cleanse(change)
    monkeypatch.undo()
    assert people.all_rows() == {ref: without(rows, 3) if landed else rows for ref, rows in before.items()}
    again = people.commits().publish(change)
    assert (again is None) == landed
    assert people.all_rows() == {ref: without(rows, 3) for ref, rows in before.items()}


def test_an_interrupt_after_it_landed_takes_nothing_away(people: People) -> None:
    change = people.rewritten({email(3)})
    before = people.all_rows()

    def interrupt() -> None:
        raise KeyboardInterrupt

    when("commit.landed", interrupt)
    with pytest.raises(KeyboardInterrupt):
        people.cleanse(change)
    assert people.all_rows() == {ref: without(rows, 3) for ref, rows in before.items()}
