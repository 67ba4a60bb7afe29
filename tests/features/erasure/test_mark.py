"""A wrong `state` in the configuration shows no hidden rows: the table says which control database knows of them.

Covers `features/erasure/requests/mark_action.py`.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakewarden.engine.storage.erasure_mark import place_of
from lakewarden.errors import StateUnavailable
from lakewarden.lifecycle.failpoints import when
from tests.features.erasure.independent_rows import local
from tests.features.erasure.people import configured, ids, with_people
from tests.killing import bury
from tests.services.s3_versions import VersionedS3
from tests.small_lake import SmallLake


def hidden(lake: SmallLake) -> Path:
    """A lake with a hidden row; answers with the mark that it left."""
    with_people(lake)
    lake.warden.erasure.request("crm.people", key="email", value=["p4@example.org"])
    return mark_of(lake)


def absent(lake: SmallLake, name: str = "crm.people") -> str:
    """A request that a proof closes at once: its value occurs nowhere."""
    return str(lake.warden.erasure.request(name, key="email", value=["p99@example.org"]).id)


def mark_of(lake: SmallLake, name: str = "crm.people") -> Path:
    return local(place_of(lake.catalog.load_table(name)))


def test_the_mark_holds_no_value_and_outlives_other_requests(any_lake: SmallLake) -> None:
    mark = hidden(any_lake)
    content = mark.read_text()
    assert set(json.loads(content)) == {"uuid", "control"} and "p4@" not in content
    any_lake.warden.erasure.request("crm.people", key="id", value=["1"])
    assert mark.read_text() == content and ids(any_lake) == [0, 2, 3, 5]


@pytest.mark.parametrize("kind", ["missing", "another"])
def test_reads_through_another_control_database_are_refused(lake: SmallLake, kind: str) -> None:
    hidden(lake)
    with_people(lake, "web.people")
    assert next(check.state for check in lake.warden.lake.doctor(skip_spark=True) if check.part == "erasure") == "ok"
    configured(lake, state="sqlite:///wrong.db")
    if kind == "another":
        lake.warden.erasure.request("web.people", key="id", value=["1"])
    with pytest.raises(StateUnavailable, match="main.crm.people: its erasure requests are registered in a control"):
        lake.warden.version.read("crm.people")
    assert ids(lake, "web.people") == ([0, 2, 3, 4, 5] if kind == "another" else [0, 1, 2, 3, 4, 5])
    [check] = [check for check in lake.warden.lake.doctor(skip_spark=True) if check.part == "erasure"]
    assert check.state == "failed" and "1 table has requests" in check.found and "main.crm.people" in check.found
    assert (lake.folder / "wrong.db").exists() is (kind == "another")  # looking makes nothing
    assert ids(lake, raw=True) == [0, 1, 2, 3, 4, 5]  # which is recorded
    with pytest.raises(StateUnavailable, match="registered in a control database other"):
        lake.warden.erasure.request("crm.people", key="id", value=["2"])
    configured(lake, state="sqlite:///lakewarden.db")
    assert ids(lake) == [0, 1, 2, 3, 5]


def test_a_damaged_mark_shows_nothing(lake: SmallLake) -> None:
    hidden(lake).write_bytes(b"{")
    with pytest.raises(StateUnavailable):
        lake.warden.version.read("crm.people")


def test_a_table_that_was_made_anew_at_the_same_place_is_not_marked(lake: SmallLake) -> None:
    mark = hidden(lake)
    mark.write_text(json.dumps({**json.loads(mark.read_text()), "uuid": "another"}))
    assert ids(lake) == [0, 1, 2, 3, 5]


def test_a_place_that_cannot_be_marked_is_a_note_and_the_request_stands(lake: SmallLake) -> None:
    with_people(lake)
    folder = local(place_of(lake.catalog.load_table("crm.people"))).parent
    folder.write_text("a file where the folder would be")
    done = lake.warden.erasure.request("crm.people", key="email", value=["p4@example.org"])
    assert any("could not be marked" in note for note in done.notes) and ids(lake) == [0, 1, 2, 3, 5]


def test_a_hide_leaves_the_mark_that_is_missing(lake: SmallLake) -> None:
    """As after a kill right after the registration, and for requests of before there were marks."""
    mark = hidden(lake)
    mark.unlink()
    lake.warden.erasure.hide("crm.people").apply()
    assert mark.exists()


class TestItGoesWithTheLastRequest:
    def test_closed_or_withdrawn(self, any_lake: SmallLake) -> None:
        """A control database that is lost afterwards locks no table in which nothing is hidden."""
        mark, closed = hidden(any_lake), absent(any_lake)
        [first] = [request.id for request in any_lake.warden.erasure.list() if request.id != closed]
        any_lake.warden.erasure.withdraw(first).apply()
        assert mark.exists()
        any_lake.warden.erasure.prove(closed).apply()
        assert not mark.exists()
        last = any_lake.warden.erasure.request("crm.people", key="id", value=["1"]).id
        assert mark.exists()
        any_lake.warden.erasure.withdraw(last).apply()
        assert not mark.exists()
        configured(any_lake, state="sqlite:///another.db")
        assert ids(any_lake) == [0, 1, 2, 3, 4, 5]

    def test_a_request_for_two_tables_takes_both_but_not_that_of_another_request(self, lake: SmallLake) -> None:
        mark = hidden(lake)
        with_people(lake, "web.people")
        configured(lake, subjects={"person": {"crm.people": "email", "web.people": "email"}})
        id = lake.warden.erasure.request(subject="person", value=["p99@example.org"]).id
        other = mark_of(lake, "web.people")
        assert mark.exists() and other.exists()
        lake.warden.erasure.prove(id).apply()
        assert mark.exists() and not other.exists()

    def test_all_versions_of_it_in_a_bucket(self, on_versioned_s3: SmallLake, versioned_s3: VersionedS3) -> None:
        with_people(on_versioned_s3)
        bucket = on_versioned_s3.catalog.load_table("crm.people").metadata.location.split("/")[2]

        def marks() -> int:
            return sum(key.endswith("/erasure.json") for key in versioned_s3.everything(bucket))

        id = absent(on_versioned_s3)
        assert marks() == 1
        on_versioned_s3.warden.erasure.prove(id).apply()
        assert marks() == 0

    def test_that_of_another_control_database_stays(self, lake: SmallLake) -> None:
        mark = hidden(lake)
        theirs = json.dumps({**json.loads(mark.read_text()), "control": "another"})
        [request] = lake.warden.erasure.list()
        when("withdraw.ended", lambda: mark.write_text(theirs))
        lake.warden.erasure.withdraw(request.id).apply()
        assert mark.read_text() == theirs and lake.warden.policy.run(only=["mark"]).is_empty

    def test_a_request_that_is_registered_meanwhile_has_it(self, lake: SmallLake) -> None:
        """The registration saw the mark of the request before it, just before that was removed."""
        mark = hidden(lake)
        content, [request] = mark.read_text(), lake.warden.erasure.list()

        def register() -> None:
            mark.write_text(content)
            lake.warden.erasure.request("crm.people", key="id", value=["2"])
            mark.unlink()

        when("mark.removed", register)
        lake.warden.erasure.withdraw(request.id).apply()
        assert mark.read_text() == content and ids(lake) == [0, 1, 3, 4, 5]

    @pytest.mark.parametrize("then", ["operation resume", "policy run --only mark --apply"])
    @pytest.mark.parametrize(("verb", "point"), [("withdraw", "withdraw.ended"), ("prove", "prove.closed")])
    def test_what_a_killed_run_leaves_is_removed(self, lake: SmallLake, verb: str, point: str, then: str) -> None:
        with_people(lake)
        id = absent(lake)
        killed = lake.run(
            "erasure", verb, id, *(["--apply"] if verb == "withdraw" else []), failpoints=f"kill@{point}", check=None
        )
        assert killed.returncode < 0 and mark_of(lake).exists()
        assert ids(lake) == [0, 1, 2, 3, 4, 5]
        bury(lake)
        lake.run(*then.split())
        assert not mark_of(lake).exists()

    def test_storage_that_keeps_it_fails_nothing(self, lake: SmallLake, caplog: pytest.LogCaptureFixture) -> None:
        mark = hidden(lake)
        [request] = lake.warden.erasure.list()
        elsewhere = lake.folder / "mark.json"

        def refuse() -> None:
            mark.rename(elsewhere)
            mark.mkdir()

        when("storage.deleting", refuse)
        lake.warden.erasure.withdraw(request.id).apply()
        assert "crm.people keeps the mark" in caplog.text
        mark.rmdir()
        elsewhere.rename(mark)
        lake.warden.policy.run(only=["mark"]).apply()
        assert not mark.exists()


def test_upkeep_leaves_a_mark_that_is_missing(lake: SmallLake) -> None:
    mark = hidden(lake)
    assert lake.warden.policy.run(only=["mark"]).is_empty
    mark.unlink()
    lake.warden.policy.run(only=["mark"]).apply()
    assert mark.exists() and lake.warden.policy.run(only=["mark"]).is_empty
