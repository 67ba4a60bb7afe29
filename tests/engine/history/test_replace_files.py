"""Replacing files in every version at once: all other rows stay in every ref, and nothing else changes.

Covers `engine/history/manifest_index.py`.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.transforms import IdentityTransform

from lakewarden.engine.catalog.snapshot_removal import LINEAGE, note_property
from lakewarden.engine.catalog.snapshots import ancestors
from lakewarden.engine.files import manifests
from lakewarden.engine.history import clean_versions
from lakewarden.engine.history.replace_files import ReplaceFiles
from lakewarden.errors import StalePlan
from tests.deletes_by_hand import column_of, commit_deletes, equality_deletes
from tests.engine.cleansed import People, email, local
from tests.engine.lakes import Lake, lake
from tests.entries import listed

__all__ = ["lake"]


@pytest.fixture
def people(lake: Lake) -> People:
    return People(lake.warden).create()


@pytest.mark.parametrize("format", [1, 2])
def test_every_ref_loses_the_rows_and_keeps_the_others(lake: Lake, format: int) -> None:
    people = People(lake.warden).create(format)
    people.append(range(10))
    people.tag("first")
    people.append(range(10, 20))
    people.branch("dev")
    people.append(range(20, 30), branch="dev")
    people.append(range(30, 40))
    before, all_before = people.refs, {s.snapshot_id for s in people.table.metadata.snapshots}
    done = people.forget(3, 7)
    assert {name: moved[0] for name, moved in done.refs.items()} == before
    assert {name: moved[1] for name, moved in done.refs.items()} == people.refs
    assert set(done.snapshots) == all_before
    assert len(people.table.metadata.snapshots) == 3


def test_files_without_a_match_are_shared_as_they_were(people: People) -> None:
    people.append(range(10), lambda id: 1)
    clean = people.append(range(10, 20), lambda id: 2)
    people.append(range(20, 30), lambda id: 1)
    before = {file.path for file in people.files(clean).data}
    people.tag("clean-and-dirty", clean)
    people.forget(1)
    after = {file.path for file in people.files("main").data}
    assert len(before & after) == 1 and len(after) == 1
    assert people.rows("clean-and-dirty") == people.rows("main")


def test_clean_versions_stay_as_they_are(people: People) -> None:
    clean = people.append(range(10), lambda id: 1)
    people.tag("clean", clean)
    people.append(range(10, 20), lambda id: 2)
    before = people.table.snapshot_by_id(clean)
    done = people.forget(2)
    assert people.refs["clean"] == clean
    assert done.refs.keys() == {"main"}
    assert people.table.snapshot_by_id(clean) == before


def test_nothing_to_replace_writes_nothing(people: People) -> None:
    people.append(range(10))
    before = people.on_disk()
    change = people.rewritten({"nobody@example.org"})
    assert people.commits().publish(replace(change, about_to=lambda paths: pytest.fail("nothing goes"))) is None
    assert people.on_disk() == before


def test_a_second_time_finds_nothing(people: People) -> None:
    people.append(range(10))
    change = people.rewritten({email(1)})
    people.cleanse(change)
    assert people.commits().publish(replace(change, about_to=lambda paths: pytest.fail("nothing goes"))) is None
    assert len(people.rows("main")) == 9


def test_each_manifest_is_written_once_however_many_refs_share_it(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    for start in range(0, 60, 10):
        people.append(range(start, start + 10))
        people.tag(f"v{start}")
        people.tag(f"again{start}")
    written: list[str] = []
    honest = manifests.write_entries

    def counted(metadata: Any, io: Any, path: str, *args: Any, **kwargs: Any) -> Any:
        written.append(path)
        return honest(metadata, io, path, *args, **kwargs)

    monkeypatch.setattr(clean_versions, "write_entries", counted)
    done = people.forget(1)
    assert len(written) == done.manifests_rewritten == 6
    assert len(people.table.metadata.snapshots) == 6  # two tags at a version, and main at the last one
    assert len({moved[1] for moved in done.refs.values()}) == 6


def test_settings_and_notes_of_refs_are_kept(people: People) -> None:
    people.append(range(10))
    people.tag("kept", max_ref_age_ms=86_400_000_000)
    people.branch("dev", max_ref_age_ms=70_000, max_snapshot_age_ms=60_000, min_snapshots_to_keep=3)
    with people.table.transaction() as transaction:
        transaction.set_properties({note_property("kept"): "as audited", "owner": "crm"})
    before = people.table.metadata
    people.forget(4)
    after = people.table.metadata
    for name, ref in before.refs.items():
        moved = after.refs[name]
        assert moved.snapshot_id != ref.snapshot_id
        assert moved.model_copy(update={"snapshot_id": ref.snapshot_id}) == ref
    assert after.properties[note_property("kept")] == "as audited" and after.properties["owner"] == "crm"


def test_versions_keep_their_time_and_their_schema(people: People) -> None:
    people.append(range(10))
    people.tag("old")
    with people.table.update_schema() as change:
        change.rename_column("email", "mail")
        change.add_column("city", pa_string())
    people.append(range(10, 20))
    with people.table.update_schema() as change:
        change.delete_column("city")
    people.append(range(20, 30))
    before = {name: people.table.snapshot_by_id(at) for name, at in people.refs.items()}
    people.forget(5)
    table = people.table
    for name, old in before.items():
        new = table.snapshot_by_id(people.refs[name])
        assert (new.schema_id, new.timestamp_ms) == (old.schema_id, old.timestamp_ms)
    assert table.scan(snapshot_id=people.refs["old"]).to_arrow().column_names == ["id", "email"]
    assert table.scan().to_arrow().column_names == ["id", "mail"]
    assert table.schema().schema_id == table.metadata.current_schema_id == before["main"].schema_id


def pa_string() -> Any:
    from pyiceberg.types import StringType

    return StringType()


def test_time_travel_and_descent_mean_what_they_meant(people: People) -> None:
    """Main's log leads to the new versions at the old times, and what descends from what is remembered."""
    snapshots = [people.append(range(start, start + 10)) for start in range(0, 50, 10)]
    people.tag("second", snapshots[1])
    people.tag("fourth", snapshots[3])
    log = {entry.snapshot_id: entry.timestamp_ms for entry in people.table.metadata.snapshot_log}
    people.forget(2)
    table, refs = people.table, people.refs
    found = [(entry.snapshot_id, entry.timestamp_ms) for entry in table.metadata.snapshot_log]
    # the third is lost, and with it all that lies before: Iceberg has no gaps there
    assert found == [(refs["fourth"], log[snapshots[3]]), (refs["main"], log[snapshots[4]])]
    assert list(ancestors(table, refs["main"])) == [refs["main"], refs["fourth"], refs["second"]]
    assert json.loads(table.metadata.properties[LINEAGE]) == {
        str(refs["main"]): refs["fourth"],
        str(refs["fourth"]): refs["second"],
    }
    people.append(range(50, 60))
    people.forget(3)  # and again, on what was remembered
    refs = people.refs
    assert list(ancestors(people.table, refs["main"])) == [refs["main"], refs["fourth"], refs["second"]]


