"""Kinds of requirements: found by their name, and those that are not known yet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from lakewarden.errors import StateUnavailable
from lakewarden.lifecycle import requirement as module
from lakewarden.lifecycle.action import Action
from lakewarden.lifecycle.plan import Plan
from lakewarden.lifecycle.planned_files import FileList
from lakewarden.lifecycle.requirement import Lake, RefAt, Requirement, TableIs, document, requirement
from tests.lifecycle.house import FakeLake


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_kinds", dict(module._kinds))


@dataclass(frozen=True)
class Even:
    """A number is even."""

    number: int
    kind: ClassVar[str] = "test.even"
    identifies: ClassVar[bool] = False

    def broken(self, lake: Lake, files: FileList) -> str | None:
        return f"{self.number} is odd" if self.number % 2 else None


def kept(*needs: Requirement) -> tuple[Requirement, ...]:
    """As they are after a plan was written down and read again."""
    plan = Plan("some.kind", "t", (Action("do", "t", "t", "do it", {}, needs),))
    read = Plan.from_json(plan.to_json())
    assert read.id == plan.id and Plan.from_json(read.to_json()) == read
    return read.actions[0].requires


def test_a_noun_brings_its_own_kind() -> None:
    requirement(Even)
    assert kept(Even(3), TableIs("t", "u"), RefAt("t", "main", 2**62 + 1)) == (
        Even(3),
        TableIs("t", "u"),
        RefAt("t", "main", 2**62 + 1),
    )
    assert document(Even(3)) == {"kind": "test.even", "number": 3}


def test_one_that_is_not_known_yet_is_looked_up_when_it_is_needed() -> None:
    lake: Any = FakeLake()
    (unread,) = kept(Even(3))
    assert unread != Even(3) and unread.kind == "test.even"
    with pytest.raises(StateUnavailable, match=r"of unknown kind: test\.even"):
        unread.broken(lake, FileList())
    requirement(Even)  # as by importing the operation
    assert unread.broken(lake, FileList()) == "3 is odd" and not unread.identifies


def test_two_of_one_name_are_refused() -> None:
    requirement(Even)
    with pytest.raises(TypeError, match=r"two kinds of requirement are called test\.even"):
        requirement(Even)


def test_one_without_a_kind_is_no_plan_of_ours() -> None:
    plan = Plan("some.kind", "t", (Action("do", "t", "t", "do it", {}, (TableIs("t", "u"),)),))
    with pytest.raises(ValueError, match="without a kind"):
        Plan.from_json(plan.to_json().replace('"kind":"table",', ""))
