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
PEOPLE = pa.schema([("email", pa.string()), ("at", pa.timestamp("us", tz="UTC")), ("amount", pa.string())])
COPY = pa.schema([("email", pa.string()), ("cents", pa.int64())])
SQL = """INSERT INTO {db}.%s (email, cents) SELECT email, %s FROM {db}.people
WHERE email > {checkpoint_email} ORDER BY email LIMIT {batch_size}
"""
VIEW = "SELECT email, amount, at FROM crm.people WHERE at >= {begin} AND at < {end}"
OTHERS = ["Aaron@example.org", "zoe@example.org", "zz@example.org"]


class Home:
    """An installation whose nouns know a person."""

    def __init__(self, lake: SmallLake, value: str) -> None:
        self.lake, self.value = lake, value
        self.files = lake.folder / "backfills"
        self.files.mkdir()
        lake.configure(
            backfills={"folders": ["backfills"]},
            defaults={"orphans": {"older_than": "3d"}},
            subjects={"person": {f"crm.{name}": "email" for name in ("people", "copy", "branched", "failed")}},
        )
        lake.catalog.create_namespace("crm")
        with lake.catalog.create_table("crm.people", PEOPLE).update_spec() as spec:
            spec.add_field("email", IdentityTransform())
        for name in ("copy", "branched", "failed"):
            lake.catalog.create_table(f"crm.{name}", COPY)
        for number, email in enumerate([value, *OTHERS, value]):
            row = {"email": email, "at": DAY + timedelta(minutes=number), "amount": "x" if email == value else "17"}
            lake.catalog.load_table("crm.people").append(pa.Table.from_pylist([row], schema=PEOPLE))

    @property
    def warden(self) -> Warden:
        return self.lake.warden

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
        given = {"name": "views", "source": "crm.people", "insert_time": "at", "instances": "email", "sql": VIEW}
        self.warden.viewset.register(given).apply()
        span = {"begin": "2026-01-01", "end": "2026-01-01T03:00:00Z", "delta": "1h", "instance": self.value}
        self.warden.viewset.materialize("views", **span).apply()
        self.warden.version.tag("viewsets.views__empty", "kept").apply()
        self.warden.version.tag("viewsets.views", "kept").apply()
        self.warden.viewset.regenerate("views", **span).store()

    def questions(self) -> None:
        """What is asked about a person, and fails."""
        quoted = self.value.replace("'", "''")
        self.warden.version.read("crm.people", where=f"email = '{quoted}'")
        self.warden.version.read("crm.people", where=f"email = '{quoted}'", raw=True)
        self.warden.query(f"SELECT * FROM crm.people WHERE email = '{quoted}'")
        for engine in ("duckdb", "spark"):
            with suppress(LakewardenError):
                self.warden.query("SELECT CAST(email AS INT) FROM crm.people", engine=engine)

    def upkeep(self) -> None:
        """Plans that list files in the person's partition."""
        self.warden.compaction.compact("crm.people", rewrite_all=True).store()
        self.warden.retention.expire("crm.people", keep_last=1, keep_days=0).store()
        self.warden.compaction.compact("crm.people", rewrite_all=True).apply()
        self.warden.orphan.find("crm.people")

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
    home.view_set()
    home.backfills()
    home.questions()
    home.upkeep()
    log = Path(os.environ["XDG_STATE_HOME"]) / "lakewarden" / "lakewarden.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text(f"a line of an earlier release about {value}\n")
    before = places(home)
    for where in ("operations.plan", "operations.request", "steps.says", "operations.error", "lakewarden.log"):
        assert any(where in place for place in before), (where, before)
    for where in ("copy__bad_rows", "views__empty", "viewsets/views/", "crm/people/"):
        assert any(where in place for place in before), (where, before)

    asked = [home.warden.erasure.request(subject="person", value=[value]).id]
    asked.append(home.warden.erasure.request("viewsets.views", key="email", value=[value]).id)
    home.warden.erasure.purge(all=True, now=True).apply()
    assert {home.warden.erasure.show(id).state for id in asked} == {"closed"}
    home.warden.close()
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


def places(home: Home) -> list[str]:
    return sorted({re.sub("….*", "", place) for place in home.ears().said([home.value])})
