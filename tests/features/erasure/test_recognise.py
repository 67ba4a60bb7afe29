"""`erasure recognise`: by digests alone, before and after the values were forgotten; and every question is recorded."""

from __future__ import annotations

import json
import subprocess

import pytest

from lakewarden.errors import BadValue, NotFound
from tests.features.erasure.certified import carried_out
from tests.features.erasure.people import configured, with_people
from tests.small_lake import SmallLake


def test_yes_or_no_and_who_asked_is_recorded(any_lake: SmallLake) -> None:
    lake = with_people(any_lake)
    request = carried_out(lake)
    for value, expected in (("p1@example.org", True), ("p3@example.org", False), ("P1@example.org", False)):
        answer = lake.warden.erasure.recognise(request, value=[value])
        assert (answer.recognised, answer.state) == (expected, "closed")
        [noted] = lake.warden.operation.list(kind="erasure.recognise", limit=1)
        shown = lake.warden.operation.show(noted.id)
        assert (noted.id, noted.target, noted.state) == (answer.operation, request, "done")
        assert shown.result == {"recognised": expected} and shown.request == {"id": request}
        assert value not in str(shown)


def test_by_keys_of_any_type_and_in_any_spelling_that_is_ignored(lake: SmallLake) -> None:
    with_people(with_people(lake), "web.people")
    configured(lake, subjects={"customer": {"crm.people": "id", "web.people": "email"}})
    mixed = lake.warden.erasure.request(subject="customer", value=["007"]).id
    assert lake.warden.erasure.recognise(mixed, value=["7"]).recognised
    assert not lake.warden.erasure.recognise(mixed, value=["x"]).recognised
    folded = carried_out(lake, value=["P1@example.org"], ignore_case=True, trim=True)
    assert lake.warden.erasure.recognise(folded, value=[" p1@EXAMPLE.org "]).recognised
    assert not lake.warden.erasure.recognise(folded, value=["p2@example.org"]).recognised


def test_on_the_command_line_by_exit_code(lake: SmallLake) -> None:
    with_people(lake)
    request = carried_out(lake)
    for value, code in (("p1@example.org", 0), ("nobody@example.org", 3)):
        command = lake.command("erasure", "recognise", request, "--value", "-", "--json")
        done = subprocess.run(command, input=f"{value}\n", capture_output=True, text=True, check=False)
        assert done.returncode == code and value not in done.stdout + done.stderr
        assert json.loads(done.stdout)["recognised"] is (code == 0)


def test_what_cannot_be_asked(lake: SmallLake) -> None:
    with_people(lake)
    request = carried_out(lake)
    for wrong in ([], ["secret", "other"]):
        with pytest.raises(BadValue, match="values were given") as caught:
            lake.warden.erasure.recognise(request, value=wrong)
        assert "secret" not in str(caught.value)
    with pytest.raises(NotFound):
        lake.warden.erasure.recognise("er-1", value=["x"])
