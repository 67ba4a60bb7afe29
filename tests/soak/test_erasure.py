"""Purges under rough conditions: killed at random moments, and in the midst of others who write (invariants 4 to 7).

CI runs two rounds; `make soak` runs thirty. The seed is printed where something fails, and `--seed` repeats it.
Content and traces are told by an independent reader, never by what Lakewarden says of itself.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakewarden.errors import Conflict
from tests import killing
from tests.features.erasure.independent import Erased, traces
from tests.features.erasure.independent_rows import local, unreferenced_copies, versions
from tests.small_lake import SmallLake

NAME = "crm.people"
KEY = 2
SCHEMA = pa.schema([("id", pa.int64()), ("mail", pa.string())])
MANY_VERSIONS = {"write.metadata.previous-versions-max": "10000"}  # else the table itself forgets its oldest metadata
_PATIENT = timedelta(seconds=30)

pytestmark = [pytest.mark.slow, pytest.mark.rounds]


def mail(id: int) -> str:
    return f"person-{id:05}@example.org"


@pytest.fixture
def crm(tmp_path: Path) -> Iterator[SmallLake]:
    """A table of people; leases last longer than any pause of a busy machine, and those of the dead are buried."""
    with SmallLake(tmp_path / "lake") as lake:
        lake.catalog.create_namespace("crm")
        lake.catalog.create_table(NAME, SCHEMA, properties=MANY_VERSIONS)
        yield lake


class Model:
    """Who was written to which branch and tag, and who was forgotten since."""

    def __init__(self, lake: SmallLake) -> None:
        self.lake = lake
        self.refs: dict[str, list[int]] = {"main": []}
        self.forgotten: set[int] = set()
        self.requests: list[str] = []
        self._next = count(1)

    def append(self, people: int) -> None:
        ids = [next(self._next) for _ in range(people)]
        rows = pa.table({"id": ids, "mail": [mail(id) for id in ids]}, schema=SCHEMA)
        self.lake.catalog.load_table(NAME).append(rows)
        self.refs["main"] += ids

    def name(self, ref: str, branch: bool) -> None:
        version = self.lake.warden.version
        (version.branch if branch else version.tag)(NAME, ref).apply(wait=_PATIENT)
        self.refs[ref] = list(self.refs["main"])

    def ask(self, people: set[int]) -> None:
        asked = self.lake.warden.erasure.request(NAME, key="mail", value=[mail(id) for id in sorted(people)])
        self.requests.append(asked.id)
        self.forgotten |= people

    def there(self) -> set[int]:
        return {id for ids in self.refs.values() for id in ids} - self.forgotten

    def found(self) -> dict[str, list[int]]:
        told = versions(self.lake.catalog.load_table(NAME).metadata_location)
        return {ref: sorted(row["id"] for row in version.rows) for ref, version in told.items()}

    def expected(self, but: set[int]) -> dict[str, list[int]]:
        return {ref: sorted(id for id in ids if id not in but) for ref, ids in self.refs.items()}

    def check(self, why: str) -> None:
        assert self.found() == self.expected(self.forgotten), why
        location = self.lake.catalog.load_table(NAME).metadata.location
        gone, stay = (frozenset(map(mail, ids)) for ids in (self.forgotten, self.there()))
        assert traces(local(location), [Erased(KEY, gone, stay)]) == [], why
        assert {self.lake.warden.erasure.show(id).state for id in self.requests} == {"closed"}, why


def test_killed_at_a_random_moment(crm: SmallLake, tmp_path: Path, pytestconfig: pytest.Config) -> None:
    rounds, seed = int(pytestconfig.getoption("rounds")), int(pytestconfig.getoption("seed"))
    chance, model, killed = random.Random(seed), Model(crm), 0
    for number in range(rounds):
        why = f"round {number} of seed {seed}"
        for _ in range(3):
            model.append(5)
        if number % 2 == 0:
            model.name(f"r{number}", branch=number % 4 == 2)
        before = set(model.forgotten)
        model.ask(set(chance.sample(sorted(model.there()), 4)))
        trace = tmp_path / f"trace-{number}"
        process = crm.start("erasure", "purge", NAME, "--apply", failpoints=f"trace:{trace}")
        _wait_for_points(process, trace, chance.randint(1, 45))
        time.sleep(chance.uniform(0, 0.05))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        killed += process.returncode == -signal.SIGKILL

        now = model.found()
        assert now in (model.expected(before), model.expected(model.forgotten)), why  # wholly before, or wholly after
        if chance.random() < 0.5:  # the world goes on before anybody resumes
            model.append(3)
        killing.bury(crm)
        crm.warden.operation.resume(wait="20s")
        crm.warden.erasure.purge(NAME).apply()  # it had not begun, or there is nothing left to do
        assert {row.state for row in crm.warden.operation.list(limit=1000)} <= {"done"}, why
        model.check(why)
        assert unreferenced_copies(crm.catalog.load_table(NAME).metadata_location) == set(), why
    assert killed > 0


WRITER = """
import sys
import time
from pathlib import Path
import pyarrow as pa
from lakewarden import Warden
folder, told, stop, first = sys.argv[1:5]
table = "crm.people"
schema = pa.schema([("id", pa.int64()), ("mail", pa.string())])
with Warden.open(folder) as warden:
    catalog, id = warden.ground.catalogs.get("main"), int(first)
    while not Path(stop).exists():
        ids = [id, id + 1]
        rows = pa.table({"id": ids, "mail": [f"person-{i:05}@example.org" for i in ids]}, schema=schema)
        try:
            catalog.load_table(table).append(rows)
        except Exception as error:
            if type(error).__name__ == "CommitStateUnknownException":
                raise
            continue
        with open(told, "a") as out:
            out.write(f"{ids[0]}\\n{ids[1]}\\n")
        id += 2
        time.sleep(0.2)  # versions would pile up, and each purge take longer than the one before