def test_a_clean_version_descends_from_the_new_one(people: People) -> None:
    first = people.append(range(10), lambda id: 1)
    people.tag("first", first)
    table = people.table
    table.overwrite(pa.table({"id": [1], "email": ["x@y"]}))  # all files of before go, and are told of
    people.append(range(5), lambda id: 9)
    clean = people.append(range(5, 10), lambda id: 9)
    people.forget(1)
    refs = people.refs
    assert refs["first"] != first and refs["main"] == clean
    assert list(ancestors(people.table, clean))[-1] == refs["first"]


@pytest.mark.parametrize("format", [1, 2])
def test_partitioned_by_the_key(lake: Lake, format: int) -> None:
    """Where values are in the names of folders, too."""
    people = People(lake.warden).create(format)
    with people.table.update_spec() as change:
        change.add_identity("email")
    people.append(range(20))
    people.tag("v1")
    people.append(range(20, 40))
    people.forget(3, 8)
    table = people.table
    for ref, rows in people.all_rows().items():
        for who in range(10):
            found = table.scan(row_filter=f"email == '{email(who)}'", snapshot_id=people.refs[ref]).to_arrow()
            assert sorted(found["id"].to_pylist()) == [id for id, mail in rows if mail == email(who)]
    assert email(3).encode() not in b"".join(path.read_bytes() for path in people.on_disk())
    assert not [path for path in people.on_disk() if "person3" in str(path)]


def test_spec_evolution(people: People) -> None:
    """Files stay under the spec they were written with."""
    people.append(range(20))
    people.tag("unpartitioned")
    with people.table.update_spec() as change:
        change.add_field("email", IdentityTransform(), "by_email")
    people.append(range(20, 40))
    with people.table.update_spec() as change:
        change.remove_field("by_email")
        change.add_identity("id")
    people.append(range(40, 45))
    before = sorted((file.partition[0], file.sequence) for file in people.files().data)
    people.forget(2)
    after = people.files().data
    assert {file.partition[0] for file in after} == {0, 1, 2}
    assert {(file.partition[0], file.sequence) for file in after} <= set(before)
    assert len(people.table.scan(row_filter="id == 41").to_arrow()) == 1


