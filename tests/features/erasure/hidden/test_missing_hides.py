"""Rows that were hidden stay hidden: a rollback hides them again, and upkeep notices where that is missing.

Covers `features/erasure/hidden/lost_rows.py`.
"""

from __future__ import annotations

import pytest

from lakewarden.errors import LakewardenError
from lakewarden.lifecycle.failpoints import when
from tests.features.erasure.people import with_people
from tests.features.erasure.seen import append, seen
from tests.small_lake import SmallLake

PEOPLE = "crm.people"


def hidden(lake: SmallLake) -> int:
    """People of whom two are hidden, and one is only asked for; the version that shows all of them."""
    with_people(lake)
    before = lake.head(PEOPLE)
    for value in ("1", "4"):
        lake.warden.erasure.request(PEOPLE, key="id", value=[value])
    lake.warden.erasure.hide(PEOPLE).apply()
    lake.warden.erasure.request(PEOPLE, key="id", value=["2"])
    append(lake, 6)
    assert seen(lake) == [0, 2, 3, 5, 6]
    return before


def moved_back(lake: SmallLake, to: int) -> None:
    """Roll back as another engine does."""
    with lake.catalog.load_table(PEOPLE).manage_snapshots() as change:
        change.rollback_to_snapshot(to)


def test_a_rollback_hides_again_what_was_hidden(lake: SmallLake) -> None:
    before = hidden(lake)
    planned = lake.warden.version.rollback(f"{PEOPLE}@{before}")
    assert [action.says for action in planned.plan.actions][1:] == ["hide 2 rows of 2 requests on branch main"]
    (warning,) = [text for text in planned.plan.warnings if "erasure" in text]
    assert warning.startswith("this version shows 2 rows of 2 open erasure requests that are hidden now")
    result = planned.apply().result
    assert (result["refs_moved"], result["rows_hidden"]) == (1, 2)
    assert seen(lake) == [0, 2, 3, 5]
    assert lake.warden.policy.run(PEOPLE, only=["hide"]).is_empty


def test_a_rollback_that_stopped_in_between_is_resumed(lake: SmallLake) -> None:
    before = hidden(lake)

    def stop() -> None:
        raise KeyboardInterrupt

    when("hide.written", stop)
    with pytest.raises((KeyboardInterrupt, LakewardenError)):
        lake.warden.version.rollback(f"{PEOPLE}@{before}").apply()
    assert seen(lake) == [0, 1, 2, 3, 4, 5]
    (stopped,) = lake.warden.operation.list(kind="version.rollback")
    lake.warden.operation.resume(stopped.id)
    assert seen(lake) == [0, 2, 3, 5]


def test_a_rollback_to_what_hides_a_withdrawn_request_says_how_to_show_it(lake: SmallLake) -> None:
    with_people(lake)
    asked = lake.warden.erasure.request(PEOPLE, key="id", value=["1"])
    lake.warden.erasure.hide(PEOPLE).apply()
    hides = lake.head(PEOPLE)
    lake.warden.erasure.withdraw(asked.id).apply()
    planned = lake.warden.version.rollback(f"{PEOPLE}@{hides}")
    (warning,) = [text for text in planned.plan.warnings if "withdrawn" in text]
    assert warning.endswith(f"lakewarden erasure withdraw {asked.id}")
    planned.apply()
    assert seen(lake) == [0, 2, 3, 4, 5]
    lake.warden.erasure.withdraw(asked.id).apply()
    assert seen(lake) == [0, 1, 2, 3, 4, 5]


def test_without_hidden_rows_nothing_is_added(lake: SmallLake) -> None:
    with_people(lake)
    first = lake.catalog.load_table(PEOPLE).metadata.snapshots[0].snapshot_id
    lake.warden.erasure.request(PEOPLE, key="id", value=["1"])  # which nobody has hidden from other engines
    planned = lake.warden.version.rollback(f"{PEOPLE}@{first}")
    assert len(planned.plan.actions) == 1
    assert not [text for text in planned.plan.warnings if "erasure" in text]


def test_upkeep_and_health_notice_it(lake: SmallLake) -> None:
    before = hidden(lake)
    (healthy,) = lake.warden.table.health(PEOPLE)
    assert "visible again" not in healthy.worst
    moved_back(lake, before)
    assert seen(lake) == [0, 1, 2, 3, 4, 5]
    (found,) = lake.warden.table.health(PEOPLE)
    assert found.worst == "2 hidden rows of erasure requests visible again"
    assert found.next == f"lakewarden erasure hide main.{PEOPLE}"
    planned = lake.warden.policy.run(PEOPLE, only=["hide"])
    assert [action.says for action in planned.plan.actions] == ["hide 2 rows of 2 requests on branch main"]
    planned.apply()
    assert seen(lake) == [0, 2, 3, 5]  # and not who was only asked for
    assert lake.warden.policy.run(PEOPLE, only=["hide"]).is_empty
    (found,) = lake.warden.table.health(PEOPLE)
    assert "visible again" not in found.worst


def test_a_branch_at_an_old_version_is_noticed(lake: SmallLake) -> None:
    before = hidden(lake)
    lake.warden.version.branch(f"{PEOPLE}@{before}", "old").apply()
    planned = lake.warden.policy.run(PEOPLE, only=["hide"])
    assert [action.arguments["branch"] for action in planned.plan.actions] == ["old"]
    planned.apply()
    assert seen(lake, "old") == [0, 2, 3, 5]


def test_the_version_that_hid_them_may_expire(lake: SmallLake) -> None:
    hidden(lake)
    lake.warden.retention.expire(PEOPLE, keep_last=1, keep_days=0).apply()
    assert lake.warden.policy.run(PEOPLE, only=["hide"]).is_empty
    assert seen(lake) == [0, 2, 3, 5, 6]
