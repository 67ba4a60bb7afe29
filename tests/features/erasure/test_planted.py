"""Every noun writes something about a person; after a purge, nothing that is stored anywhere has the value.

What is looked at: every column of the control database and its raw bytes, every file of the installation, the logs, and
every table of every noun, with its data, manifests and metadata decoded.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.transforms import IdentityTransform

from lakewarden import Warden
from lakewarden.errors import LakewardenError, StalePlan
from tests.cases import in_soak
from tests.features.erasure.ears import Ears
from tests.small_lake import SmallLake

pytestmark = pytest.mark.spark
DAY = datetime(2026, 1, 1, tzinfo=UTC)
SQL = """INSERT INTO {db}.%s (email, cents) SELECT email, %s FROM {db}.people
WHERE email > {checkpoint_email} ORDER BY email LIMIT {batch_size}
"""
VIEW = "SELECT email, amount, at FROM crm.people WHERE at >= {begin} AND at < {end}"
SPAN = {"begin": "2026-01-01", "end": "2026-01-01T03:00:00Z", "delta": "1h"}
OTHERS = ["Aaron@example.org", "zoe@example.org", "zz@example.org"]
NUMBERS = [17, 4712, 47110]


class Home:
    """An installation whose nouns know a person."""

    def __init__(self, lake: SmallLake, value: str | int) -> None:
        self.lake, self.key, self.value = lake, value, str(value)
        kind, others = (pa.int64(), NUMBERS) if isinstance(value, int) else (pa.string(), OTHERS)
        people = pa.schema([("email", kind), ("at", pa.timestamp("us", tz="UTC")), ("amount", pa.string())])
        self.files = lake.folder / "backfills"
        self.files.mkdir()
        lake.configure(
            backfills={"folders": ["backfills"]},
            defaults={"orphans": {"older_than": "3d"}},
            subjects={"person": {f"crm.{name}": "email" for name in ("people", "copy", "branched", "failed")}},
        )
        lake.catalog.create_namespace("crm")
        with lake.catalog.create_table("crm.people", people).update_spec() as spec:
            spec.add_field("email", IdentityTransform())
        for name in ("copy", "branched", "failed"):
            lake.catalog.create_table(f"crm.{name}", pa.schema([("email", kind), ("cents", pa.int64())]))
        for number, email in enumerate([value, *others, value]):
            row = {"email": email, "at": DAY + timedelta(minutes=number), "amount": "x" if email == value else "17"}
            lake.catalog.load_table("crm.people").append(pa.Table.from_pylist([row], schema=people))

    @property
    def warden(self) -> Warden:
        return self.lake.warden

    @property
    def quoted(self) -> str:
        return self.value if isinstance(self.key, int) else "'{}'".format(self.value.replace("'", "''"))

    def backfill(self, version: str, target: str, cents: str, **meta: Any) -> None:
        given = {"migration_version": version, "batch_size": 1, "checkpoint_columns": ["email"], "target_table": target}
        (self.files / f"{version}_{target}.backfill.meta").write_text(json.dumps(given | meta))
        (self.files / f"{version}_{target}.backfill.sql").write_text(SQL % (target, cents))

    def backfills(self) -> None:
        """One that puts rows aside, one whose gate fails on a branch, and one that fails."""
        self.backfill("001", "copy", "CAST(amount AS BIGINT)", on_bad_rows="quarantine")
        self.backfill("002", "branched", "CAST(rand() * 1e15 AS BIGINT)", mode="branch", gates={"sample_batches": 4})
        self.backfill("003", "failed", "CAST(amount AS BIGINT)")
        self.warden.backfill.register(database="crm")
        self.warden.backfill.run(database="crm", version="1").apply()
        for version in ("2", "3"):
            with pytest.raises(LakewardenError):
                self.warden.backfill.run(database="crm", version=version).apply()
        self.warden.backfill.run(database="crm", version="3").store()
        self.warden.version.tag("crm.copy__bad_rows", "kept").apply()

    def view_set(self) -> None:
        """One that selects the key, one that does not, and one that is materialised for the person only later."""
        for name, sql in {"views": VIEW, "narrow": VIEW.replace("email, ", ""), "later": VIEW}.items():
            given = {"name": name, "source": "crm.people", "insert_time": "at", "instances": "email", "sql": sql}
            self.warden.viewset.register(given).apply()
        span = {**SPAN, "instance": self.value}
        for name in ("views", "narrow"):
            self.warden.viewset.materialize(name, **span).apply()
        self.warden.version.tag("viewsets.views__empty", "kept").apply()
        self.warden.version.tag("viewsets.views", "kept").apply()
        self.warden.viewset.regenerate("views", **span).store()

    def questions(self) -> None:
        """What is asked about a person, and fails."""
        is_theirs = f"email = {self.quoted}"
        self.warden.version.read("crm.people", where=is_theirs)
        self.warden.version.read("crm.people", where=is_theirs, raw=True)
        self.warden.query(f"SELECT * FROM crm.people WHERE {is_theirs}")
        for engine in ("duckdb", "spark"):
            with suppress(LakewardenError):
                self.warden.query("SELECT CAST(email AS INT) FROM crm.people", engine=engine)

    def schedules(self) -> None:
        """What runs while the request waits."""
        for name in ("views", "later"):
            self.warden.viewset.materialize(name, **SPAN, instance=self.value).apply()
        self.warden.version.tag("viewsets.later__empty", "kept").apply()  # else the purge of the view set clears it
        self.warden.policy.run("crm.people").apply()
        (self.files / "004_more.migration.sql").write_text("CREATE TABLE {db}.more (email STRING) USING iceberg;")
        self.warden.migration.apply(database="crm").apply()

    def upkeep(self) -> None:
        """Plans that list files in the person's partition."""
        self.warden.compaction.compact("crm.people", rewrite_all=True).store()
        self.warden.retention.expire("crm.people", keep_last=1, keep_days=0).store()
        self.warden.compaction.compact("crm.people", rewrite_all=True).apply()
        self.warden.orphan.find("crm.people")
        first = self.lake.catalog.load_table("crm.people").metadata.snapshots[0].snapshot_id
        is_theirs = f"email = {self.quoted}"
        assert self.warden.compare.data("crm.people", str(first), key=["at"], where=is_theirs).rows_added == 1

    def plant(self) -> None:
        """Have every noun write something about the person."""
        self.view_set()
        self.backfills()
        self.questions()
        self.upkeep()

    def erase(self) -> None:
        """Request and purge, while schedules go on."""
        asked = [self.warden.erasure.request(subject="person", value=[self.value]).id]
        asked.append(self.warden.erasure.request("viewsets.views", key="email", value=[self.value]).id)
        self.schedules()
        with pytest.raises(LakewardenError, match=r"failed|later__empty may have values"):
            self.warden.erasure.purge(all=True, now=True).apply()
        self.warden.erasure.purge(all=True, now=True).apply()
        assert {self.warden.erasure.show(id).state for id in asked} == {"closed"}
        self.warden.close()

    def ears(self) -> Ears:
        """Everything that is stored."""
        ears = Ears()
        ears.database(f"sqlite:///{self.lake.folder}/lakewarden.db")
        for file in sorted(self.lake.folder.rglob("*")):
            if file.is_file():
                ears.hear(str(file.relative_to(self.lake.folder)), file.read_bytes())
                for decoded in contents(file):
                    ears.hear(f"{file.relative_to(self.lake.folder)}, decoded", decoded)
        return ears


