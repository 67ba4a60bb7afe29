"""Operations about something that is no table: leased, killed, resumed, verified and journaled like any other."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakewarden import features
from lakewarden.errors import LeaseHeld, StalePlan
from lakewarden.lifecycle.plan import Plan
from tests import killing
from tests.lifecycle import note
from tests.small_lake import SQLITE_FIRST, SmallLake

INSTALLED = "from tests.lifecycle import note; note.install()"


@pytest.fixture
def notes(tmp_path: Path, state_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[SmallLake]:
    """Two files beside a lake without tables, and a noun that is about files."""
    monkeypatch.setattr(features, "NOUNS", features.NOUNS)
    for name in ("lakewarden.features.note", "lakewarden.features.note.append"):
        monkeypatch.setitem(sys.modules, name, sys)  # so that both are taken away again
    note.install()
    (tmp_path / "notes").mkdir()
    for file in ("a", "b"):
        (tmp_path / "notes" / file).write_text(f"{file}\n")
    with SmallLake(tmp_path / "lake", state_url, lease_timeout="2s") as lake:
        yield lake


def files(tmp_path: Path) -> dict[str, str]:
    return {file.name: file.read_text() for file in sorted((tmp_path / "notes").iterdir())}


def append(tmp_path: Path, line: str) -> tuple[str, ...]:
    return ("note", "append", "--line", line, *(each for n in "ab" for each in ("--file", str(tmp_path / "notes" / n))))


@SQLITE_FIRST
def test_an_operation_on_files_killed_at_every_step(notes: SmallLake, tmp_path: Path, soaking: bool) -> None:
    """`make test` kills each point once, `make soak` also those that are passed again."""
    trace, expected = tmp_path / "trace", {"a": "a\n0\n", "b": "b\n0\n"}
    killing.run(notes, *append(tmp_path, "0"), failpoints=f"trace:{trace}", first=INSTALLED)
    points = trace.read_text().split()
    assert points.count("note.staged") == points.count("note.replaced") == points.count("action.journaled") == 2
    assert files(tmp_path) == expected

    for number, point in enumerate(points, start=1):
        if not soaking and point in points[: number - 1]:
            continue
        killing.kill(notes, number, point, *append(tmp_path, str(number)), first=INSTALLED)
        killing.bury(notes)
        if point == "operation.leased":  # nothing is written down before that: nothing has begun
            assert files(tmp_path) == expected
            killing.run(notes, *append(tmp_path, str(number)), first=INSTALLED)
        elif point != "operation.done":
            (resumed,) = json.loads(killing.run(notes, "operation", "resume", "--json", first=INSTALLED))
            assert (resumed["state"], resumed["done"]) == ("done", 2), point
        expected = {name: f"{text}{number}\n" for name, text in expected.items()}
        assert files(tmp_path) == expected, point  # each line once, and nothing beside the files
    shown = notes.warden.operation.show(notes.warden.operation.list(limit=1)[0].id)
    assert [(step.subject, step.state) for step in shown.steps] == [
        (str(tmp_path / "notes" / name), "verified") for name in "ab"
    ]
    assert shown.result == {"actions": 2, "subjects": 2, "lines": 2}


def test_it_is_leased_shown_and_found_by_its_subject(notes: SmallLake, tmp_path: Path) -> None:
    file = str(tmp_path / "notes" / "a")
    planned = notes.warden.note.append(line="x", file=[file])
    assert repr(planned.plan) == f"note append  1 files\n  {file}: append 'x'"
    (action,) = planned.plan.document()["actions"]
    assert (action["subject"], action["lease"]) == (file, f"file:{file}")
    assert action["requires"][0] == {"kind": "note.file", "path": file, "title": "a"}

    ground = notes.warden.ground
    lease = ground.leases.acquire(f"file:{file}", file, "op-other", "elsewhere", ground.settings.leases.timeout)
    with pytest.raises(LeaseHeld, match=f"{file} is held by operation op-other"):
        planned.apply()
    ground.leases.release(lease)
    id = notes.warden.note.append(line="y", file=[file]).apply().id
    assert [row.id for row in notes.warden.operation.list(subject=file)][:1] == [id]


def test_it_goes_stale_and_another_file_of_that_name_is_left_alone(notes: SmallLake, tmp_path: Path) -> None:
    file = tmp_path / "notes" / "a"
    planned = notes.warden.note.append(line="x", file=[str(file)])
    file.write_text("a\nsomebody else was here\n")
    with pytest.raises(StalePlan, match="had 2 bytes and has 25"):
        planned.apply()
    planned = notes.warden.note.append(line="x", file=[str(file)])
    file.write_text("another\n" + "." * 16 + "\nx\n")  # which has that very line at that very place
    with pytest.raises(StalePlan, match="was about a and is now about another"):
        planned.apply()


def test_a_plan_with_a_kind_that_is_not_known_yet_is_kept_as_it_is(notes: SmallLake, tmp_path: Path) -> None:
    plan = notes.warden.note.append(line="x", file=[str(tmp_path / "notes" / "a")]).plan
    other = Plan.from_json(plan.to_json().replace("note.length", "note.strange"))
    assert [need.kind for need in other.actions[0].requires] == ["note.file", "note.strange"]
    assert Plan.from_json(other.to_json()) == other and other.id != plan.id
    assert Plan.from_json(plan.to_json()) == plan and Plan.from_json(plan.to_json()).id == plan.id
