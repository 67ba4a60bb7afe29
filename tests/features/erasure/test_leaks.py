"""Invariant 5: no erased value is in an answer, a log, a journal row, an event, a plan of Spark, or an argument.

People are forgotten by every way there is, on tables whose paths tell their keys, and with all that can go wrong;
then everything that was said is searched for their values.

Covers `doors/logs.py`.
"""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.transforms import IdentityTransform

from lakewarden.doors.cli import main
from tests import warm_process
from tests.doors.rest.client import Client
from tests.features.erasure.ears import Ears, Processes, spellings
from tests.features.erasure.people import configured
from tests.small_lake import SmallLake

SCHEMA = pa.schema(
    [("id", pa.int64()), ("email", pa.string()), ("user", pa.struct([("email", pa.string())])), ("note", pa.string())]
)
NUMBER = 77_340_012_345_678
ICEBERGS_OWN = re.compile(rb"Rewriting \d+ files \([^\"]*?\) in [\w.]+")
"""How Iceberg's procedure, which format v3 needs, describes its jobs: it names their partition, and cannot be told not
to. The guide says so."""
ON_SPARK = (  # nothing is little enough to be done without it
    "import lakewarden.engine.rewrite.driver as rewrite; rewrite.fits_here = lambda *_: False; "
    "from lakewarden.doors.cli.main import main; main()"
)


def mail(what: str, n: int) -> str:
    return f"{what}.o'hära-{n}+x/y@leak-example.org"


def row(id: int, email: str) -> dict[str, Any]:
    return {"id": id, "email": email, "user": {"email": email}, "note": "a note"}


