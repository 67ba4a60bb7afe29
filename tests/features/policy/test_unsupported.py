"""Tables that Lakewarden does not touch: what changes files refuses them, and upkeep goes on with the others.

Covers `engine/base/support.py`.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import pytest

from lakewarden.errors import UnsupportedTable
from lakewarden.features.shared.planner import Round, TableUpkeep, planners
from tests.small_lake import SmallLake

Document = dict[str, Any]


def in_metadata(lake: SmallLake, change: Callable[[Document], None]) -> None:
    """Point the catalog to metadata that another engine may have written."""
    old = Path(lake.catalog.load_table("sales.orders").metadata_location.removeprefix("file://"))
    document = json.loads(old.read_text())
    change(document)
    new = old.with_name(f"9{old.name}")
    new.write_text(json.dumps(document))
    with sqlite3.connect(next(lake.folder.rglob("catalog.db"))) as catalog:
        catalog.execute(
            "UPDATE iceberg_tables SET metadata_location = ? WHERE table_name = 'orders'", (f"file://{new}",)
        )
    catalog.close()


def of_format_4(lake: SmallLake) -> str:
    in_metadata(lake, lambda document: document.update({"format-version": 4}))
    return "table main.sales.orders is in format v4"


def encrypted(lake: SmallLake) -> str:
    in_metadata(lake, lambda document: document["properties"].update({"encryption.key-id": "k1"}))
    return r"main.sales.orders is encrypted \(encryption.key-id\)"


def with_files_of(format: str) -> Callable[..., str]:
    def change(lake: SmallLake, at: int | None = None) -> str:
        table = lake.catalog.load_table("sales.orders")
        snapshot = table.current_snapshot() if at is None else table.snapshot_by_id(at)
        manifest = next(iter(snapshot.manifests(table.io))).manifest_path
        path = Path(manifest.removeprefix("file://"))
        with path.open("rb") as file:
            reader = fastavro.reader(file)
            schema, metadata, entries = reader.writer_schema, reader.metadata, list[Any](reader)
        for entry in entries:
            entry["data_file"]["file_format"] = format
        with path.open("wb") as file:
            kept = {key: value for key, value in metadata.items() if not key.startswith("avro.")}
            fastavro.writer(file, schema, entries, metadata=kept)
        lake.warden.close()
        lake.configure()
        return f"the manifest {manifest} lists data files in the format {format.lower()}"

    return change


REASONS = [
    pytest.param(of_format_4, id="v4"),
    pytest.param(encrypted, id="encrypted"),
    pytest.param(with_files_of("PUFFIN"), id="puffin"),
    pytest.param(with_files_of("VORTEX"), id="unknown"),
]


@pytest.mark.parametrize("make", REASONS)
def test_everything_that_changes_files_refuses(lake: SmallLake, make: Callable[[SmallLake], str]) -> None:
    lake.create(appends=12)
    request = lake.warden.erasure.request("sales.orders", key="city", value=["city 3"]).id
    (lake.folder / "stray.parquet").write_bytes(b"x")
    told = make(lake)
    warden = lake.warden
    asked: dict[str, Callable[[], object]] = {
        "expire": lambda: warden.retention.expire("sales.orders", keep_last=1, keep_days=0),
        "find": lambda: warden.orphan.find("sales.orders"),
        "quarantine": lambda: warden.orphan.quarantine("sales.orders", older_than="0s", even_recent=True),
        "compact": lambda: warden.compaction.compact("sales.orders"),
        "manifests": lambda: warden.compaction.manifests("sales.orders").apply(),
        "hide": lambda: warden.erasure.hide("sales.orders"),
        "purge": lambda: warden.erasure.purge("sales.orders", now=True),
        "prove": lambda: warden.erasure.prove(request),
        "policy run": lambda: warden.policy.run("sales.orders"),
        "health": lambda: warden.table.health("sales.orders"),
    }
    for what, plan in asked.items():
        with pytest.raises(UnsupportedTable) as refused:
            pytest.fail(f"{what} did not refuse: {plan()}")
        assert re.match(told, refused.value.message), what


@pytest.mark.parametrize("format", ["PUFFIN", "VORTEX"])
def test_rows_in_files_of_an_unknown_format_are_not_read(lake: SmallLake, format: str) -> None:
    lake.create()
    with_files_of(format)(lake)
    warden = lake.warden
    told = f"main.sales.orders lists data files in the format {format.lower()}"
    asked: dict[str, Callable[[], object]] = {
        "read": lambda: warden.version.read("sales.orders"),
        "first row": lambda: warden.version.read("sales.orders", limit=1),
        "where": lambda: warden.version.read("sales.orders", where="id > 1"),
        "arrow": lambda: warden.arrow("sales.orders").read_all(),
        "query": lambda: warden.query("SELECT * FROM sales.orders"),
    }
    for what, read in asked.items():
        with pytest.raises(UnsupportedTable, match=told):
            pytest.fail(f"{what} did not refuse: {read()}")


def test_rows_in_files_that_only_spark_reads_are_refused_with_the_way_to_read_them(lake: SmallLake) -> None:
    lake.create()
    with_files_of("AVRO")(lake)
    with pytest.raises(UnsupportedTable, match="lists data files in the format avro") as refused:
        lake.warden.version.read("sales.orders")
    assert "lakewarden query --engine spark" in refused.value.hint


@pytest.mark.parametrize("make", REASONS)
def test_upkeep_names_the_table_as_skipped_and_goes_on(lake: SmallLake, make: Callable[[SmallLake], str]) -> None:
    lake.create("sales.orders")
    lake.create("sales.others", appends=12)
    told = make(lake)
    lake.configure(defaults={"retention": {"keep_last": 1, "keep_days": 0}})
    planned = lake.warden.policy.run(only=["retention"])
    assert {action.subject for action in planned.plan.actions} == {"main.sales.others"}
    assert not planned.plan.refused
    [skipped] = [warning for warning in planned.plan.warnings if "skipped" in warning]
    assert skipped.startswith("main.sales.orders is skipped: ")
    rows = {row.table: row for row in lake.warden.table.health()}
    assert rows["main.sales.others"].files == 12
    assert (rows["main.sales.orders"].score, rows["main.sales.orders"].next) == (100, "")
    assert rows["main.sales.orders"].worst.startswith("skipped: ") and told.split(" is ")[-1].split("\\")[0] in (
        rows["main.sales.orders"].worst
    )
    assert planned.apply().state.value == "done"


@pytest.mark.parametrize("format", ["PUFFIN", "VORTEX"])
def test_upkeep_skips_a_table_of_which_only_an_old_version_has_such_files(lake: SmallLake, format: str) -> None:
    lake.create("sales.orders", appends=1)
    old = lake.head("sales.orders")
    table = lake.catalog.load_table("sales.orders")
    table.overwrite(table.scan().to_arrow())
    lake.create("sales.others", appends=12)
    told = with_files_of(format)(lake, old)
    lake.configure(defaults={"retention": {"keep_last": 1, "keep_days": 0}})
    assert len(lake.warden.version.read("sales.orders")) == 2
    planned = lake.warden.policy.run()
    assert {action.subject for action in planned.plan.actions} == {"main.sales.others"}
    assert not planned.plan.refused
    assert [w for w in planned.plan.warnings if "skipped" in w] == [f"main.sales.orders is skipped: {told}"]
    assert planned.apply().state.value == "done"
    with pytest.raises(UnsupportedTable, match=told):
        lake.warden.policy.run("sales.orders")
    expires = next(planner for planner in planners() if planner.name == "retention")
    ground = lake.warden.ground
    with pytest.raises(UnsupportedTable, match=told):  # no part of upkeep reports it as refused
        expires.plan(TableUpkeep(Round(ground, "policy.run", ["retention"]), ground.tables.name("sales.orders")))


def test_an_encrypted_table_is_shown_and_takes_no_commit(lake: SmallLake) -> None:
    lake.create()
    planned = lake.warden.version.tag("sales.orders", "v1")
    told = encrypted(lake)
    assert lake.warden.table.show("sales.orders").changed_by.startswith("nothing (main.sales.orders is encrypted")
    assert len(lake.warden.version.list("sales.orders")) == 3
    with pytest.raises(UnsupportedTable, match=told):
        lake.warden.version.tag("sales.orders", "v2")
    with pytest.raises(Exception, match=told):
        planned.apply()