"""


def test_what_others_append_meanwhile_is_kept(crm: SmallLake, tmp_path: Path, pytestconfig: pytest.Config) -> None:
    """Another process appends without end, while one purge follows the other."""
    rounds, seed = int(pytestconfig.getoption("rounds")), int(pytestconfig.getoption("seed"))
    chance, model = random.Random(seed), Model(crm)
    for _ in range(4):
        model.append(rounds * 4)
    model.name("kept", branch=False)
    told, stop = tmp_path / "told", tmp_path / "stop"
    arguments = [str(crm.folder), str(told), str(stop), "50000"]
    writer = subprocess.Popen([sys.executable, "-c", WRITER, *arguments], stderr=subprocess.PIPE, text=True)
    done = 0
    try:
        _wait_for_lines(told, 1, writer)
        for _ in range(rounds):
            written_before = len(told.read_text().split())
            model.ask(set(chance.sample(sorted(model.there()), 3)))
            done += _try(crm)
            _wait_for_lines(told, written_before + 1, writer)
    finally:
        stop.touch()
        _, failure = writer.communicate(timeout=60)
    assert writer.returncode == 0, failure
    written = [int(line) for line in told.read_text().split()]
    assert len(written) > 2 * rounds and done > 0, f"seed {seed}: {len(written)} written, {done} purges"
    model.refs["main"] += written
    crm.warden.erasure.purge(NAME).apply()
    model.check(f"seed {seed}")


def _wait_for_lines(file: Path, count: int, writer: subprocess.Popen[str]) -> None:
    """Until the writer has told so much, or is over."""
    while writer.poll() is None and (not file.exists() or len(file.read_text().split()) < count):
        time.sleep(0.05)


def _try(lake: SmallLake) -> int:
    """One, where it worked; nothing where others were quicker each time, which may be."""
    try:
        return int(lake.warden.erasure.purge(NAME).apply(wait=_PATIENT).result["rows_dropped_by_tombstones"] > 0)
    except Conflict:
        return 0


def _wait_for_points(process: Any, trace: Path, points: int) -> None:
    """Until the process has passed so many points, or is over."""
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        if trace.exists() and len(trace.read_text().split()) >= points:
            return
        time.sleep(0.005)


def test_the_check_sees_what_is_wrong(crm: SmallLake) -> None:
    model = Model(crm)
    model.append(3)
    model.forgotten.add(2)
    with pytest.raises(AssertionError, match="as it is"):
        model.check("as it is")