class Household:
    """A lake with people in it, and everything that is said about them."""

    def __init__(self, lake: SmallLake, events: Path) -> None:
        self.lake, self.ears = lake, Ears()
        self.state, self.events = lake.folder / "logs", events
        self.gone: set[str] = set()
        events.mkdir()
        spark = {
            "master": "local[2]",
            "memory": "2g",
            "conf": {
                "spark.eventLog.enabled": "true",
                "spark.eventLog.dir": f"file://{events}",
                "spark.eventLog.rolling.enabled": "false",
                "spark.eventLog.compress": "false",
                "spark.sql.shuffle.partitions": 2,
            },
        }
        configured(lake, spark=spark, defaults={"orphans": {"older_than": "3d"}})

    def create(self, name: str, people: Sequence[str], transform: Any = None, column: str = "email") -> None:
        """A table with two versions, the first of them tagged, and a branch."""
        self.lake.catalog.create_namespace_if_not_exists("crm")
        table = self.lake.catalog.create_table(f"crm.{name}", SCHEMA)
        if transform is not None:
            with table.update_spec() as spec:
                spec.add_field(column, transform)
        half, first = len(people) // 2, NUMBER if column == "id" else 0
        for number, some in enumerate((people[:half], people[half:])):
            rows = [row(first + 10 * number + place, email) for place, email in enumerate(some)]
            table.append(pa.Table.from_pylist(rows, schema=SCHEMA))
            if number == 0:
                self.lake.warden.version.tag(f"crm.{name}", "first").apply()
        self.lake.warden.version.branch(f"crm.{name}", "work").apply()

    def run(self, *arguments: str, check: int | None = 0) -> str:
        """Run a command in this process, and hear all of it: also what is logged, at the lowest level."""
        out, err = (TextIOWrapper(BytesIO(), "utf-8", write_through=True) for _ in range(2))
        with redirect_stdout(out), redirect_stderr(err), heard_logging(self.ears):
            code = main.run(["--config", str(self.lake.folder), *arguments])
        said, beside = (stream.buffer.getvalue().decode() for stream in (out, err))
        return self._told(arguments, code, said, beside, check)

    def process(self, *arguments: str, said: str = "", check: int | None = 0, on_spark: bool = False) -> str:
        """Run a command in a process of its own."""
        command = self.lake.command(*arguments)
        if on_spark:
            command = [sys.executable, "-c", ON_SPARK, *command[3:]]
        done = subprocess.run(
            command,
            input=said,
            env=os.environ | {"XDG_STATE_HOME": str(self.state)},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        return self._told(arguments, done.returncode, done.stdout, done.stderr, check)

    def fork(self, *arguments: str, said: str = "", check: int | None = 0) -> str:
        """Run a command in a process that is forked: sooner, but no arguments of it can be seen."""
        environment = os.environ | {"XDG_STATE_HOME": str(self.state)}
        done = warm_process.run(["--config", str(self.lake.folder), *arguments], environment, said=said)
        return self._told(arguments, done.returncode, done.stdout, done.stderr, check)

    def fail_on_spark(self, version: str) -> None:
        """Have Spark fail on a damaged file, and say so in its log.

        What it raises, and its own story of that, are for whoever reads a DataFrame of their own.
        """
        before = set(self.events.iterdir())
        code = "import sys; from lakewarden import Warden; Warden.open(sys.argv[1]).dataframe(sys.argv[2]).collect()"
        environment = os.environ | {"XDG_STATE_HOME": str(self.state)}
        command = [sys.executable, "-c", code, str(self.lake.folder), version]
        assert subprocess.run(command, env=environment, capture_output=True, timeout=300, check=False).returncode == 1
        assert "ERROR Executor" in (self.state / "lakewarden" / "spark.log").read_text()
        for story in set(self.events.iterdir()) - before:
            story.unlink()

    def _told(self, arguments: Sequence[str], code: int, out: str, err: str, check: int | None) -> str:
        self.ears.hear(f"answer to {arguments[:3]}", out)
        self.ears.hear(f"what {arguments[:3]} told beside its answer", err)
        assert check in (None, code), f"{arguments}: {code}\n{out}\n{err}"
        return out

    def request(self, name: str, *arguments: str, said: str = "", key: str = "email", fork: bool = False) -> str:
        say = self.fork if fork else self.process
        told = say("erasure", "request", f"crm.{name}", "--key", key, *arguments, "--json", said=said)
        return str(json.loads(told)["id"])

    def listen(self, but: Sequence[str] = ()) -> None:
        """Hear what was written down: logs, Spark's own story, and the control database."""
        self.ears.files("log", self.state)
        for story in sorted(self.events.iterdir()):
            self.ears.hear("story of Spark", ICEBERGS_OWN.sub(b"", story.read_bytes()))
        self.ears.database(f"sqlite:///{self.lake.folder}/lakewarden.db", but)

    def data_file(self, name: str, telling: str) -> Path:
        table = self.lake.catalog.load_table(f"crm.{name}")
        paths = [task.file.file_path for task in table.scan().plan_files()]
        return Path("/" + next(path for path in paths if telling in path).removeprefix("file:").lstrip("/"))

    def silent(self) -> None:
        assert self.ears.said(self.gone) == []


UNTIL_CLOSED = ("tombstones.packed", "erasure_evidence:intent")


def test_spellings_are_heard() -> None:
    """The ears themselves: what they do not hear, no other test here can."""
    ears = Ears()
    value = mail("ear", 1)
    for spelling in spellings(value):
        ears.hear("somewhere", b"before " + spelling + b" after")
    assert len(ears.said([value])) >= len(spellings(value))
    assert ears.said([mail("ear", 2)]) == []


@pytest.fixture
def household(tmp_path: Path) -> Household:
    lake = SmallLake(tmp_path / "lake")
    return Household(lake, tmp_path / "events")


def test_no_value_is_said_anywhere(household: Household, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, lake = household, household.lake
    names = ("identity", "plain", "numbered")
    gone = {name: [mail(name, n) for n in range(4)] for name in names}
    home.gone = {*gone["identity"], *gone["plain"], str(NUMBER), str(NUMBER + 10)}
    kept = [f"stays{n}@example.org" for n in range(4)]
    home.create("identity", gone["identity"] + kept, IdentityTransform())
    home.create("plain", gone["plain"] + kept)
    home.create("numbered", gone["numbered"] + kept, IdentityTransform(), "id")

    with Processes(os.getpid()) as processes:
        requests = {
            "identity": home.request("identity", "--value", "-", "--ignore-case", said="\n".join(gone["identity"]))
        }
        people = tmp_path / "people.jsonl"
        people.write_text(f"{NUMBER}\n{json.dumps(str(NUMBER + 10))}\n")
        requests["numbered"] = home.request("numbered", "--from-file", str(people), key="id", fork=True)
        by_argument = home.request("plain", "--value", gone["plain"][0], key="user.email")
        rest = Client(lake.warden)
        answer = rest.post("erasure", "request", table="crm.plain", key="email", value=gone["plain"])
        home.ears.hear("REST answer", answer.content)
        requests["plain"] = answer.json()["id"]
        mistakes(home, rest, gone)
        broken(home)
        for name in names:
            home.run("version", "read", f"crm.{name}")
            home.run("erasure", "list", "--table", f"crm.{name}", "--json")
            home.run("erasure", "show", requests[name])
        home.run("erasure", "hide", "--all", "--files")
        home.run("erasure", "hide", "--all", "--apply", "--json")
        home.run("erasure", "prove", requests["identity"], check=3)
        home.run("erasure", "prove", requests["numbered"], "--json", check=3)
        home.run("erasure", "purge", "crm.identity", "--files", "--json")
        home.run("erasure", "purge", "--all", "--files")
        for where, verb, fields in (("plan", "purge", {"all": True, "files": True}), ("list", "list", {})):
            call = rest.post if verb == "purge" else rest.get
            home.ears.hear(f"REST {where}", call("erasure", verb, **fields).content)
        home.listen(but=UNTIL_CLOSED)
        home.silent()

        home.process("erasure", "purge", "crm.numbered", "--apply", "--json")
        events: list[Any] = []
        made = lake.warden.runner
        monkeypatch.setattr(lake.warden, "runner", lambda actor=None, watch=None: made(actor, events.append))
        with heard_logging(home.ears):
            done = rest.post("erasure", "purge", table="crm.identity", apply=True)
        assert done.status_code == 200, done.text
        home.ears.hear("REST report", done.content)
        home.ears.hear("events", repr(events))
        assert len(events) > 5
        home.run("erasure", "purge", "--all", "--apply")
    told: set[str] = set(requests.values()) | {by_argument}
    assert {row["id"] for row in json.loads(home.run("erasure", "list", "--state", "closed", "--json"))} == told
    certificates(home, rest, requests, tmp_path)
    home.fork("erasure", "recognise", requests["plain"], "--value", "-", said=gone["plain"][0])
    home.fork("erasure", "recognise", requests["identity"], "--value", "-", said=gone["plain"][0], check=3)
    back(home, gone["identity"][0])
    home.run("operation", "list", "--json")
    for operation in json.loads(home.run("operation", "list", "--json")):
        home.run("operation", "show", operation["id"], "--json")
    for line in processes.seen:
        if b"--value " not in line or b"--value -" in line:  # what a person types is a person's own
            home.ears.hear("arguments of a process", line)
    home.listen()
    for file in (lake.folder / "lakewarden.db", lake.folder / "lakewarden.db-wal"):
        home.ears.hear("file of the control database", file.read_bytes() if file.exists() else b"")
    expected = {"log: lakewarden.log", "control database: operations.plan", "control database: erasure_evidence.packed"}
    assert expected <= home.ears.places() and len(home.ears) > 300
    home.silent()


@pytest.mark.spark
@pytest.mark.soak
def test_nothing_is_said_through_spark(household: Household) -> None:
    """Where Spark does the work: its plans, its log and its own story of what it did."""
    home = household
    gone = {name: [mail(name, n) for n in range(4)] for name in ("truncate", "newer")}
    home.gone = {value for values in gone.values() for value in values}
    by = {"truncate": ("truncate(60, email)", 2), "newer": ("email", 3)}
    for name, (partition, format) in by.items():
        with_spark(home, name, [*gone[name], "stays@example.org"], partition, format)
    with Processes(os.getpid()) as processes:
        requests = {name: home.request(name, "--value", "-", said="\n".join(gone[name])) for name in by}
        home.process("version", "read", "crm.newer", "--where", "id < 3")
        files = [home.data_file(name, "=" + name) for name in by]
        whole = {file: file.read_bytes() for file in files}
        for file, content in whole.items():
            file.write_bytes(content[: len(content) // 2])
        home.process("erasure", "purge", "--all", "--apply", on_spark=True, check=1)
        home.fail_on_spark("crm.newer")
        for file, content in whole.items():
            file.write_bytes(content)
        home.process("erasure", "hide", "--all", "--apply", "--json", on_spark=True)
        home.process("erasure", "purge", "--all", "--apply", "--json", on_spark=True)
    closed = json.loads(home.run("erasure", "list", "--state", "closed", "--json"))
    assert {request["id"] for request in closed} == set(requests.values())
    for line in processes.seen:
        home.ears.hear("arguments of a process", line)
    home.listen()
    assert any(b"SparkListenerSQLExecutionStart" in story.read_bytes() for story in home.events.iterdir())
    assert any(b"java" in line for line in processes.seen) and "log: spark.log" in home.ears.places()
    home.silent()


def with_spark(home: Household, name: str, people: Sequence[str], partition: str, format: int) -> None:
    """A table that PyIceberg does not write."""
    spark = home.lake.warden.ground.spark
    home.lake.catalog.create_namespace_if_not_exists("crm")
    columns = "id BIGINT, email STRING, user STRUCT<email: STRING>, note STRING"
    properties = f"'format-version' = '{format}', 'write.delete.mode' = 'merge-on-read'"
    spark.sql(
        f"CREATE TABLE main.crm.{name} ({columns}) USING iceberg PARTITIONED BY ({partition}) "
        f"TBLPROPERTIES ({properties})"
    )
    rows = [(number, email, (email,), "note") for number, email in enumerate(people)]
    frame = spark.session().createDataFrame(rows, columns)
    frame.writeTo(f"main.crm.{name}").append()
    spark.sql(f"ALTER TABLE main.crm.{name} CREATE TAG first")
    frame.writeTo(f"main.crm.{name}").append()


def mistakes(home: Household, rest: Client, gone: dict[str, list[str]]) -> None:
    """Values of a wrong type, for a wrong column, in a broken file, or in the wrong place of a body."""
    secret = gone["plain"][1]
    home.fork("erasure", "request", "crm.numbered", "--key", "id", "--value", "-", said=secret, check=2)
    home.fork("erasure", "request", "crm.plain", "--key", "emial", "--value", "-", said=secret, check=2)
    table = home.lake.folder / "numbers.csv"
    table.write_text(f"{secret};x\n12;y\n{secret};z\n")
    home.run("erasure", "request", "crm.numbered", "--key", "id", "--from-file", str(table), check=2)
    home.gone.add(secret.upper())  # which is warned about, as it occurs in another spelling only
    home.run("erasure", "withdraw", home.request("plain", "--value", "-", said=secret.upper(), fork=True))
    damaged = home.lake.folder / "damaged.jsonl"
    damaged.write_text(f'{{"email": "{secret}"')
    home.run("erasure", "request", "crm.plain", "--key", "email", "--from-file", str(damaged), check=2)
    for fields in (
        {"table": "crm.plain", "key": "email", "value": secret},
        {"table": "crm.plain", "key": "email", "value": [{"email": secret}]},
        {"table": "crm.numbered", "key": "id", "value": [secret]},
        {"table": "crm.plain", "key": "email", "values": [secret]},
    ):
        answer = rest.post("erasure", "request", **fields)
        assert 400 <= answer.status_code < 500
        home.ears.hear("REST refusal", answer.content)
    raw = rest.http.post("/api/v1/erasure/request", content=f'{{"value": ["{secret}"', headers={"content-type": "x/y"})
    home.ears.hear("REST refusal", raw.content)


def broken(home: Household) -> None:
    """Files that are missing or damaged are named, without what their paths tell."""
    for name, telling in (("identity", "email=identity."), ("numbered", f"id={NUMBER}")):
        file = home.data_file(name, telling)
        content = file.read_bytes()
        for damage in (None, content[: len(content) // 2], b"nothing that anybody can read"):
            file.unlink() if damage is None else file.write_bytes(damage)
            home.run("erasure", "purge", f"crm.{name}", "--json", check=None)
            say = home.fork if damage is None else home.run
            say("erasure", "purge", f"crm.{name}", "--apply", check=1)
            home.run("erasure", "hide", f"crm.{name}", "--apply", check=None)
            home.run("erasure", "prove", next(iter(open_requests(home, name))), check=3)
            home.run("version", "read", f"crm.{name}", check=None)
        file.write_bytes(content)


def open_requests(home: Household, name: str) -> list[str]:
    told = home.run("erasure", "list", "--table", f"crm.{name}", "--state", "open", "--json")
    return [str(request["id"]) for request in json.loads(told)]


def certificates(home: Household, rest: Client, requests: dict[str, str], folder: Path) -> None:
    """As JSON, as a page, and over REST; checked, and refused once altered."""
    key = folder / "key.pub"
    key.write_text(home.run("lake", "key"))
    for name, request in requests.items():
        for ending in ("json", "html"):
            file = folder / f"{name}.{ending}"
            home.run("erasure", "certificate", request, "--out", str(file))
            home.ears.hear("certificate", file.read_bytes())
            home.run("erasure", "check-certificate", str(file), "--key", str(key), check=None)
        home.ears.hear("REST certificate", rest.get("erasure", "certificate", id=request).content)
        home.run("erasure", "show", request, "--json")


def back(home: Household, value: str) -> None:
    """Somebody comes back, is noticed, and is forgotten again."""
    table = home.lake.catalog.load_table("crm.identity")
    table.append(pa.Table.from_pylist([row(5, value)], schema=SCHEMA))
    home.run("erasure", "watch", "--plan", "--files", "--json")
    home.fork("erasure", "watch", "crm.identity", "--json", check=3)
    home.run("policy", "run", "--only", "watch", "--apply", check=3)
    home.run("erasure", "watch", "--again", "--json")
    home.run("erasure", "purge", "--all", "--apply", "--json")
    assert open_requests(home, "identity") == []


class heard_logging:
    """Everything that is logged in this process, by anybody, at the lowest level."""

    def __init__(self, ears: Ears) -> None:
        self._ears = ears
        self._handler = logging.Handler(logging.DEBUG)
        self._handler.emit = self._emit  # type: ignore[method-assign]

    def __enter__(self) -> None:
        root = logging.getLogger()
        self._level = root.level
        root.addHandler(self._handler)
        root.setLevel(logging.DEBUG)

    def __exit__(self, *_: object) -> None:
        root = logging.getLogger()
        root.removeHandler(self._handler)
        root.setLevel(self._level)

    def _emit(self, record: logging.LogRecord) -> None:
        self._ears.hear(f"logger {record.name}", logging.Formatter().format(record))


def test_what_was_planned_long_ago_is_forgotten_too(household: Household) -> None:
    """Plans of upkeep list files, and these paths tell who is in them."""
    home, lake = household, household.lake
    home.gone = {mail("identity", 0)}
    home.create("identity", [mail("identity", 0), "stays@example.org"] * 2, IdentityTransform())
    table = lake.catalog.load_table("crm.identity")
    for number in range(12):
        table.append(
            pa.Table.from_pylist([row(number, mail("identity", 0)), row(number, "stays@example.org")], schema=SCHEMA)
        )
    plans = [lake.warden.compaction.compact("crm.identity").store()]
    plans.append(lake.warden.retention.expire("crm.identity", keep_last=1, keep_days=0).store())
    before = Ears()
    before.database(f"sqlite:///{lake.folder}/lakewarden.db")
    assert before.said(home.gone)  # else nothing is shown by what follows
    request = lake.warden.erasure.request("crm.identity", key="email", value=list(home.gone)).id
    lake.warden.erasure.purge("crm.identity").apply()
    assert lake.warden.erasure.show(request).state == "closed"
    home.listen()
    for file in (lake.folder / "lakewarden.db", lake.folder / "lakewarden.db-wal"):
        home.ears.hear("file of the control database", file.read_bytes() if file.exists() else b"")
    home.silent()
    shown = home.run("operation", "show", plans[0], "--files", "--json")
    assert "email=*/" in shown and "email=stays%40example.org/" in shown
    home.silent()