def contents(file: Path) -> Iterator[str]:
    """What a file of a table says, decoded."""
    if file.suffix == ".parquet":
        yield json.dumps(pq.ParquetFile(BytesIO(file.read_bytes())).read().to_pylist(), default=str, ensure_ascii=False)
        yield str(pq.read_metadata(file))
    if file.suffix == ".avro":
        with file.open("rb") as stream:
            yield json.dumps(list(fastavro.reader(stream)), default=_text, ensure_ascii=False)


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


@pytest.mark.parametrize("value", ["anna.o'hära+x@leak.example.org", *in_soak("Anna von der Müller-Lüdenscheidt")])
def test_nothing_that_is_stored_anywhere_has_the_value(
    lake: SmallLake, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(lake.folder / "logs"))
    home = Home(lake, value)
    home.plant()
    log = Path(os.environ["XDG_STATE_HOME"]) / "lakewarden" / "lakewarden.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text(f"a line of an earlier release about {value}\n")
    before = places(home)
    for where in ("operations.plan", "operations.request", "steps.says", "operations.error", "lakewarden.log"):
        assert any(where in place for place in before), (where, before)
    for where in ("copy__bad_rows", "views__empty", "viewsets/views/", "viewsets/narrow/", "crm/people/"):
        assert any(where in place for place in before), (where, before)

    home.erase()
    assert places(home) == []
    lake.warden = Warden.open(lake.folder)
    listed = lake.warden.operation.list(limit=100)
    for each in listed:
        lake.warden.operation.show(each.id)  # everything can still be read
    waiting = {each.kind: each.id for each in listed if each.state == "planned"}
    assert waiting.keys() == {"viewset.regenerate", "backfill.run", "retention.expire"}
    for kind in ("viewset.regenerate", "backfill.run"):
        with pytest.raises(StalePlan, match="the plan is stale"):
            lake.warden.operation.apply(waiting[kind])
    lake.warden.backfill.run(database="crm", version="3").apply()
    for name in ("copy", "failed"):
        rows = lake.catalog.load_table(f"crm.{name}").scan().to_arrow()["email"].to_pylist()
        assert sorted(rows) == sorted(OTHERS), name


def test_no_small_number_is_left_where_values_are(lake: SmallLake, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a count or a part of an id elsewhere, and in the log nobody can tell."""
    monkeypatch.setenv("XDG_STATE_HOME", str(lake.folder / "logs"))
    home = Home(lake, 4711)
    home.plant()
    before = meant(home)
    for where in ("operations.plan", "operations.request", "action_files", "copy__bad_rows", "views__empty"):
        assert any(where in place for place in before), (where, before)
    for where in ("viewsets/views/", "viewsets/narrow/", "crm/people/", "crm/copy/"):
        assert any(where in place for place in before), (where, before)
    home.erase()
    assert meant(home) == []
    for name in ("people", "copy"):
        rows = set(lake.catalog.load_table(f"crm.{name}").scan().to_arrow()["email"].to_pylist())
        assert rows == set(NUMBERS), name


_NAMES = "email|view_instance_id|instance|checkpoint|lower|upper|where|lower_bounds|upper_bounds"
_PLACE = rf"""({_NAMES})[\\"']*\s*(:|=|IN|%3D)\s*"""
_MEANT = re.compile(rf"{_PLACE}[\[(\\\"']*4711(?!\d|[a-f])")


def meant(home: Home) -> list[str]:
    """Where a small number stands as a value: in a column, an instance, a tuple, a condition or a partition."""
    return sorted({re.sub("….*", "", place) for place in home.ears().matches(_MEANT)})


def places(home: Home) -> list[str]:
    return sorted({re.sub("….*", "", place) for place in home.ears().said([home.value])})
