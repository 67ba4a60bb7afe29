"""Upkeep is planned by the nouns: a new one is asked for its part without anything of policy being changed.

Covers `features/compaction/planners.py`, `features/erasure/planners.py` and `features/retention/planners.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakewarden import features
from lakewarden.features.policy.condition import Symptoms, complaints
from lakewarden.features.policy.upkeep import diagnosis, upkeep
from lakewarden.features.shared.planner import Place, Round, TableUpkeep, planners
from tests.small_lake import SmallLake

GARDEN = """
from lakewarden.features.shared.planner import Place, Planner
from lakewarden.lifecycle.action import Action

def plan(on):
    on.round.once(seen.append)
    return on.planned(Action("weed", str(on.name), "garden", "pull weeds", {}))

seen = []
PLANNERS = (
    Planner(
        "weeds", Place.METADATA, ("weed",), None, plan,
        remedy="retention expire", symptoms=lambda on: {"versions": 4, "versions_expirable": 2},
    ),
)
"""


@pytest.fixture
def garden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A noun that plans a part of upkeep."""
    folder = tmp_path / "nouns" / "garden"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text('"""Gardens."""\nVERBS = ()\n')
    (folder / "planners.py").write_text(GARDEN)
    monkeypatch.setattr(features, "NOUNS", (*features.NOUNS, "garden"))
    monkeypatch.setattr(features, "__path__", [*features.__path__, str(folder.parent)])
    planners.cache_clear()
    yield
    planners.cache_clear()
    for name in [name for name in sys.modules if name.startswith("lakewarden.features.garden")]:
        del sys.modules[name]


def test_parts_in_the_order_in_which_they_are_applied() -> None:
    assert [planner.name for planner in planners()] == [
        "hide",
        "viewset",
        "retention",
        "manifests",
        "compaction",
        "mark",
        "watch",
    ]
    verbs = [verb for planner in planners() for verb in planner.verbs]
    assert len(verbs) == len(set(verbs))


def test_every_remedy_but_one_is_what_a_planner_does() -> None:
    """Erasing for good is never upkeep: only a person starts a purge."""
    all_wrong = Symptoms(**dict.fromkeys(Symptoms.__dataclass_fields__, 1 << 30))
    remedies = {complaint.remedy for complaint in complaints(all_wrong)}
    assert remedies - {planner.remedy for planner in planners()} == {"erasure purge"}


@pytest.mark.usefixtures("garden")
class TestAnotherNoun:
    def test_is_asked_for_its_part(self, lake: SmallLake) -> None:
        lake.create("sales.orders")
        assert [planner.name for planner in planners() if planner.place is Place.METADATA] == ["manifests", "weeds"]
        ground = lake.warden.ground
        looks, name = Round(ground, "policy.run", ("weeds", "compaction")), ground.tables.name("sales.orders")
        found = upkeep(TableUpkeep(looks, name))
        assert [action.verb for action in found.plan.actions] == ["weed"]
        assert found.points_per_second > 0
        upkeep(TableUpkeep(looks, name))
        assert sys.modules["lakewarden.features.garden.planners"].seen == [ground], "made once for all tables"

    def test_and_for_what_is_wrong(self, lake: SmallLake) -> None:
        lake.create("sales.orders")
        ground = lake.warden.ground
        found, wrong = diagnosis(TableUpkeep(Round(ground), ground.tables.name("sales.orders")))
        assert found.versions_expirable == 2 and wrong[0].remedy == "retention expire"
