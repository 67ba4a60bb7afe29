"""A damaged file: named with the versions that need it, and with ways out that work.

Covers `engine/files/damage.py`.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from lakewarden.errors import BrokenTable
from lakewarden.features.shared.damage import explained
from tests.features.retention.test_expire import configure, snapshots
from tests.reachability import aged, on_disk, orphans
from tests.small_lake import SmallLake

ORDERS = "sales.orders"


@pytest.fixture
def three(lake: SmallLake) -> SmallLake:
    lake.create(ORDERS, appends=3)
    return lake


def manifests(lake: SmallLake, snapshot: int) -> list[Path]:
    """The manifest that a version added, and those it took over."""
    table = lake.catalog.load_table(ORDERS)
    found = table.snapshot_by_id(snapshot).manifests(table.io)
    return [on_disk(m.manifest_path) for m in sorted(found, key=lambda m: m.added_snapshot_id != snapshot)]


def command(text: str) -> list[str]:
    """The rollback that a message offers."""
    return re.search(r"lakewarden (version rollback \S+ --apply)", text)[1].split()  # type: ignore[index]


def test_a_damaged_manifest_of_the_current_version(three: SmallLake) -> None:
    _, second, third = snapshots(three)
    damaged = manifests(three, third)[0]
    damaged.write_bytes(b"nothing that anybody can read")

    (problem,) = three.warden.table.show(ORDERS).problems
    assert damaged.name in problem and f"version {third} needs it" in problem
    assert f"roll back to version {second}, which does not need it" in problem
    assert "tables: {sales.orders: {skip: true}}" in problem
    (row,) = three.warden.table.health()
    assert damaged.name in row.worst and f"version {third} needs it" in row.worst and f"@{second}" in row.next
    with pytest.raises(BrokenTable, match=f"{damaged.name}.*version {third} needs it") as refused:
        three.warden.policy.run(ORDERS)
    assert f"version rollback main.{ORDERS}@{second}" in refused.value.hint
    error = json.loads(three.run("policy", "run", "--apply", "--json", check=1).stdout)["error"]
    assert damaged.name in error["message"] and f"@{second}" in error["message"]

    three.run(*command(refused.value.hint))
    assert three.warden.table.show(ORDERS).problems == [] and three.ids(ORDERS) == [0, 1, 2, 3]
    three.run("policy", "run", "--apply")


def test_a_missing_manifest_and_a_missing_list(three: SmallLake) -> None:
    first, second, third = snapshots(three)
    manifests(three, second)[0].unlink()
    (problem,) = three.warden.table.show(ORDERS).problems
    assert "is missing; 2 versions need it" in problem and f"@{first} --apply" in problem
    table = three.catalog.load_table(ORDERS)
    on_disk(table.current_snapshot().manifest_list).unlink()
    (problem,) = three.warden.table.show(ORDERS).problems
    assert f"version {third} needs it" in problem and f"@{first} --apply" in problem


def test_where_no_version_can_do_without_it(three: SmallLake) -> None:
    manifests(three, snapshots(three)[0])[0].unlink()
    (problem,) = three.warden.table.show(ORDERS).problems
    assert "3 versions need it" in problem and "every version of main needs it" in problem


def test_a_missing_data_file(three: SmallLake) -> None:
    table, (_, second, third) = three.catalog.load_table(ORDERS), snapshots(three)
    added = {f.file.file_path for f in table.scan().plan_files()}
    (lost,) = added - {f.file.file_path for f in table.scan(snapshot_id=second).plan_files()}
    ground: Any = three.warden.ground
    told = explained(ground, ground.tables.name(ORDERS), BrokenTable("it is not there", file=lost))
    assert told.message == f"it is not there; version {third} needs it" and f"@{second} --apply" in told.hint


def test_metadata_that_is_gone(three: SmallLake) -> None:
    on_disk(three.catalog.load_table(ORDERS).metadata_location).unlink()
    (row,) = three.warden.table.health()
    assert "earlier metadata file" in row.next and "skip: true" in row.next
    configure(three, tables={ORDERS: {"skip": True}})
    three.run("policy", "run", "--apply")


def test_an_older_version_that_is_damaged_holds_up_retention_only_while_a_name_keeps_it(three: SmallLake) -> None:
    _, second, third = snapshots(three)
    three.warden.version.tag(f"{ORDERS}@{second}", "v2").apply()
    table = three.catalog.load_table(ORDERS)
    on_disk(table.snapshot_by_id(second).manifest_list).write_bytes(b"damaged")
    configure(three, defaults={"retention": {"keep_last": 1, "keep_days": 0}})
    assert three.warden.table.show(ORDERS).problems == []
    (refused,) = three.warden.policy.run().plan.refused
    assert f"version {second} needs it, the current one does not" in refused.message
    assert "remove the tags and branches of versions that need it" in refused.message

    three.warden.version.untag(ORDERS, "v2").apply()
    planned = three.warden.policy.run()
    assert "1 manifests or manifest lists of expiring versions are damaged" in planned.plan.warnings[0]
    planned.apply()
    assert snapshots(three) == [third] and three.ids(ORDERS) == [0, 1, 2, 3, 4, 5]
    assert orphans(three.catalog.load_table(ORDERS)) == set()  # the other versions had listed all that it did


def test_upkeep_of_main_goes_on_beside_a_damaged_older_version(lake: SmallLake) -> None:
    lake.create(ORDERS, appends=14)
    aged(lake, ORDERS, 200)
    lake.warden.version.tag(f"{ORDERS}@{snapshots(lake)[4]}", "v5").apply()
    table = lake.catalog.load_table(ORDERS)
    on_disk(table.snapshot_by_id(snapshots(lake)[4]).manifest_list).unlink()
    configure(lake, defaults={"retention": {"keep_last": 1, "keep_days": 0}})
    plan = lake.warden.policy.run().plan
    assert [action.verb for action in plan.actions] == ["merge-manifests", "compact"] and len(plan.refused) == 1
