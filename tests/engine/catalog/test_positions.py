"""Which stamp main has, by metadata alone, in a table whose line others have made hard to read."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from lakewarden.engine.catalog import positions
from lakewarden.engine.catalog.positions import Kept, Stamped, position_updates, stamp_properties, standing
from lakewarden.engine.catalog.snapshot_removal import BACKFILL, without_revealing
from lakewarden.errors import Conflict
from lakewarden.features.backfill.position import whereabouts

KEY, ROWS = f"{BACKFILL}b", pa.table({"x": [1]})
Make = Callable[..., Table]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def table(version: str = "2") -> Table:
        catalog = SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}")
        catalog.create_namespace("a")
        made = catalog.create_table("a.t", ROWS.schema, properties={"format-version": version})
        made.append(ROWS)
        return made

    return table


def stamped(table: Table, batch: int = 1) -> Snapshot:
    """Append a batch, and set its stamp as a property."""
    table.append(ROWS, snapshot_properties={KEY: json.dumps({"batch": batch})})
    made = table.current_snapshot()
    assert made is not None
    first = (made.sequence_number, made.timestamp_ms)
    table.transaction().set_properties(
        {KEY: Kept(Stamped.of(made, f'{{"batch":{batch}}}'), (), first).text}
    ).commit_transaction()
    return made


def at(table: Table, snapshot: int | None, when: int, **changed: object) -> None:
    """Have a snapshot's writer have another clock."""
    assert snapshot is not None
    by_id = {one.snapshot_id: one for one in table.metadata.snapshots}
    by_id[snapshot] = by_id[snapshot].model_copy(update={"timestamp_ms": when, **changed})
    table.metadata = table.metadata.model_copy(update={"snapshots": list(by_id.values())})


@pytest.mark.parametrize("version", ["1", "2"])
@pytest.mark.parametrize("behind", [0, 20_000, 300_000])
def test_a_writer_whose_clock_is_behind_does_not_hide_a_stamp(make: Make, version: str, behind: int) -> None:
    table = make(version)
    batch = stamped(table)
    table.append(ROWS)
    at(table, table.metadata.current_snapshot_id, batch.timestamp_ms - behind)
    found = standing(table, KEY)
    assert found.is_known
    assert found.last is not None
    assert found.last.snapshot == batch.snapshot_id


@pytest.mark.parametrize(
    ("version", "behind", "is_known"), [("1", 20_000, False), ("1", 300_000, True), ("2", 20_000, True)]
)
def test_a_version_whose_parent_is_gone_is_before_all_stamps_only_by_more_than_clocks_differ(
    make: Make, version: str, behind: int, is_known: bool
) -> None:
    table = make(version)
    before = table.current_snapshot()
    assert before is not None
    batch = stamped(table)
    table.manage_snapshots().rollback_to_snapshot(before.snapshot_id).commit()
    table.metadata = table.metadata.model_copy(update={"metadata_log": []})
    at(table, before.snapshot_id, batch.timestamp_ms - behind, parent_snapshot_id=404)
    assert (standing(table, KEY).is_known, standing(table, KEY).last) == (is_known, None)


@pytest.mark.parametrize("has_older", [True, False])
def test_no_commit_is_taken_for_the_first_one_if_older_stamps_have_no_property(make: Make, has_older: bool) -> None:
    """Backfills may have begun before there were such properties: these stamps are in summaries only."""
    table = make()
    table.append(ROWS, snapshot_properties={KEY: '{"batch":1}'} if has_older else {})
    table.append(ROWS)
    between = table.current_snapshot()
    table.append(ROWS, snapshot_properties={KEY: '{"batch":2}'})
    new = table.current_snapshot()
    assert between is not None
    assert new is not None
    base = table.metadata.model_copy(update={"snapshots": [s for s in table.metadata.snapshots if s is not new]})
    now, table.metadata = table.metadata, base
    properties = stamp_properties(table, new, {KEY: '{"batch":2}'})
    snapshots = [s for s in now.snapshots if s in (between, new)]  # the one before them is expired
    changed = {"snapshots": snapshots, "properties": properties, "metadata_log": []}
    table.metadata = now.model_copy(update={**changed, "current_snapshot_id": between.snapshot_id})
    assert standing(table, KEY).is_known is not has_older


