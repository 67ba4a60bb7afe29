"""Tables on terminals of any width: nothing is cut, and what matters least is left out first."""

from __future__ import annotations

import json

import pytest

from lakewarden.doors.cli.main import run
from lakewarden.doors.cli.render import Screen
from lakewarden.features.table.health import TableHealth
from lakewarden.quantities import from_millis
from tests.small_lake import SmallLake

WORST = "1,204 of 1,310 files too many"
NAMES = [f"main.sales.order_lines_{number}" for number in range(3)]
NEXT = "lakewarden compaction compact"
ROWS = [
    TableHealth(
        name,
        54,
        WORST,
        1310,
        1204,
        3,
        12345678,
        97,
        12,
        9 << 20,
        from_millis(0),
        f"lakewarden compaction compact {name}",
    )
    for name in NAMES
]


def shown(columns: int, capsys: pytest.CaptureFixture[str]) -> list[str]:
    screen = Screen(as_json=False)
    screen.out.width = columns
    screen._rows(ROWS)
    return capsys.readouterr().out.splitlines()


def test_no_line_is_longer_than_the_terminal_and_no_value_is_cut(capsys: pytest.CaptureFixture[str]) -> None:
    for columns in range(60, 241):
        lines = shown(columns, capsys)
        assert max(map(len, lines)) <= columns, columns
        words = " ".join(lines).split()
        assert all(name in words for name in NAMES), columns
        assert words.count("too") == words.count("compaction") == len(ROWS), columns


@pytest.mark.parametrize(
    ("columns", "heads"),
    [
        (80, ["table", "score", "worst", "next"]),
        (120, ["table", "score", "worst", "files", "last upkeep", "next"]),
        (240, ["table", "score", "worst", "files", "small files", "delete files", "deleted rows", "snapshots"]),
    ],
)
def test_the_least_important_columns_are_left_out_first(
    columns: int, heads: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    lines = shown(columns, capsys)
    head = " ".join(lines[0].split())
    assert head.startswith(" ".join(heads)), head
    assert ("Not shown at this width: " in "\n".join(lines)) is (columns < 240)


def test_how_many_there_are_is_said_and_programs_get_all(lake: SmallLake, capsys: pytest.CaptureFixture[str]) -> None:
    lake.catalog.create_namespace("s")
    for number in range(23):
        lake.create(f"s.t{number:02}", appends=0)
    config = ["--config", str(lake.folder)]
    assert run(["table", "health", *config]) == 0
    said = capsys.readouterr().out
    assert said.count("main.s.t") == 20 and said.splitlines()[-1] == "20 of 23; --worst 100 shows more"
    assert run(["table", "health", "--worst", "100", *config]) == 0
    assert capsys.readouterr().out.count("main.s.t") == 23
    assert run(["table", "health", "--json", *config]) == 0
    assert len(json.loads(capsys.readouterr().out)) == len(lake.warden.table.health()) == 23
    assert len(lake.warden.table.health(worst=3)) == 3
