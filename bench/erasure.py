"""How fast `erasure purge` is beside Iceberg's own statements, over tags that share their files, and what it costs
when the tags double.

Each side erases the same people from a table of its own; both are made alike, in one Spark session, and rows are
compared ref by ref afterwards. Iceberg's way, for every tag: a branch at it, DELETE on the branch (copy on write, so
that rows are physically gone), the tag moved to the branch's head, the branch dropped; then the same on main, and
`expire_snapshots`, which deletes the files that held the rows. Ours is the request, the plan, the purge and the proof;
the ratio includes the proof, for which Iceberg has nothing, and is shown without it too.

    .venv/bin/python bench/erasure.py [--rows 2000000] [--tags 10] [--keys 20] [--rounds 4]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import yaml

from lakewarden import Warden
from lakewarden.features.lake.init import Init
from lakewarden.records.erasure import EvidenceKind

PEOPLE = 200_000
COLUMNS = "id BIGINT, email STRING, city STRING, amount DOUBLE, at TIMESTAMP, note STRING"
ROWS = f"""
    SELECT id, CONCAT('person-', pmod(xxhash64(id), {PEOPLE}), '@example.org') AS email,
           CONCAT('city-', pmod(hash(id, 1), 50)) AS city, pmod(xxhash64(id, 4), 100000) / 100 AS amount,
           timestamp_seconds(1700000000 + id * 3) AS at, CONCAT('note ', pmod(hash(id, 2), 20000)) AS note
    FROM range({{start}}, {{end}}, 1, {{files}})
