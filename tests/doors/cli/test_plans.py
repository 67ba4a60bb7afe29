"""Plans and reports for people: cut where they are long, with totals, sizes and what is left.

Covers `lifecycle/plan_text.py`.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from rich.console import Console
from rich.progress import Progress

from lakewarden.doors.cli.live import follow
from lakewarden.doors.cli.main import run
from lakewarden.doors.cli.render import Screen
from lakewarden.features.operation.entry import FileRow
from lakewarden.features.version.tag import Tag
from lakewarden.lifecycle.action import Action, Estimate, Finding
from lakewarden.lifecycle.journal import Record
from lakewarden.lifecycle.plan import Plan
from lakewarden.lifecycle.planned_files import FileList, PlannedFile
from lakewarden.lifecycle.progress import Event
from lakewarden.lifecycle.report import Report
from lakewarden.lifecycle.requirement import TableIs
from lakewarden.lifecycle.states import State, Stop
from tests.small_lake import SmallLake

MB = 1 << 20


def expire(number: int, files: int = 2) -> Action:
    listed = FileList.of(PlannedFile(f"s3://lake/t{number}/{'x' * 300}-{n}", 3 * MB, "data") for n in range(files))
    table, requires = f"main.sales.t{number}", (TableIs(f"main.sales.t{number}", str(number)),)
    return Action("expire", table, table, f"expire {number} snapshots", {}, requires=requires, files=listed)


def a_plan(*actions: Action) -> Plan:
    return Plan("retention.expire", "sales.*", actions, warnings=("mind the gap",), refused=(Finding("u", "u: no"),))


def shown(capsys: pytest.CaptureFixture[str], plan: Plan, files: bool = False) -> list[str]:
    Screen(as_json=False).plan(plan, stored=True, files=files)
    return capsys.readouterr().out.splitlines()


def test_an_action_tells_how_many_files_and_how_large(capsys: pytest.CaptureFixture[str]) -> None:
    plan = a_plan(
        expire(1, files=1234), Action("tag", "main.sales.t2", "main.sales.t2", "tag v1", {}), expire(3, files=1)
    )
    assert shown(capsys, plan) == [
        "retention expire  sales.*",
        "  main.sales.t1: expire 1 snapshots (1,234 files, 3.6 GB)",
        "  main.sales.t2: tag v1",
        "  main.sales.t3: expire 3 snapshots (1 file, 3.0 MB)",
        "  expire: 2 actions, 2 tables, 1,235 files, 3.6 GB",
        "  note: mind the gap",
        "  refused: u: no",
        f"Nothing changed. Apply: lakewarden operation apply {plan.id}",
    ]


def test_what_is_no_table_is_counted_as_a_subject(capsys: pytest.CaptureFixture[str]) -> None:
    moves = [Action("move", f"view {n}", f"view {n}", "move", {}, estimate=Estimate(files=1, bytes=MB)) for n in (1, 2)]
    assert "  move: 2 actions, 2 subjects, 2 files, 2.0 MB" in shown(capsys, a_plan(*moves))


def test_a_long_plan_is_cut_and_added_up(capsys: pytest.CaptureFixture[str]) -> None:
    rewrite = Action("rewrite", "main.sales.r", "main.sales.r", "rewrite", {}, estimate=Estimate(files=7, bytes=MB))
    lines = shown(capsys, a_plan(*(expire(n) for n in range(300)), rewrite, rewrite))
    assert len([line for line in lines if "expire" in line and "snapshots" in line]) == 20
    assert "  and 282 more; --files or --json shows all" in lines
    assert "  expire: 300 actions, 300 tables, 600 files, 1.8 GB" in lines
    assert "  rewrite: 2 actions, 14 files, 2.0 MB" in lines  # of what it does not list, what it estimates


def test_all_is_shown_when_asked_and_paths_are_never_broken(capsys: pytest.CaptureFixture[str]) -> None:
    plan = a_plan(*(expire(n) for n in range(30)))
    lines = shown(capsys, plan, files=True)
    assert not any("more;" in line for line in lines)
    paths = [line.split()[-1] for line in lines if line.startswith("      data  3.0 MB  s3://")]
    assert paths == [file.path for action in plan.actions for file in action.files.items]


def test_a_short_plan_without_files_has_no_totals(capsys: pytest.CaptureFixture[str]) -> None:
    tags = [Action("tag", f"t{n}", f"t{n}", "tag v1", {}) for n in range(3)]
    assert not any("actions" in line for line in shown(capsys, a_plan(*tags)))


def test_a_report_shows_sizes_and_what_is_left(capsys: pytest.CaptureFixture[str]) -> None:
    result = {
        "actions": 1234,
        "bytes_freed": 5 * MB,
        "share": 0.5,
        "snapshot": str(2**62),
        "route": "commit",
        "left": 23,
    }
    report = Report("op-1", "retention.expire", State.DONE, result, tuple(f"t{n}: expire" for n in range(23)))
    Screen(as_json=False).report(a_plan(*(expire(n) for n in range(25))), report)
    lines = capsys.readouterr().out.splitlines()
    assert lines[20] == "  and 5 more; lakewarden operation show shows all"
    done = lines.index(
        "done  op-1  actions 1,234, bytes freed 5.0 MB, share 0.5, snapshot 4611686018427387904, route commit, left 23"
    )
    assert lines[done + 1 : done + 3] == ["left for the next run (23):", "  t0: expire"]
    assert lines[-1] == "  and 3 more; --json shows all"

    Screen(as_json=True).report(None, report)
    document = json.loads(capsys.readouterr().out)
    assert (document["left"][22], document["result"]["bytes_freed"]) == ("t22: expire", 5 * MB)


def test_an_operation_that_had_enough_ends_well_and_says_what_is_left(
    lake: SmallLake, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("sales.a", "sales.b", "sales.c"):
        lake.create(name, appends=1)
    monkeypatch.setattr(Tag, "limit_reached", lambda self, elapsed, begun: Stop.BUDGET)
    tag = ["--config", str(lake.folder), "version", "tag", "sales.*"]

    assert run([*tag, "v1"]) == 0

    said = capsys.readouterr().out.splitlines()
    assert said[-3] == "left for the next run (2):"
    assert said[-2].startswith("  main.sales.b: tag v1 at ")
    assert said[-4].endswith("actions 1, subjects 1, tags 1, left 2, stopped budget")
    assert ["v1" in lake.refs(name) for name in ("sales.a", "sales.b", "sales.c")] == [True, False, False]

    assert run([*tag, "v2", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["operation"]["state"], len(document["left"]), document["result"]["left"]) == ("done", 2, 2)
    row = lake.warden.operation.list(limit=1)[0]
    assert (row.state, row.done, row.actions) == ("done", 1, 3)


def test_an_operation_that_pauses_itself_says_how_it_continues(
    lake: SmallLake, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("sales.a", "sales.b", "sales.c"):
        lake.create(name, appends=1)
    monkeypatch.setattr(Tag, "limit_reached", lambda self, elapsed, begun: Stop.PAUSE if begun == 2 else None)
    config = ["--config", str(lake.folder)]

    assert run([*config, "version", "tag", "sales.*", "v1"]) == 0

    (row,) = lake.warden.operation.list()
    said = capsys.readouterr().out.splitlines()
    assert said[-4].startswith(f"paused  {row.id}  actions 2, subjects 2, tags 2, left 1, stopped pause")
    assert said[-3:][::2] == ["left for the next run (1):", f"Continue with: lakewarden operation resume {row.id}"]
    assert run([*config, "operation", "resume", row.id]) == 0
    assert all("v1" in lake.refs(name) for name in ("sales.a", "sales.b", "sales.c"))


def test_files_can_be_asked_for_on_the_command_line(lake: SmallLake, capsys: pytest.CaptureFixture[str]) -> None:
    lake.create(appends=1)
    common = ["--config", str(lake.folder), "--json"]
    for arguments, keys in (([], {"count", "bytes", "digest"}), (["--files"], {"count", "bytes", "digest", "items"})):
        for how in ("--plan", "--check"):
            run([*common, "version", "tag", "sales.orders", "v1", how, *arguments])
            plan = json.loads(capsys.readouterr().out)["plan"]
            assert set(plan["actions"][0]["files"]) == keys


def test_operation_show_counts_files_and_lists_them(lake: SmallLake, capsys: pytest.CaptureFixture[str]) -> None:
    plan = a_plan(expire(1), expire(2), Action("tag", "t3", "t3", "tag", {}))
    lake.warden.ground.journal.add(Record.planned("op-1", plan, "{}", "ada", datetime(2026, 1, 1, tzinfo=UTC)))
    show = ["--config", str(lake.folder), "operation", "show", "op-1"]

    run([*show, "--json"])
    counted = json.loads(capsys.readouterr().out)
    assert [(step["files"], step["bytes"]) for step in counted["steps"]] == [(2, 6 * MB), (2, 6 * MB), (None, None)]
    assert counted["files"] == []

    run([*show, "--files", "--json"])
    listed = json.loads(capsys.readouterr().out)["files"]
    assert [file["path"] for file in listed] == [f.path for a in plan.actions for f in a.files.items]
    assert listed[0] == {
        "action": plan.actions[0].id,
        "path": listed[0]["path"],
        "bytes": 3 * MB,
        "kind": "data",
        "group": 0,
    }

    assert run(show) == 0
    assert "6.0 MB" in capsys.readouterr().out


def test_very_many_rows_are_written_a_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [FileRow("abc", f"s3://lake/{'x' * 300}-{n}", n * MB, "data", 0) for n in range(1500)]
    Screen(as_json=False)._rows(rows)
    header, *lines = capsys.readouterr().out.splitlines()
    assert header.split() == ["action", "path", "bytes", "kind", "group"]
    assert [line.split()[1] for line in lines] == [row.path for row in rows]
    assert "1.5 GB" in lines[-1]


class TestTheLiveBar:
    """It goes on within an action, and never backwards by more than that action."""

    def bar(self) -> Progress:
        return Progress(console=Console(quiet=True), auto_refresh=False)

    def event(self, phase: str, done: int, table: str, part: float = 0.0) -> Event:
        return Event("op-1", "compaction.compact", phase, done, 4, table, "rewrite group 1", part)  # type: ignore[arg-type]

    def test_shows_the_part_that_each_action_tells(self) -> None:
        bar = self.bar()
        watch = follow(bar)
        seen = []
        for event in (
            self.event("started", 0, ""),
            self.event("working", 0, "t", 0.5),
            self.event("working", 0, "u", 0.25),  # side by side
            self.event("applied", 1, "t"),
            self.event("working", 1, "u", 0.75),
            self.event("applied", 2, "u"),
            self.event("finished", 4, ""),
        ):
            watch(event)
            seen.append(bar.tasks[0].completed)
        assert seen == [0, 0.5, 0.75, 1.25, 1.75, 2, 4]
        assert len(bar.tasks) == 1

    def test_says_what_is_at_work(self) -> None:
        bar = self.bar()
        watch = follow(bar)
        watch(self.event("working", 0, "main.sales.[x]", 0.5))
        assert bar.tasks[0].description == "compaction compact main.sales.[x] rewrite group 1 50%"
        watch(self.event("verifying", 1, "main.sales.[x]"))
        assert bar.tasks[0].description == "compaction compact main.sales.[x] verifying"
