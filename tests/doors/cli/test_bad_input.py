"""Bad input on the command line: one line that says what is the case and what to do, and nothing changed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from lakewarden.doors.cli.main import run
from lakewarden.engine.catalog.tables import Tables
from tests.cases import in_soak
from tests.engine.lakes import Lake, digest, local, open_path, read_only

__all__ = ["open_path"]


@dataclass(frozen=True)
class Bad:
    """A command that must be refused, and how."""

    arguments: list[str]
    error: str
    says: str
    hint: str
    exit_code: int = 2
    damage: Callable[[Lake], object] | None = None

    def __str__(self) -> str:
        return f"{' '.join(self.arguments[:2])} {self.error} {self.says}"[:60]


def _configuration(text: str | bytes) -> Callable[[Lake], object]:
    content = text.encode() if isinstance(text, str) else text
    return lambda lake: (lake.folder / "lakewarden.yaml").write_bytes(content)


def _setting(**sections: object) -> Callable[[Lake], object]:
    def change(lake: Lake) -> None:
        path = lake.folder / "lakewarden.yaml"
        path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | sections))

    return change


def _metadata(change: Callable[[Path], object]) -> Callable[[Lake], object]:
    return lambda lake: change(local(lake.table().metadata_location))


HELP = "--help shows the arguments."
FORM = "Write it as [lake.]namespace.table[@ref]"
CASES = [
    # names that nothing answers to
    Bad(["version", "list", "sales.ordrs"], "TableNotFound", "no table sales.ordrs", "Did you mean sales.orders?"),
    Bad(["table", "show", "x.y"], "TableNotFound", "no table x.y in lake 'main'", "lakewarden table list"),
    Bad(["version", "tag", "sales.*x", "v9"], "TableNotFound", "no table matches sales.*x", "lakewarden table list"),
    Bad(["version", "show", "sales.orders@v2"], "VersionNotFound", "'v2'", "It has main, v1;"),
    Bad(["version", "read", "sales.orders@123"], "VersionNotFound", "has no snapshot '123'", "lakewarden version list"),
    Bad(
        ["version", "tag", "sales.orders@2001-01-01", "v9"],
        "VersionNotFound",
        "had no version at",
        "Its first version is from",
    ),
    Bad(["version", "untag", "sales.orders", "v2", "--apply"], "VersionNotFound", "has no tag 'v2'", "It has v1."),
    Bad(["table", "list", "--lake", "mian"], "LakeNotFound", "no lake 'mian'", "Did you mean main?"),
    Bad(["table", "list", "--namespace", "sale"], "NotFound", "no namespace sale", "Did you mean sales?"),
    Bad(["table", "list", "--namespace", "."], "NotFound", "no namespace .", "There are: sales."),
    Bad(["version", "read", "sales.orders", "--columns", "idd"], "ColumnNotFound", "no column idd", "Did you mean id?"),
    Bad(["operation", "show", "op-nowhere"], "OperationNotFound", "op-nowhere", "lakewarden operation list"),
    Bad(["operation", "apply", "plan-000000000000"], "OperationNotFound", "plan-000000000000", "lakewarden operation"),
    Bad(["operation", "resume", "op-nowhere"], "OperationNotFound", "op-nowhere", "lakewarden operation list"),
    Bad(["operation", "cancel", ""], "OperationNotFound", "", "lakewarden operation list"),
    # what the lake's state forbids
    Bad(
        ["version", "tag", "sales.orders", "v1"], "AlreadyExists", "already has a tag v1", "lakewarden version untag", 1
    ),
    Bad(["version", "branch", "sales.orders", "v1"], "AlreadyExists", "already has a tag v1", "Choose another name", 1),
    Bad(
        ["version", "branch", "sales.orders", "main"], "AlreadyExists", "already has a branch main", "Choose another", 1
    ),
    # references that cannot be read
    Bad(["version", "list", "orders"], "BadReference", "the namespace is missing", FORM),
    Bad(["version", "list", ""], "BadReference", "it is empty", FORM),
    Bad(["version", "show", "sales..orders"], "BadReference", "a part of the name is empty", FORM),
    Bad(["version", "show", "sales.orders@"], "BadReference", "nothing follows the @", FORM),
    Bad(["version", "show", "sales.`orders"], "BadReference", "a backtick is not closed", FORM),
    Bad(["version", "list", "sales.orders@v1"], "BadReference", "a table is expected here", FORM),
    Bad(["version", "show", "s." + "x" * 2000], "BadReference", "more than the limit of 1024", FORM),
    # values
    Bad(["version", "list", "sales.orders", "--limit", "0"], "BadValue", "limit: ", HELP),
    Bad(["version", "list", "sales.orders", "--limit", "-1"], "BadValue", "limit: ", HELP),
    Bad(["version", "list", "sales.orders", "--limit", "many"], "BadValue", "limit: ", HELP),
    Bad(["version", "list", "sales.orders", "--limit", "9" * 5000], "BadValue", "limit: ", HELP),
    Bad(["version", "tag", "sales.orders", "v9", "--keep", "soon"], "BadValue", "keep: 'soon' is not a duration", HELP),
    Bad(["version", "tag", "sales.orders", "v9", "--keep", "30s"], "BadValue", "keep: ", HELP),
    Bad(["version", "tag", "sales.orders", "v9", "--keep", "999999999w"], "BadValue", "keep: ", HELP),
    Bad(["version", "tag", "sales.orders", "v9", "--wait", "soon"], "BadValue", "wait: 'soon' is not a", "--wait 5m"),
    Bad(["operation", "apply", "x", "--wait", "soon"], "BadValue", "wait: 'soon' is not a duration", HELP),
    Bad(["version", "tag", "sales.orders", " "], "BadValue", "name: a name cannot be empty", HELP),
    Bad(["version", "tag", "sales.orders", "a\nb"], "BadValue", "name: a name cannot contain control characters", HELP),
    Bad(["version", "tag", "sales.orders", "x" * 256], "BadValue", "name: ", HELP),
    Bad(["version", "tag", "sales.orders", "v9", "--note", "x" * 1001], "BadValue", "note: ", HELP),
    Bad(
        ["version", "read", "sales.orders", "--where", "id >"],
        "BadFilter",
        "--where cannot be parsed",
        "Supported: comparisons",
    ),
    Bad(
        ["version", "read", "sales.orders", "--where", "'" * 99],
        "BadFilter",
        "--where cannot be parsed",
        "Supported: comparisons",
    ),
    Bad(
        ["version", "read", "sales.orders", "--where", "id = 'x'"],
        "BadFilter",
        "--where does not fit",
        "Supported: comparisons",
    ),
    Bad(
        ["version", "read", "sales.orders", "--where", "idd > 1"],
        "BadFilter",
        "--where does not fit",
        "Did you mean id?",
    ),
    # usage
    Bad(["version", "list", "sales.orders", "--limt", "5"], "WrongUse", "--limt", HELP),
    Bad(["version", "list"], "WrongUse", "TABLE", HELP),
    Bad(["version", "list", "a.b", "c.d"], "WrongUse", "c.d", HELP),
    Bad(["version", "list", "sales.orders", "--limit"], "WrongUse", "--limit", HELP),
    Bad(
        ["version", "lits", "sales.orders"],
        "WrongUse",
        "lakewarden version has no command 'lits'",
        "Did you mean list?",
    ),
    Bad(
        ["versoin", "list", "sales.orders"], "WrongUse", "lakewarden has no command 'versoin'", "Did you mean version?"
    ),
    Bad(["xyz"], "WrongUse", "lakewarden has no command 'xyz'", "Supported: lake, table"),
    Bad(["operation", "list", "--state", "finished"], "WrongUse", "finished", HELP),
    # configuration
    Bad(
        ["table", "list"],
        "ConfigProblem",
        "line 2, column 1",
        "Check the YAML there",
        damage=_configuration("lakes:\n\tmain: 1"),
    ),
    Bad(
        ["table", "list"], "ConfigProblem", "cannot be read", "It must be UTF-8", damage=_configuration(b"state: \xff")
    ),
    Bad(["table", "list"], "ConfigProblem", "has no keys", "lakewarden lake init", damage=_configuration("")),
    Bad(["table", "list"], "ConfigProblem", "unknown key spak", "Did you mean spark?", damage=_setting(spak={})),
    Bad(
        ["table", "list"],
        "ConfigProblem",
        "uses ${LAKEWARDEN_TEST_UNSET}, which is not set",
        "export LAKEWARDEN_TEST_UNSET=…",
        damage=_setting(state="${LAKEWARDEN_TEST_UNSET}"),
    ),
    Bad(
        ["table", "list"],
        "ConfigProblem",
        "no configuration file at",
        "lakewarden lake init DIR",
        damage=lambda lake: (lake.folder / "lakewarden.yaml").unlink(),
    ),
    # surroundings
    Bad(
        ["table", "list"],
        "CatalogUnavailable",
        "catalog.db does not exist",
        "lakewarden lake init",
        1,
        damage=lambda lake: (lake.folder / "lake/catalog.db").unlink(),
    ),
    Bad(
        ["version", "tag", "sales.orders", "v9"],
        "StateUnavailable",
        "does not respond",
        "Check that PostgreSQL runs there",
        1,
        damage=_setting(state="postgresql+psycopg://u:hunter2@127.0.0.1:1/db?connect_timeout=2"),
    ),
    Bad(
        ["operation", "list"],
        "StateUnavailable",
        "",
        "sqlite:///lakewarden.db",
        1,
        damage=_setting(state="nonsense://u:hunter2@x"),
    ),
    Bad(
        ["version", "list", "sales.orders"],
        "BrokenTable",
        "table main.sales.orders: its metadata cannot be read",
        "The file is corrupt",
        1,
        damage=_metadata(lambda path: path.write_text("{")),
    ),
    Bad(
        ["version", "tag", "sales.orders", "v9"],
        "BrokenTable",
        "table main.sales.orders: a file it needs is missing",
        "Was it deleted or moved manually",
        1,
        damage=_metadata(lambda path: path.unlink()),
    ),
]


@pytest.fixture
def lake(open_path: Path) -> Lake:
    """A lake that any user can look at, with sales.orders in it and a tag v1 on that."""
    lake = Lake(open_path)
    lake.create("sales.orders")
    lake.warden.version.tag("sales.orders", "v1").apply()
    lake.warden.close()
    return lake


def contents(lake: Lake) -> dict[str, str]:
    """All files but the control database's, which may remember that something was refused."""
    return {name: content for name, content in digest(lake.folder).items() if not name.startswith("lakewarden.db")}


