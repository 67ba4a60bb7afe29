"""The command line: documents for programs, tables for people, exit codes, help, completion, and no JVM.

Covers `doors/cli/completion.py` and `doors/cli/execution.py`.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import termios
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pytest

from lakewarden.doors.cli.main import run
from tests.cases import in_soak
from tests.small_lake import SmallLake


@pytest.fixture
def shop(lake: SmallLake, monkeypatch: pytest.MonkeyPatch) -> SmallLake:
    lake.create()
    monkeypatch.setenv("LAKEWARDEN_CONFIG", str(lake.folder))
    return lake


def document(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> object:
    """Run a command with --json; its stdout must be one document and nothing else."""
    assert run(arguments) == code
    said = capsys.readouterr()
    assert said.err == ""
    return json.loads(said.out)


class TestJson:
    def test_a_list_question_is_an_array_of_objects(self, shop: SmallLake, capsys: pytest.CaptureFixture[str]) -> None:
        rows = document(capsys, "version", "list", "sales.orders", "--json")
        assert isinstance(rows, list)
        assert list(rows[0]) == [
            *("snapshot_id", "committed_at", "operation", "rows", "files", "bytes", "tags", "branches", "who"),
            "kept_until",
        ]

    def test_any_other_question_is_an_object(self, shop: SmallLake, capsys: pytest.CaptureFixture[str]) -> None:
        shown = document(capsys, "--json", "table", "show", "sales.orders")
        assert isinstance(shown, dict)
        assert shown["table"] == "main.sales.orders"

    def test_a_plan(self, shop: SmallLake, capsys: pytest.CaptureFixture[str]) -> None:
        shown = document(capsys, "version", "tag", "sales.orders", "v1", "--plan", "--json")
        assert isinstance(shown, dict)
        plan = shown["plan"]
        assert {"id", "kind", "target", "actions", "summary"} <= set(plan)
        assert plan["actions"][0]["requires"][1] == {
            "table": "main.sales.orders",
            "ref": "v1",
            "snapshot": None,
            "kind": "ref",
        }
        assert set(shop.refs()) == {"main"}

        applied = document(capsys, "operation", "apply", plan["id"], "--json")
        assert isinstance(applied, dict)
        assert applied["operation"]["state"] == "done"

    def test_an_applied_operation(self, shop: SmallLake, capsys: pytest.CaptureFixture[str]) -> None:
        done = document(capsys, "version", "tag", "sales.orders", "v1", "--json")
        assert isinstance(done, dict)
        assert set(done) == {"operation", "result", "findings"}
        assert (done["operation"]["kind"], done["operation"]["state"]) == ("version.tag", "done")

    def test_an_error(self, shop: SmallLake, capsys: pytest.CaptureFixture[str]) -> None:
        error = document(capsys, "table", "show", "sales.nothing", "--json", code=2)
        assert isinstance(error, dict)
        assert error["error"]["code"] == "table-not-found"
        assert {"code", "message", "hint"} <= set(error["error"])


class TestOperations:
    def test_a_destructive_one_only_plans_unless_told(
        self, shop: SmallLake, capsys: pytest.CaptureFixture[str]
    ) -> None:
        run(["version", "tag", "sales.orders", "v1"])
        assert run(["version", "untag", "sales.orders", "v1"]) == 0
        shown = capsys.readouterr().out
        assert "Nothing changed. Apply: lakewarden operation apply plan-" in shown
        assert "v1" in shop.refs()

        plan = shown.rsplit(maxsplit=1)[-1]
        assert run(["operation", "apply", plan]) == 0
        assert "v1" not in shop.refs()

    def test_apply_is_taken_by_every_operation_and_an_option_not_to_act_wins(self, shop: SmallLake) -> None:
        assert run(["version", "tag", "sales.orders", "v1", "--apply"]) == 0
        assert run(["version", "untag", "sales.orders", "v1", "--apply", "--plan"]) == 0
        assert run(["version", "untag", "sales.orders", "v1", "--apply", "--check"]) == 3
        assert "v1" in shop.refs()
        assert run(["version", "untag", "sales.orders", "v1", "--apply"]) == 0
        assert "v1" not in shop.refs()

    def test_check_finds_something_or_not_and_writes_nothing_down(self, shop: SmallLake) -> None:
        assert run(["version", "rollback", f"sales.orders@{shop.head()}", "--check"]) == 0
        oldest = shop.warden.version.list("sales.orders")[-1].snapshot_id
        assert run(["version", "rollback", f"sales.orders@{oldest}", "--check"]) == 3
        assert shop.warden.operation.list() == []

    def test_a_stale_plan_is_refused_with_exit_code_one(
        self, shop: SmallLake, capsys: pytest.CaptureFixture[str]
    ) -> None:
        oldest, was = shop.warden.version.list("sales.orders")[-1].snapshot_id, shop.head()
        run(["version", "rollback", f"sales.orders@{oldest}"])
        plan = capsys.readouterr().out.rsplit(maxsplit=1)[-1]
        now, before = shop.append(), shop.metadata_files()

        assert run(["operation", "apply", plan]) == 1

        assert f"ref main of main.sales.orders moved from {was} to {now}" in capsys.readouterr().err
        assert shop.metadata_files() == before

    def test_refused_tables_are_shown_and_found(self, shop: SmallLake, capsys: pytest.CaptureFixture[str]) -> None:
        shop.warden.version.tag("sales.orders", "v1", keep="1d").apply()
        assert run(["version", "tag", "sales.*", "v1", "--check"]) == 3
        assert "refused: main.sales.orders already has a tag v1" in capsys.readouterr().out
        assert run(["version", "tag", "sales.*", "v1"]) == 1
        assert "1 of 1 failed" in capsys.readouterr().err

    def test_options_for_all_commands_may_stand_anywhere(
        self, shop: SmallLake, capsys: pytest.CaptureFixture[str]
    ) -> None:
        config = ["--config", str(shop.folder)]
        for arguments in (
            [*config, "--json", "version", "list", "sales.orders"],
            ["version", *config, "--json", "list", "sales.orders"],
            ["version", "list", "sales.orders", *config, "--json"],
        ):
            assert len(document(capsys, *arguments)) == 3  # type: ignore[arg-type]

    def test_wait_must_be_a_duration(self, shop: SmallLake, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["version", "tag", "sales.orders", "v1", "--wait", "soon"]) == 2
        assert "'soon' is not a duration" in capsys.readouterr().err
        assert set(shop.refs()) == {"main"}


class TestWithoutJava:
    """Questions and commits on formats v1 and v2 start no JVM, and do not miss it."""

    @pytest.mark.parametrize(
        "arguments",
        [
            ["version", "read", "sales.orders"],
            ["version", "tag", "sales.orders", "v1"],
            *in_soak(["--help"], ["table", "list"], ["version", "list", "sales.orders"]),
            *in_soak(["version", "rollback", "sales.orders@2020-01-01"]),
        ],
        ids=lambda arguments: " ".join(arguments[:2]),
    )
    def test_no_java_on_the_machine(self, shop: SmallLake, tmp_path: Path, arguments: list[str]) -> None:
        environment = {"PATH": str(tmp_path), "HOME": str(tmp_path), "JAVA_HOME": "", "TMPDIR": str(tmp_path)}
        code = (
            "import sys\nfrom lakewarden.doors.cli.main import run\n"
            f"code = run({['--config', str(shop.folder), *arguments]!r})\n"
            "assert 'pyspark' not in sys.modules and 'py4j' not in sys.modules\nsys.exit(code)"
        )
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        expected = 2 if "rollback" in arguments else 0  # there was no version in 2020
        assert done.returncode == expected, done.stderr
        assert "Traceback" not in done.stderr

    @pytest.mark.spark
    def test_format_v3_says_that_java_is_missing(self, lake: SmallLake, tmp_path: Path) -> None:
        lake.create(format=3)
        environment = {"PATH": str(tmp_path), "HOME": str(tmp_path)}
        command = lake.command("version", "tag", "sales.orders", "v1", "--json")
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        error = json.loads(done.stdout)["error"]
        assert (done.returncode, error["code"]) == (1, "spark-unavailable")
        assert "Install Java 17" in error["hint"]
        assert set(lake.refs()) == {"main"}


class TestForPeople:
    def test_tables_are_not_cut_when_piped(self, shop: SmallLake, capsys: pytest.CaptureFixture[str]) -> None:
        run(["version", "list", "sales.orders"])
        assert str(shop.head()) in capsys.readouterr().out

    def test_rows_are_shown_as_they_are(self, lake: SmallLake, capsys: pytest.CaptureFixture[str]) -> None:
        lake.catalog.create_namespace("web")
        at = datetime(2026, 1, 2, 3, 4, 5, 678901)
        rows = [
            {
                "order_id": 3309,
                "ratio": 12345.5,
                "at": at,
                "ok": True,
                "state": "failed",
                "tags": ["a", None],
                "none": None,
            },
            {"order_id": None, "ratio": 2e20, "at": at, "ok": None, "state": "", "tags": None, "none": None},
        ]
        schema = pa.schema(
            [
                *(("order_id", pa.int64()), ("ratio", pa.float64()), ("at", pa.timestamp("us")), ("ok", pa.bool_())),
                *(("state", pa.string()), ("tags", pa.list_(pa.string())), ("none", pa.string())),
            ]
        )
        lake.catalog.create_table("web.hits", schema).append(pa.Table.from_pylist(rows, schema=schema))

        assert run(["--config", str(lake.folder), "version", "read", "web.hits"]) == 0

        head, _, first, second = [line.split() for line in capsys.readouterr().out.splitlines()]
        assert head == ["order_id", "ratio", "at", "ok", "state", "tags", "none"]
        assert first == ["3309", "12345.5", "2026-01-02", "03:04:05.678901", "true", "failed", '["a",null]', "null"]
        assert second == ["null", "2e+20", "2026-01-02", "03:04:05.678901", "null", "null", "null"]

    def test_rows_that_were_cut_are_counted(self, shop: SmallLake, capsys: pytest.CaptureFixture[str]) -> None:
        shop.append(rows=1300)
        assert run(["version", "read", "sales.orders"]) == 0
        *table, last = capsys.readouterr().out.splitlines()
        assert len(table) == 22
        assert last == "20 of 1,306 rows. --limit N shows more, --out FILE writes all of them to a file."
        assert run(["version", "read", "sales.orders", "--limit", "2000"]) == 0
        assert len(capsys.readouterr().out.splitlines()) == 1307
        read = document(capsys, "version", "read", "sales.orders", "--json")
        assert isinstance(read, dict) and len(read.pop("rows")) == 20
        assert read == {"rows_read": 20, "rows_total": 1306, "cut": True, "file": None, "left_out": ""}

    def test_an_empty_answer_says_so(self, lake: SmallLake, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["--config", str(lake.folder), "table", "list"]) == 0
        assert capsys.readouterr().out == "No tables yet.\n"

    def test_a_reader_that_has_seen_enough_is_no_error(self, shop: SmallLake) -> None:
        command = f"{sys.executable} -m lakewarden version list sales.orders --json | head -c 1"
        done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False)
        assert (done.stdout, done.stderr) == ("[", "")

    @pytest.mark.parametrize("json_or_not", ["--config", *in_soak("--json")])
    def test_nobody_reading_is_no_failure_of_what_was_done(self, shop: SmallLake, json_or_not: str) -> None:
        options = json_or_not if json_or_not == "--json" else f"--config {shop.folder}"
        command = f"{sys.executable} -m lakewarden version tag sales.orders v1 {options} | true"
        done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        assert "v1" in shop.refs()

    @pytest.mark.parametrize("columns", [60, *in_soak(200)])
    def test_nothing_is_cut_on_a_terminal_of_any_width(self, shop: SmallLake, columns: int) -> None:
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        shop.warden.version.tag("sales.orders", "a-tag-with-a-long-name-that-goes-on-and-on").apply()
        subprocess.run(
            shop.command("version", "list", "sales.orders"),
            stdout=theirs,
            check=True,
            env=os.environ | {"TERM": "xterm"},
        )
        os.close(theirs)
        seen = os.read(ours, 100_000).decode()
        os.close(ours)
        assert str(shop.head()) in seen
        assert "main" in seen
        lines = [re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip() for line in seen.splitlines()]
        assert max(map(len, lines)) <= columns

    def test_progress_is_shown_on_a_terminal_and_stdout_stays_clean(self, shop: SmallLake) -> None:
        ours, theirs = pty.openpty()
        done = subprocess.run(
            shop.command("version", "tag", "sales.orders", "v1"),
            stdout=subprocess.PIPE,
            stderr=theirs,
            text=True,
            env=os.environ | {"TERM": "xterm", "COLUMNS": "100"},
            check=True,
        )
        os.close(theirs)
        seen = os.read(ours, 100_000).decode()
        os.close(ours)
        assert "version tag" in seen
        assert "\x1b" not in done.stdout
        assert done.stdout.splitlines()[-1].startswith("done  op-")

    @pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
    def test_completion_scripts(self, shell: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["--show-completion", shell]) == 0
        assert "_LAKEWARDEN_COMPLETE" in capsys.readouterr().out

    def test_tables_are_completed(self, shop: SmallLake) -> None:
        words = "lakewarden version tag sal"
        environment = os.environ | {"_LAKEWARDEN_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": "3"}
        command = shutil.which("lakewarden", path=str(Path(sys.executable).parent))
        assert command is not None
        done = subprocess.run([command], env=environment, capture_output=True, text=True, check=False)
        assert "sales.orders" in done.stdout

    def test_help_says_which_kind_an_operation_is(self, capsys: pytest.CaptureFixture[str]) -> None:
        run(["version", "untag", "--help"])
        assert "Destructive: shows its plan and changes nothing without --apply." in capsys.readouterr().out
        run(["version", "tag", "--help"])
        assert "Acts immediately" in capsys.readouterr().out


def test_a_defect_is_a_short_message_with_an_incident_and_a_log(
    shop: SmallLake, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr("lakewarden.warden.Warden.ask", lambda *_: 1 / 0)

    assert run(["table", "list"]) == 1

    said = capsys.readouterr().err
    assert "Traceback" not in said
    assert "ZeroDivisionError" in (tmp_path / "lakewarden" / "incidents.log").read_text()
    assert said.split("Incident ")[1].split()[0] in (tmp_path / "lakewarden" / "incidents.log").read_text()
