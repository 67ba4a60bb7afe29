"""Replacing files in every version at once: all other rows stay in every ref, and nothing else changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.engine.cleansed import People, email
from tests.engine.lakes import Lake, lake

__all__ = ["lake"]


@pytest.fixture
def people(lake: Lake) -> People:
    return People(lake.warden).create()


@pytest.mark.parametrize("format", [1, 2])
def test_every_ref_loses_the_rows_and_keeps_the_others(lake: Lake, format: int) -> None:
    people = People(lake.warden).create(format)
    people.append(range(10))
    people.tag("first")
    people.append(range(10, 20))
    people.branch("dev")
    people.append(range(20, 30), branch="dev")
    people.append(range(30, 40))
    before = people.refs
    done = people.forget(3, 7)
    assert {name: moved[0] for name, moved in done.refs.items()} == before
    assert {name: moved[1] for name, moved in done.refs.items()} == people.refs
    assert set(done.snapshots) == set(before.values()) | {s for s in done.snapshots}
    assert len(people.table.metadata.snapshots) == 3