@pytest.fixture(autouse=True)
def _quiet_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("LAKEWARDEN_CONFIG", raising=False)
    monkeypatch.chdir(tmp_path)


def check_line(bad: Bad, out: str, err: str) -> None:
    assert out == ""
    assert err.endswith("\n") and err.count("\n") == 1, err
    assert err.startswith(f"{bad.error}: "), err
    assert bad.says in err and bad.hint in err, err
    assert "Traceback" not in err and "hunter2" not in err
    assert ".. " not in err and not re.search(r": ?\. ", err), err


def check_document(bad: Bad, out: str, err: str) -> None:
    assert err == ""
    document = json.loads(out)
    assert list(document) == ["error"]
    error = document["error"]
    assert {"code", "message", "hint"} <= set(error)
    assert bad.says in error["message"] and bad.hint in error["hint"], error
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", error["code"])
    assert "Traceback" not in out and "hunter2" not in out


@pytest.mark.parametrize("bad", CASES, ids=str)
def test_refused(bad: Bad, lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    if bad.damage is not None:
        bad.damage(lake)
    before = contents(lake)
    config = ["--config", str(lake.folder)]
    assert run([*config, *bad.arguments]) == bad.exit_code
    check_line(bad, *capsys.readouterr())
    assert run(["--json", *config, *bad.arguments]) == bad.exit_code
    check_document(bad, *capsys.readouterr())
    assert contents(lake) == before


def test_no_configuration_in_the_working_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = Bad(
        ["table", "list"], "ConfigProblem", "no configuration file at lakewarden.yaml", "lakewarden lake init DIR"
    )
    assert run(bad.arguments) == 2
    check_line(bad, *capsys.readouterr())
    assert digest(tmp_path) == {}


def test_no_configuration_where_the_environment_says(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LAKEWARDEN_CONFIG", "/no/where.yaml")
    assert run(["table", "list"]) == 2
    assert "no configuration file at /no/where.yaml" in capsys.readouterr().err


def test_a_refused_command_is_not_in_the_journal(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    config = ["--config", str(lake.folder)]
    for bad in CASES:
        if bad.damage is None:
            run([*bad.arguments, *config])
    capsys.readouterr()
    assert run(["operation", "list", "--json", *config]) == 0
    assert [entry["kind"] for entry in json.loads(capsys.readouterr().out)] == ["version.tag"]


class TestReadOnly:
    """Storage that cannot be written: the operation fails in one line, and nothing but the journal knows of it."""

    @pytest.mark.parametrize("as_json", [False, True])
    def test_a_warehouse(self, lake: Lake, capsys: pytest.CaptureFixture[str], as_json: bool) -> None:
        bad = Bad(["version", "tag", "sales.orders", "v9"], "StorageUnavailable", "sales.orders", "permissions", 1)
        before = contents(lake)
        _let_anyone_write(lake.folder)
        folder = local(lake.table().metadata.location) / "metadata"
        with read_only(folder):
            code = run([*bad.arguments, "--config", str(lake.folder), *(["--json"] if as_json else [])])
        assert code == 1
        (check_document if as_json else check_line)(bad, *capsys.readouterr())
        assert contents(lake) == before

    def test_a_control_database(self, lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
        bad = Bad(["version", "tag", "sales.orders", "v9"], "StateUnavailable", "control database", "write access", 1)
        before = digest(lake.folder)
        with read_only(lake.folder):
            code = run([*bad.arguments, "--config", str(lake.folder)])
        assert code == 1
        check_line(bad, *capsys.readouterr())
        assert digest(lake.folder) == before

    def test_questions_are_answered_all_the_same(self, lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
        folders = [folder for folder in (lake.folder, *lake.folder.rglob("*")) if folder.is_dir()]
        with read_only(*folders):
            assert run(["version", "list", "sales.orders", "--config", str(lake.folder), "--json"]) == 0
        assert len(json.loads(capsys.readouterr().out)) == 2


def _let_anyone_write(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o777 if path.is_dir() else 0o666)


class TestWithoutJava:
    """In a process of its own, since this one may have found Java already."""

    def run(self, lake: Lake, tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
        environment |= {"PATH": str(tmp_path), "HOME": str(tmp_path)}
        command = [sys.executable, "-m", "lakewarden", *arguments, "--config", str(lake.folder)]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)

    @pytest.fixture
    def third_format(self, lake: Lake) -> Lake:
        """A table of format v3, which only Spark can change."""
        path = local(lake.table().metadata_location)
        document = json.loads(path.read_text())
        document |= {"format-version": 3, "next-row-id": 0}
        path.write_text(json.dumps(document))
        lake.warden.close()
        return lake

    @pytest.mark.parametrize("as_json", [False, *in_soak(True)])
    def test_what_needs_it(self, third_format: Lake, tmp_path: Path, as_json: bool) -> None:
        bad = Bad(["version", "tag", "sales.orders", "v9"], "SparkUnavailable", "needs Java", "Install Java 17", 1)
        before = contents(third_format)
        ended = self.run(third_format, tmp_path, *bad.arguments, *(["--json"] if as_json else []))
        assert ended.returncode == 1
        (check_document if as_json else check_line)(bad, ended.stdout, ended.stderr)
        assert contents(third_format) == before

    def test_what_does_not(self, lake: Lake, tmp_path: Path) -> None:
        tagged = self.run(lake, tmp_path, "version", "tag", "sales.orders", "v9")
        assert (tagged.returncode, tagged.stderr) == (0, "")

    def test_the_doctor(self, lake: Lake, tmp_path: Path) -> None:
        ended = self.run(lake, tmp_path, "lake", "doctor", "--json")
        assert (ended.returncode, ended.stderr) == (3, "")
        lines = {line["part"]: line for line in json.loads(ended.stdout)}
        assert lines["java"]["state"] == lines["spark"]["state"] == "failed"
        assert "Install Java 17" in lines["java"]["advice"]
        assert lines["main: storage"]["state"] == "ok"


def test_a_defect_is_a_short_word_with_a_number(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("a secret of ours")

    monkeypatch.setattr(Tables, "names", broken)
    assert run(["table", "list", "--config", str(lake.folder)]) == 1
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.count("\n") == 1
    assert "a secret of ours" not in captured.err
    number = re.search(r"Incident ([0-9a-f]{8}) in (\S+) has the details", captured.err)
    assert number and number[1] in Path(number[2]).read_text() and "a secret of ours" in Path(number[2]).read_text()
    assert run(["table", "list", "--config", str(lake.folder), "--json"]) == 1
    assert set(json.loads(capsys.readouterr().out)["error"]) == {"code", "message", "hint", "incident"}
