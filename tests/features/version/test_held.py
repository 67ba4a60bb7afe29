"""`version held`: exact against a walk through metadata and folder, whatever refs there are.

Covers `engine/files/holding.py` and `features/version/holders.py`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table.statistics import StatisticsFile
from pyiceberg.table.update import SetStatisticsUpdate

from lakewarden.quantities import show_size
from tests.deletes_by_hand import column_of, commit_deletes, equality_deletes
from tests.reachability import on_disk, reachable
from tests.small_lake import SCHEMA, SmallLake

ORDERS = "sales.orders"


def held(lake: SmallLake) -> dict[tuple[str, ...], Any]:
    return {(row.kind, *row.names): row for row in lake.warden.version.held(ORDERS)}


def size(paths: set[Path]) -> int:
    return sum(path.stat().st_size for path in paths)


@pytest.fixture
def named(lake: SmallLake) -> SmallLake:
    """A tag whose file was rewritten since, two tags on one version, a branch with a commit, and older versions."""
    lake.create(ORDERS, appends=2)
    lake.warden.version.tag(ORDERS, "eoy").apply()
    table = lake.catalog.load_table(ORDERS)
    table.overwrite(pa.table({"id": list(range(5000)), "city": ["x" * 50] * 5000}, schema=SCHEMA))
    for tag in ("v1", "v1-copy"):
        lake.warden.version.tag(ORDERS, tag).apply()
    table = lake.catalog.load_table(ORDERS)
    table.overwrite(pa.table({"id": [1], "city": ["y"]}, schema=SCHEMA))
    lake.warden.version.branch(ORDERS, "dev").apply()
    lake.catalog.load_table(ORDERS).append(pa.table({"id": [9], "city": ["dev"]}, schema=SCHEMA), branch="dev")
    lake.append(ORDERS)
    return lake


def test_each_name_with_what_only_it_keeps_and_the_rest_as_shared(named: SmallLake) -> None:
    table, refs = named.catalog.load_table(ORDERS), named.refs()
    rows = held(named)
    assert set(rows) == {
        ("tag", "eoy"),
        ("tag", "v1", "v1-copy"),
        ("branch", "main"),
        ("branch", "dev"),
        ("retention",),
        ("shared",),
    }
    named_ids = {refs["eoy"], refs["v1"], refs["main"], refs["dev"]}
    holders = {
        ("tag", "eoy"): {refs["eoy"]},
        ("tag", "v1", "v1-copy"): {refs["v1"]},
        ("branch", "main"): {refs["main"]},
        ("branch", "dev"): {refs["dev"]},
        ("retention",): {s.snapshot_id for s in table.metadata.snapshots} - named_ids,
    }
    for holder, snapshots in holders.items():
        others = {snapshot for other, ids in holders.items() if other != holder for snapshot in ids}
        only = reachable(table, snapshots) - reachable(table, others)
        assert (rows[holder].bytes, rows[holder].files) == (size(only), len(only)), holder
        assert rows[holder].versions == len(snapshots)
    assert sum(row.bytes for row in rows.values()) == size(reachable(table))
    assert sum(row.files for row in rows.values()) == len(reachable(table))
    assert all(row.bytes == row.data + row.deletes + row.metadata + row.statistics for row in rows.values())


def test_the_largest_comes_first_with_what_gives_it_up(named: SmallLake) -> None:
    shown = json.loads(named.run("version", "held", ORDERS, "--json").stdout)
    sizes = [row["bytes"] for row in shown if row["kind"] != "shared"]
    assert sizes == sorted(sizes, reverse=True)
    assert shown[0]["names"] == ["v1", "v1-copy"] and shown[0]["next"] == ""  # dropping one of them frees nothing
    (eoy,) = [row for row in shown if row["names"] == ["eoy"]]
    assert eoy["next"] == "lakewarden version untag main.sales.orders eoy" and shown[-1]["kind"] == "shared"


def test_statistics_and_deletes_are_counted(lake: SmallLake) -> None:
    lake.create(ORDERS, appends=1)
    table = lake.catalog.load_table(ORDERS)
    puffin = on_disk(table.metadata.location) / "metadata" / "some.stats"
    puffin.write_bytes(b"x" * 1234)
    told = StatisticsFile.model_validate(
        {
            "snapshot-id": lake.head(),
            "statistics-path": f"file://{puffin}",
            "file-size-in-bytes": 1234,
            "file-footer-size-in-bytes": 1,
            "blob-metadata": [],
        }
    )
    table.catalog.commit_table(table, (), (SetStatisticsUpdate(snapshot_id=lake.head(), statistics=told),))
    deletes = equality_deletes(table, column_of("id", pa.int64(), 1, [0]), [1])
    commit_deletes(table, deletes)
    rows = held(lake)
    assert rows["retention",].statistics == 1234
    assert rows["branch", "main"].deletes == deletes.file_size_in_bytes > 0
    assert sum(row.bytes for row in rows.values()) == size(reachable(lake.catalog.load_table(ORDERS)))


def test_a_branch_keeps_its_own_commits(named: SmallLake) -> None:
    row = pa.table({"id": [10], "city": ["dev"]}, schema=SCHEMA)
    named.catalog.load_table(ORDERS).append(row, branch="dev")
    assert held(named)[("branch", "dev")].versions == 2


def test_without_versions(lake: SmallLake) -> None:
    lake.create(ORDERS, appends=0)
    assert lake.warden.version.held(ORDERS) == []


def test_retention_names_the_largest_of_what_stays(named: SmallLake) -> None:
    planned = named.warden.retention.expire(ORDERS, keep_last=1, keep_days=0)
    after = next(w for w in planned.plan.warnings if "alone keep" in w)
    planned.apply()
    left = held(named)[("tag", "v1", "v1-copy")].bytes
    all_shown = "lakewarden version held main.sales.orders shows all"
    assert after == f"main.sales.orders: v1 and v1-copy alone keep {show_size(left)} of the rest; {all_shown}"
