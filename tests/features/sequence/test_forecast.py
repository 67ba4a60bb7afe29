"""`sequence forecast`, in a terminal and as SVG. Covers `features/sequence/chart.py`."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from lakewarden.doors.cli.main import run
from lakewarden.features.sequence.chart import HEIGHT, WIDTH, Chart, Mark, Point
from tests.doors.rest.client import Client
from tests.features.sequence.history import NOW, RATE, bounds, create
from tests.services.mariadb import Shop


def test_the_prediction_of_each_empty_partition(shop: Shop, install: Any) -> None:
    create(shop, empty=2)
    warden = install()
    warden.ground.clock = lambda: NOW
    (table,) = warden.sequence.forecast().tables
    assert table.ids_per_day == pytest.approx(RATE, rel=0.01) and table.low < RATE < table.high
    assert [start.position for start in table.starts] == [bounds()[-1], bounds()[-1] + int(RATE * 30)]
    assert [(start.at - NOW).days for start in table.starts] == pytest.approx([15, 45], abs=1)
    assert all(start.earliest < start.at < start.latest for start in table.starts)


def test_it_is_drawn(shop: Shop, install: Any, tmp_path: Path, capsys: Any) -> None:
    create(shop, empty=2)
    shop.run("CREATE TABLE plain (id INT)")
    warden = install(tables={"orders": {}, "plain": {}})
    command = ["--config", str(tmp_path), "sequence", "forecast"]
    assert run([*command, "--table", "orders", "--out", str(tmp_path / "f.svg")]) == 0
    said = capsys.readouterr().out
    assert "ids a day (" in said and "@" in said and "Rows are predicted to reach:" in said
    root = ElementTree.fromstring((tmp_path / "f.svg").read_text())
    assert root.tag.endswith("svg") and len(root.findall(".//{*}polygon")) == 1
    assert run([*command, "--json"]) == 3
    document = json.loads(capsys.readouterr().out)
    assert "is not partitioned" in document["tables"][1]["problem"]
    drawn = Client(warden).get("sequence", "forecast")
    assert drawn.headers["content-type"] == "image/svg+xml"
    assert run([*command, "--out", "x.png"]) == 2


def test_lines_of_a_chart() -> None:
    observed = [Point(NOW - timedelta(days=days), 1000 - 10 * days) for days in (30, 20, 10)]
    chart = Chart("t", observed, Point(NOW, 1000), 8, 10, 12, [Mark("p<1", 1300, NOW + timedelta(days=30))])
    title, *lines, axis = chart.text().splitlines()
    assert title == "t" and len(lines) == HEIGHT and all(len(line) <= WIDTH + 10 for line in lines)
    assert sum(line.count("*") for line in lines) == 3 and sum(line.count("@") for line in lines) == 1
    assert axis.split() == ["2026-10-17", "2026-12-16"]
    assert "p&lt;1" in chart.svg() and 'points="' in chart.svg()


def test_a_table_that_stands_still_can_be_drawn() -> None:
    assert "@" in Chart("t", [], Point(NOW, 0), 0, 0, 0, []).text()
