"""A wrong `state` in the configuration shows no hidden rows: the table says which control database knows of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakewarden.engine.storage.erasure_mark import place_of
from lakewarden.errors import StateUnavailable
from tests.features.erasure.independent_rows import local
from tests.features.erasure.people import configured, ids, with_people
from tests.small_lake import SmallLake


def hidden(lake: SmallLake) -> Path:
    """A lake with a hidden row; answers with the mark that it left."""
    with_people(lake)
    lake.warden.erasure.request("crm.people", key="email", value=["p4@example.org"])
    return local(place_of(lake.catalog.load_table("crm.people")))


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
    assert ids(lake, raw=True) == [0, 1, 2, 3, 4, 5]
    assert ids(lake, "web.people") == ([0, 2, 3, 4, 5] if kind == "another" else [0, 1, 2, 3, 4, 5])
    [check] = [check for check in lake.warden.lake.doctor(skip_spark=True) if check.part == "erasure"]
    assert check.state == "failed" and "1 table has requests" in check.found and "main.crm.people" in check.found
    assert (lake.folder / "wrong.db").exists() is (kind == "another")  # looking makes nothing
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