def test_sequence_numbers_are_those_of_before(people: People) -> None:
    people.append(range(10))
    people.append(range(10, 20))
    before = numbers(people)
    last = people.table.metadata.last_sequence_number
    people.forget(1)
    assert numbers(people) == before
    assert people.table.metadata.last_sequence_number == last + 1
    people.append(range(20, 30))
    assert len(people.rows("main")) == 28


def numbers(people: People) -> list[tuple[int, ...]]:
    return sorted((file.sequence, file.added_in, file.added_by or 0) for file in people.files().data)


def test_a_version_that_only_tells_of_what_went_is_dirty(people: People) -> None:
    """The head has no file of the person, but its manifests still say which went, bounds and all."""
    people.append(range(10), lambda id: 1)
    people.table.delete("email == 'person1@example.org'")
    head = people.refs["main"]
    people.append(range(10, 20), lambda id: 2, "main")
    people.tag("told", head)
    people.forget(1)
    assert {ref: len(rows) for ref, rows in people.all_rows().items()} == {"main": 10, "told": 0}
    raw = b"".join(path.read_bytes() for path in people.on_disk() if path.suffix == ".avro")
    assert b"person1" not in raw


def test_tainted_versions_go_and_what_they_tell_with_them(people: People) -> None:
    people.append(range(10), lambda id: 1)
    people.append(range(10, 20), lambda id: 2)
    people.table.delete("email == 'person1@example.org'")
    told = people.refs["main"]
    everything = [s.snapshot_id for s in people.table.metadata.snapshots]
    uuid = str(people.table.metadata.table_uuid)
    from lakewarden.engine.commit.expired_versions import Expiry

    people.commits().publish(Expiry("main.crm.people", uuid, tuple(everything[:-1])))
    change = ReplaceFiles("main.crm.people", uuid, {}, tainted=frozenset({told, 77}))
    done = people.cleanse(change)
    assert done.snapshots == (told,) and done.refs["main"][0] == told
    people.remove(path for path in done.superseded if local(path).exists())
    people.look_at_metadata()
    assert len(people.rows("main")) == 10
    for manifest in people.table.current_snapshot().manifests(people.table.io):
        assert manifest.deleted_files_count == 0


def test_files_that_nothing_leads_to_go_with_their_versions(people: People) -> None:
    people.append(range(10), lambda id: 1)
    people.table.overwrite(pa.table({"id": [1], "email": [email(2)]}))
    named, others = people.dirty_files({email(1)})
    assert not named and len(others) == 1
    done = people.forget(1)
    assert others <= set(done.superseded)
    assert people.rows("main") == [(1, email(2))]


def test_files_that_a_ref_leads_to_again_make_it_stale(people: People) -> None:
    first = people.append(range(10), lambda id: 1)
    people.table.overwrite(pa.table({"id": [1], "email": [email(2)]}))
    change = people.rewritten({email(1)})
    people.tag("again", first)
    before = people.on_disk()
    with pytest.raises(StalePlan, match="tag again of main.crm.people now references"):
        people.cleanse(change)
    assert people.on_disk() == before and len(people.rows("again")) == 10


def test_every_row_of_a_table_can_go(people: People) -> None:
    people.append(range(10), lambda id: 1)
    people.tag("v1")
    people.append(range(10, 20), lambda id: 1)
    people.forget(1)
    assert people.all_rows() == {"main": [], "v1": []}
    people.append(range(3))
    assert len(people.rows("main")) == 3