"""  # noqa: S608 - constants
AT_LEAST, AT_MOST = 8.0, 1.25
Content = dict[str, tuple[Any, ...]]


@dataclass
class Contender:
    """One way to erase, and what it took in each round."""

    name: str
    seconds: list[float] = field(default_factory=list)
    proof: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def without_proof(self) -> float:
        return self.median - (statistics.median(self.proof) if self.proof else 0.0)


class Bench:
    def __init__(self, folder: Path, tags: int, keys: int) -> None:
        Init(directory=folder).make()
        config = folder / "lakewarden.yaml"
        settings = yaml.safe_load(config.read_text())
        settings["spark"] = {"master": "local[2]", "memory": "4g", "conf": {"spark.sql.shuffle.partitions": 4}}
        config.write_text(yaml.safe_dump(settings))
        self.warden = Warden.open(folder)
        self.sql("CREATE NAMESPACE main.bench")
        self.tags = tags
        self.people = [f"person-{number * (PEOPLE // keys)}@example.org" for number in range(keys)]
        self._numbers = count()

    def sql(self, statement: str) -> list[Any]:
        return list(self.warden.ground.spark.sql(statement).collect())

    def made(self, rows: int, tags_each: int = 1) -> str:
        """A table of which half was there before the first tag, and which grew from tag to tag.

        After each step there is a version without new files, so that twice the tags can be over the same files.
        """
        name = f"bench.people{next(self._numbers)}"
        self.sql(f"CREATE TABLE main.{name} ({COLUMNS}) USING iceberg TBLPROPERTIES ('format-version' = '2')")
        base = rows // 2
        step = (rows - base) // self.tags
        self.sql(f"INSERT INTO main.{name} {ROWS.format(start=0, end=base, files=20)}")
        for number in range(self.tags):
            start = base + number * step
            self.sql(f"INSERT INTO main.{name} {ROWS.format(start=start, end=start + step, files=2)}")
            self.sql(f"ALTER TABLE main.{name} CREATE TAG v{number}")
            self.sql(f"INSERT INTO main.{name} SELECT * FROM main.{name} WHERE false")  # noqa: S608 - own names
            if tags_each > 1:
                self.sql(f"ALTER TABLE main.{name} CREATE TAG w{number}")
        return name

    def refs(self, name: str) -> list[str]:
        return sorted(self.warden.ground.tables.load(name).metadata.refs)

    def content(self, name: str) -> Content:
        """What each ref holds: how many rows, and a hash of all of them."""
        row = "xxhash64(id, email, city, amount, at, note)"
        sums = f"COUNT(*), SUM(id), SUM(CAST({row} AS DECIMAL(38, 0))), COUNT_IF(email IN ({self._in_list()}))"
        return {
            ref: tuple(self.sql(f"SELECT {sums} FROM main.{name} VERSION AS OF '{ref}'")[0])  # noqa: S608 - own names
            for ref in self.refs(name)
        }

    def ours(self, name: str, contender: Contender) -> None:
        began = time.perf_counter()
        request = self.warden.erasure.request(name, key="email", value=self.people)
        applied = self.warden.erasure.purge(name).apply()
        took = time.perf_counter() - began
        assert applied.result["refs_repointed"] == len(self.refs(name)), applied.result
        told = self.warden.ground.state.erasure.evidence(request=request.id)
        at = {evidence.kind: evidence.at for evidence in told}
        contender.seconds.append(took)
        contender.proof.append((at[EvidenceKind.PROVED] - at[EvidenceKind.PURGED]).total_seconds())

    def icebergs(self, name: str, contender: Contender) -> None:
        delete = f"WHERE email IN ({self._in_list()})"
        tags = [ref for ref in self.refs(name) if ref != "main"]
        began = time.perf_counter()
        for tag in tags:
            at = self.warden.ground.tables.load(name).metadata.refs[tag].snapshot_id
            self.sql(f"ALTER TABLE main.{name} CREATE BRANCH erase_{tag} AS OF VERSION {at}")
            self.sql(f"DELETE FROM main.{name}.branch_erase_{tag} {delete}")  # noqa: S608 - own values
            head = self.warden.ground.tables.load(name).metadata.refs[f"erase_{tag}"].snapshot_id
            self.sql(f"ALTER TABLE main.{name} REPLACE TAG {tag} AS OF VERSION {head}")
            self.sql(f"ALTER TABLE main.{name} DROP BRANCH erase_{tag}")
        self.sql(f"DELETE FROM main.{name} {delete}")  # noqa: S608 - own values
        now = "TIMESTAMP '2100-01-01 00:00:00'"
        self.sql(f"CALL main.system.expire_snapshots(table => '{name}', older_than => {now}, retain_last => 1)")
        contender.seconds.append(time.perf_counter() - began)

    def files(self, name: str) -> tuple[int, int]:
        table = self.warden.ground.tables.load(name)
        found = self.warden.ground.files.of(table, table.current_snapshot()).data
        return len(found), sum(file.bytes for file in found)

    def _in_list(self) -> str:
        return ", ".join(f"'{person}'" for person in self.people)


def check(before: Content, ours: Content, theirs: Content, doubled: Content) -> None:
    """Every ref is there, without the rows of the keys and with all others, no matter which side erased them."""
    assert ours == theirs, "the two sides differ"
    assert ours.items() <= doubled.items(), "with twice the tags, rows differ"
    for ref, held in before.items():
        assert ours[ref][-1] == 0 < held[-1], f"{ref} still holds rows, or never did"
        assert ours[ref][0] == held[0] - held[-1], f"{ref} lost other rows"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--tags", type=int, default=10)
    parser.add_argument("--keys", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=4)
    given = parser.parse_args()
    ours, doubled = Contender("lakewarden"), Contender("lakewarden, twice the tags")
    theirs = Contender("Iceberg's statements")
    with tempfile.TemporaryDirectory() as place:
        bench = Bench(Path(place) / "lake", given.tags, given.keys)
        for number in range(given.rounds + 1):
            rows = given.rows if number else given.rows // 20  # the first round is for warming up
            names = bench.made(rows), bench.made(rows), bench.made(rows, tags_each=2)
            if number == 1:
                files, size = bench.files(names[0])
                print(f"{rows:,} rows, {files} files, {size / 1e6:.0f} MB, {given.tags} tags, {given.keys} keys")
            before = bench.content(names[0])
            turns = [
                partial(bench.ours, names[0], ours),
                partial(bench.icebergs, names[1], theirs),
                partial(bench.ours, names[2], doubled),
            ]
            for take in turns if number % 2 else reversed(turns):  # what came before may have warmed things up
                take()
            check(before, *(bench.content(name) for name in names))
            if not number:
                for contender in (ours, theirs, doubled):
                    contender.seconds.clear()
                    contender.proof.clear()
            for name in names:
                bench.sql(f"DROP TABLE main.{name} PURGE")
        bench.warden.close()
    for contender in (ours, theirs, doubled):
        apart = f"; {contender.without_proof:6.2f} s without the proof" if contender.proof else ""
        print(f"{contender.name:28} {contender.median:6.2f} s (median of {given.rounds}){apart}")
    ratio, flat = theirs.median / ours.median, doubled.median / ours.median
    print(f"times faster, proof included {ratio:.1f} (at least {AT_LEAST:.0f})", end="; ")
    print(f"without it {theirs.median / ours.without_proof:.1f}")
    print(f"twice the tags cost {flat:.2f} times as much (at most {AT_MOST})")
    sys.exit(ratio < AT_LEAST or flat > AT_MOST)


if __name__ == "__main__":
    main()
