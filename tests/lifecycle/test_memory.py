"""What an operation keeps while it runs."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from lakewarden.lifecycle.basics import Stamp
from lakewarden.lifecycle.memory import Memory
from lakewarden.warden import Workbench
from tests.small_lake import SmallLake


@dataclass
class Seen:
    items: set[str] = field(default_factory=set)


def test_one_value_of_each_kind_however_many_threads_ask() -> None:
    memory = Memory()
    with ThreadPoolExecutor(8) as threads:
        found = set(map(id, threads.map(lambda _: memory.of(Seen), range(32))))
    assert len(found) == 1
    assert memory.of(list) == [] and Memory().of(Seen) is not memory.of(Seen)


def test_what_looks_and_what_writes_in_one_run_share_it_and_nothing_outside_does(lake: SmallLake) -> None:
    runner, memory = lake.warden.runner(), Memory()
    looks = runner._open_reader(memory)
    writes = runner._open_writer(memory, Stamp("op", "act", "me"), lambda: None, lambda *_: None)
    looks.kept(Seen).items.add("a")
    assert writes.kept(Seen).items == {"a"} == writes.part("1").kept(Seen).items
    assert lake.warden.ground.kept(Seen).items == set()


def test_a_part_of_an_action_has_a_stamp_of_its_own(lake: SmallLake) -> None:
    whole = Workbench(lake.warden.ground, Stamp("op", "act", "me"), lambda: None, lambda *_: None)
    part = whole.part("2024-05")
    assert part.stamp == Stamp("op", "act", "me", "2024-05")
    assert part.stamp.file_prefix == whole.stamp.file_prefix and part.stamp.name == "lw-op-act-2024-05"
    assert "lakewarden.part" not in whole.stamp.properties()
    assert part.stamp.properties()["lakewarden.part"] == "2024-05"