def test_statistics_of_versions_that_go_go_too(people: People) -> None:
    from pyiceberg.table.statistics import PartitionStatisticsFile, StatisticsFile
    from pyiceberg.table.update import SetPartitionStatisticsUpdate, SetStatisticsUpdate

    clean = people.append(range(10), lambda id: 1)
    people.tag("clean", clean)
    dirty = people.append(range(10), lambda id: 2)
    table = people.table
    updates: list[Any] = []
    for at in (clean, dirty):
        for kind in ("a", "b"):
            (local(table.metadata.location) / f"{kind}{at}.puffin").write_bytes(b"1234")
        told = {"snapshot-id": at, "file-size-in-bytes": 4}
        whole = {**told, "statistics-path": f"{table.metadata.location}/a{at}.puffin", "file-footer-size-in-bytes": 1}
        parts = {**told, "statistics-path": f"{table.metadata.location}/b{at}.puffin"}
        updates.append(SetStatisticsUpdate(statistics=StatisticsFile.model_validate({**whole, "blob-metadata": []})))
        updates.append(SetPartitionStatisticsUpdate(partition_statistics=PartitionStatisticsFile.model_validate(parts)))
    table.catalog.commit_table(table, (), tuple(updates))
    done = people.forget(2)
    metadata = people.table.metadata
    assert [s.snapshot_id for s in (*metadata.statistics, *metadata.partition_statistics)] == [clean, clean]
    assert {path for path in done.superseded if path.endswith(".puffin")} == {
        f"{metadata.location}/{kind}{dirty}.puffin" for kind in "ab"
    }


def test_the_same_commit_drops_all_entries_of_the_metadata_log(people: People) -> None:
    """They reference files that go, the replaced metadata file among them; the next commit begins a new log."""
    people.append(range(20))
    people.append(range(20, 40))
    before = people.table
    assert len(before.metadata.metadata_log) > 1
    done = people.cleanse(people.rewritten({email(3)}))
    after = people.table
    assert after.metadata.metadata_log == []
    assert after.metadata.last_updated_ms > before.metadata.last_updated_ms
    assert {*(entry.metadata_file for entry in before.metadata.metadata_log), before.metadata_location} <= set(
        done.superseded
    )
    people.append(range(90, 95))
    assert [entry.metadata_file for entry in people.table.metadata.metadata_log] == [after.metadata_location]


def test_superseded_metadata_is_told_before_it_lands(people: People) -> None:
    people.append(range(10))
    table = people.table
    known = {table.metadata_location, *(entry.metadata_file for entry in table.metadata.metadata_log)}
    told: list[str] = []

    def about_to(paths: Any) -> None:
        assert people.refs == before, "told before anything happened"
        told.extend(paths)

    before = people.refs
    done = people.cleanse(people.rewritten({email(1)}), about_to)
    assert tuple(told) == done.superseded
    assert known <= set(told)
    assert len(told) == len(set(told))
    assert people.table.metadata_location not in told


def test_a_table_that_was_of_format_1(lake: Lake) -> None:
    """Its old manifests know no sequence numbers."""
    people = People(lake.warden).create(format=1)
    people.append(range(20))
    people.tag("old")
    with people.table.transaction() as transaction:
        transaction.upgrade_table_version(2)
    people.append(range(20, 40))
    people.delete({people.files("old").bare[0].path: [5, 7]})
    people.forget(3)
    assert [file.sequence for file in sorted(people.files().bare, key=lambda file: file.sequence)] == [0, 1]
    people.append(range(40, 50))
    people.forget(4)


@pytest.mark.parametrize("is_left", [True, False])
def test_equality_deletes_that_are_replaced(people: People, is_left: bool) -> None:
    """They come as replacements like data files do, and stay under their number, columns and partition."""
    from lakewarden.engine.files.written_files import delete_file, read_footer
    from lakewarden.engine.history.replacement import Replacement

    people.append(range(10))
    table = people.table

    def rows(*values: str) -> pa.Table:
        return column_of("email", pa.string(), 2, values)

    bounds = {"lower_bounds": {2: email(3).encode()[:16]}}
    file = equality_deletes(table, rows(email(3), email(4)), [2], bounds=bounds, store_schema=False)
    old = file.file_path
    commit_deletes(table, file)
    people.tag("v1")
    (delete,) = people.files().deletes
    new = None
    if is_left:
        path = f"{table.metadata.location}/data/new.parquet"
        pq.write_table(rows(email(4)), local(path), store_schema=False)
        footer = read_footer(people.warden.ground.storage("main"), path)
        new = delete_file(people.table, footer, {}, delete)
    uuid = str(table.metadata.table_uuid)
    done = people.cleanse(ReplaceFiles("main.crm.people", uuid, {old: Replacement(old, new)}))
    assert done.refs.keys() == {"main", "v1"} and old in done.superseded
    found = [*people.files().deletes, *people.files("v1").deletes]
    if not is_left:
        assert found == []
        return
    one, other = found
    assert one.path == other.path == f"{table.metadata.location}/data/new.parquet"
    assert (one.sequence, one.is_equality, one.equality_ids) == (delete.sequence, True, (2,))
    assert listed(one).lower_bounds == {2: b"person4@example."}
