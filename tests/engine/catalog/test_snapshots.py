"""Which snapshots were built on which."""

from __future__ import annotations

from lakewarden.engine.catalog.snapshot_removal import LINEAGE
from lakewarden.engine.catalog.snapshots import ancestors, lines_of, named, notes_of
from tests.small_lake import SmallLake


def test_lines_of_several_heads_are_those_of_each(lake: SmallLake) -> None:
    lake.create()
    first, second, third = (snapshot.snapshot_id for snapshot in lake.catalog.load_table("sales.orders").snapshots())
    lake.warden.version.branch(f"sales.orders@{first}", "dev").apply()
    table = lake.catalog.load_table("sales.orders")
    assert lines_of(table, []) == lines_of(table, [404]) == set()
    assert lines_of(table, [second]) == set(ancestors(table, second)) == {first, second}
    assert lines_of(table, [second, first, third, second]) == named(table) == {first, second, third}
    with table.manage_snapshots() as manage:
        manage.rollback_to_snapshot(second)
    assert named(table) == {first, second}


def test_over_what_has_expired(lake: SmallLake) -> None:
    lake.create()
    table = lake.catalog.load_table("sales.orders")
    first, second, third = (snapshot.snapshot_id for snapshot in table.snapshots())
    table.maintenance.expire_snapshots().by_id(second).commit()
    assert lines_of(table, [third]) == {third}
    with table.transaction() as change:
        change.set_properties({LINEAGE: f'{{"{third}": {first}}}'})
    assert lines_of(table, [third]) == set(ancestors(table, third)) == {first, third}


def test_a_snapshot_that_tells_nothing(lake: SmallLake) -> None:
    lake.create(appends=1)
    snapshot = lake.catalog.load_table("sales.orders").current_snapshot()
    assert notes_of(snapshot)["total-records"] == "2"
    assert notes_of(snapshot.model_copy(update={"summary": None})) == notes_of(None) == {}