@pytest.mark.parametrize(
    "damaged", ["", "{", "null", "{}", '{"position":{},"snapshot":1,"sequence":1,"at":1,"anchors":7}']
)
def test_a_damaged_property_stops_only_its_own_backfill(make: Make, damaged: str) -> None:
    table = make()
    table.transaction().set_properties({KEY: damaged}).commit_transaction()
    new = table.current_snapshot()
    assert new is not None
    assert stamp_properties(table, new, {}) == {}
    assert position_updates(table, [new.snapshot_id]) == ()
    assert not standing(table, KEY).is_known
    with pytest.raises(Conflict, match=r"the property lakewarden.backfill.b of a.t cannot be read"):
        whereabouts(table, "b")


@pytest.mark.parametrize("damaged", ["", "null", '{"position":7}'])
def test_a_purge_says_that_it_cannot_read_a_damaged_property(damaged: str) -> None:
    with pytest.raises(Conflict, match="not known whether it has erased values"):
        without_revealing(damaged, lambda text: False)


def test_a_stamp_that_main_has_heals_its_damaged_property(make: Make) -> None:
    table = make()
    batch = stamped(table)
    table.transaction().set_properties({KEY: "{"}).commit_transaction()
    table.append(ROWS)
    new = table.current_snapshot()
    assert new is not None
    (healed,) = stamp_properties(table, new, {}).values()
    assert json.loads(healed)["snapshot"] == batch.snapshot_id


@pytest.mark.parametrize(
    "damage", [lambda path: path.write_text("{"), lambda path: path.unlink() or path.mkdir(), Path.unlink]
)
def test_an_older_metadata_file_that_cannot_be_read_is_as_if_it_were_gone(
    make: Make, damage: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make()
    before = table.current_snapshot()
    assert before is not None
    stamped(table)
    table.append(ROWS)
    table.manage_snapshots().rollback_to_snapshot(before.snapshot_id).commit()
    at(table, before.snapshot_id, before.timestamp_ms, sequence_number=9, parent_snapshot_id=404)
    for entry in table.metadata.metadata_log:
        damage(Path(entry.metadata_file.removeprefix("file://")))
    found, new = standing(table, KEY), table.metadata.snapshots[-1]
    assert (found.last, found.is_known, found.is_final) == (None, False, damage is Path.unlink)
    table.metadata = table.metadata.model_copy(update={"properties": stamp_properties(table, new, {})})
    at(table, new.snapshot_id, new.timestamp_ms, parent_snapshot_id=before.snapshot_id)
    table.metadata = table.metadata.model_copy(update={"current_snapshot_id": new.snapshot_id})
    looked: list[object] = []
    monkeypatch.setattr(positions, "_by_files", lambda *of: looked.append(of))
    standing(table, KEY)
    assert bool(looked) is not found.is_final  # what cannot be known any more is not looked for at each commit


def test_files_of_an_earlier_stamp_do_not_prove_that_main_has_no_later_one(make: Make) -> None:
    """Main was rolled back behind batch 3 and set forward again, and nothing shows any longer where that was."""
    table = make()
    first, second = stamped(table), stamped(table, 2)
    third = stamped(table, 3)
    table.append(ROWS)
    ahead = table.current_snapshot()
    assert ahead is not None
    table.manage_snapshots().create_tag(ahead.snapshot_id, "ahead").commit()
    table.manage_snapshots().rollback_to_snapshot(second.snapshot_id).commit()
    for _ in range(2):  # commits of Lakewarden on batch 2
        base = table.metadata
        table.append(ROWS)
        new, now = table.current_snapshot(), table.metadata
        assert new is not None
        table.metadata = base
        properties = stamp_properties(table, new, {})
        table.metadata = now
        table.transaction().set_properties(properties).commit_transaction()
    assert json.loads(table.metadata.properties[KEY])["snapshot"] == second.snapshot_id
    left = [one for one in table.metadata.snapshots if one.snapshot_id not in (first.snapshot_id, second.snapshot_id)]
    table.metadata = table.metadata.model_copy(update={"snapshots": left, "metadata_log": []})
    found = standing(table, KEY)
    assert found.last is not None
    assert (found.is_known, found.last.stamp) == (True, '{"batch":2}')
    left = [one for one in left if one.snapshot_id != third.snapshot_id]
    table.metadata = table.metadata.model_copy(update={"snapshots": left, "current_snapshot_id": ahead.snapshot_id})
    assert (standing(table, KEY).is_known, standing(table, KEY).last) == (False, None)
