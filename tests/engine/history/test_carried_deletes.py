"""Position deletes follow the rows they delete, wherever those rows are after others went."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from lakewarden.engine.commit.expired_versions import Expiry
from tests.engine.cleansed import People, email, local
from tests.engine.lakes import Lake, lake
from tests.entries import entry_of
from tests.examples import examples

__all__ = ["lake"]


@pytest.fixture
def people(lake: Lake) -> People:
    people = People(lake.warden).create()
    people.append(range(20))
    people.append(range(20, 40))
    people.append(range(40, 50), lambda id: 9)
    return people


def paths(people: People) -> list[str]:
    """Data files of main, in the order they were written."""
    return [file.path for file in sorted(people.files().bare, key=lambda file: file.sequence)]


def named(people: People, ref: str = "main") -> dict[str, list[int]]:
    """What all files of deletes of a version name."""
    found: dict[str, list[int]] = {}
    for delete in people.files(ref).deletes:
        table = pq.ParquetFile(local(delete.path)).read()
        rows = list(zip(table["file_path"].to_pylist(), table["pos"].to_pylist(), strict=True))
        assert rows == sorted(rows, key=lambda row: (row[0].encode(), row[1]))
        assert table.column_names == ["file_path", "pos"] and len(rows) == delete.rows
        for path, at in rows:
            found.setdefault(path, []).append(at)
    return found


def test_positions_move_up_as_rows_before_them_go(people: People) -> None:
    first = paths(people)[0]
    people.delete({first: [0, 3, 4, 13, 19]})  # of the persons 0, 3, 4, 3 and 9
    people.tag("masked")
    done = people.forget(3)
    assert done.delete_files_rewritten == 1
    assert named(people) == {paths(people)[0]: [0, 3, 17]}
    assert people.rows("masked") == people.rows("main")


def test_one_file_for_clean_and_dirty_data(people: People) -> None:
    one, two, clean = paths(people)
    people.delete({one: [1, 2, 12], two: [2, 5], clean: [0, 7]})
    people.forget(2)
    new_one, new_two, same = paths(people)
    assert same == clean
    assert named(people) == {new_one: [1], new_two: [4], clean: [0, 7]}


def test_a_file_that_names_nothing_any_more_goes(people: People) -> None:
    one, _, clean = paths(people)
    gone = people.delete({one: [2, 12]})
    stays = people.delete({clean: [1]})
    done = people.forget(2)
    assert [delete.path for delete in people.files().deletes] == [stays]
    assert gone in done.superseded and stays not in done.superseded


def test_a_data_file_all_of_whose_rows_go_takes_its_deletes_along(people: People) -> None:
    one, _, all_of_one = paths(people)
    people.delete({one: [5], all_of_one: [1, 2, 3]})
    people.forget(9)
    assert named(people) == {paths(people)[0]: [5]}


def test_deletes_of_clean_data_only_are_left_alone(people: People) -> None:
    clean = people.delete({paths(people)[2]: [1]})
    done = people.forget(2)
    assert done.delete_files_rewritten == 0
    assert [delete.path for delete in people.files().deletes] == [clean]


@pytest.mark.parametrize(("for_one", "told"), [(True, False), (True, True), (None, False)])
def test_a_file_is_for_one_data_file_only_where_it_was(people: People, for_one: bool | None, told: bool) -> None:
    people.delete({paths(people)[0]: [5]}, for_one=for_one, told=told)
    people.forget(2)
    (delete,) = people.files().deletes
    new = paths(people)[0]
    assert delete.only_for == (new if for_one else None)
    entry = entry_of(delete)
    fields = entry.data_file._data
    assert fields[17] == (new if told else None)
    assert delete.sequence == 4 and entry.file_sequence_number == 4
    assert named(people) == {new: [4]}


def test_copies_of_deleted_rows_are_left_out(people: People) -> None:
    """Iceberg allows them, and there a value would stay."""
    kind = pa.struct([("id", pa.int64()), ("email", pa.string())])
    copies = pa.array([{"id": 2, "email": email(2)}, {"id": 3, "email": email(3)}], kind)
    people.delete({paths(people)[0]: [2, 3]}, extra={"row": copies})
    people.forget(2)
    assert named(people) == {paths(people)[0]: [2]}


def test_what_hides_rows_of_a_request_still_does(people: People) -> None:
    """Its name and footer tell whom it serves; another request's purge must not take that away."""
    from lakewarden.engine.commit.delete_files import Mask
    from lakewarden.engine.files.written_files import AddedFile
    from lakewarden.engine.rows.position_deletes import file_name, is_hide, served_requests, write
    from tests.engine.lakes import STAMP

    request = "er-20261115-101112-ab12cd"
    one = people.files().by_path[paths(people)[0]]
    table = people.table
    path = f"{table.metadata.location}/data/{file_name(STAMP, 'abcd', 0)}"
    added = write(table.io, path, {one.path: [4, 14]}, one, [request])
    uuid = str(table.metadata.table_uuid)
    people.commits().publish(
        Mask("main.crm.people", uuid, (AddedFile(added.file, added.spec_id, added.sequence),), {one.path: frozenset()})
    )
    people.forget(2)
    (delete,) = people.files().deletes
    assert delete.path != path and is_hide(delete.path)
    assert served_requests(delete.path, people.files().opened) == {request}
    assert delete.only_for == paths(people)[0]
    assert named(people) == {paths(people)[0]: [3, 12]}


def test_deletes_that_a_compaction_left_in_an_emptied_partition_go(lake: Lake) -> None:
    """They name a file that is gone, in a partition whose value is the person's: nothing else would take them away."""
    people = People(lake.warden).create()
    with people.table.update_spec() as change:
        change.add_identity("email")
    people.append(range(20))
    data = {file.record[0]: file for file in people.files().bare}
    first, other = data[email(3)], data[email(4)]
    dangling = people.delete({first.path: [1]}, for_one=True, told=True)
    beside = people.delete({other.path: [1]})
    people.tag("kept")
    people.table.overwrite(  # as a compaction does: another file with the rows, and the deletes still there
        pa.table({"id": [3], "email": [email(3)]}), "email == 'person3@example.org'"
    )
    everything = tuple(s.snapshot_id for s in people.table.metadata.snapshots if s.snapshot_id != people.refs["main"])
    with people.table.manage_snapshots() as manage:
        manage.remove_tag("kept")
    uuid = str(people.table.metadata.table_uuid)
    people.commits().publish(Expiry("main.crm.people", uuid, everything))
    local(first.path).unlink()
    assert {delete.path for delete in people.files().deletes} == {dangling, beside}
    before = people.rows("main")
    done = people.cleanse(people.rewritten({email(3)}))
    assert people.rows("main") == [row for row in before if row[1] != email(3)]
    assert [delete.path for delete in people.files().deletes] == [beside]
    assert dangling in done.superseded


@pytest.mark.parametrize("told", [True, False])
def test_deletes_for_one_data_file_hold_whichever_partition_they_stand_in(lake: Lake, told: bool) -> None:
    """Readers look such deletes up by the data file they are for, not by its partition."""
    from pyiceberg.typedef import Record

    people = People(lake.warden).create()
    with people.table.update_spec() as change:
        change.add_identity("email")
    people.append(range(20))
    data = {file.record[0]: file.path for file in people.files().bare}
    stays = people.delete({data[email(4)]: [1]}, for_one=True, told=told, partition=Record("nowhere"))
    goes = people.delete({data[email(3)]: [1]}, for_one=True, told=told, partition=Record("nowhere"))
    assert len(people.rows("main")) == 18
    done = people.forget(3)
    assert [delete.path for delete in people.files().deletes] == [stays]
    assert goes in done.superseded


def test_versions_that_share_deletes_share_the_new_ones(people: People) -> None:
    people.delete({paths(people)[0]: [5]})
    for number in range(4):
        people.tag(f"v{number}")
        people.append(range(100 + number, 101 + number), lambda id: 9)
    done = people.forget(2)
    assert done.delete_files_rewritten == 1
    assert len({delete.path for ref in people.refs for delete in people.files(ref).deletes}) == 1


ROWS = 30


@examples(24, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_whatever_is_deleted_and_forgotten(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Against reading each row: files with any deletes, in several files, in several versions."""
    people = People(Lake(tmp_path_factory.mktemp("any")).warden).create()
    who = data.draw(st.lists(st.integers(0, 3), min_size=ROWS, max_size=ROWS))
    for start in range(0, ROWS, 10):
        people.append(range(start, start + 10), lambda id: who[id])
    for number in range(data.draw(st.integers(1, 3))):
        files = data.draw(st.lists(st.sampled_from(paths(people)), min_size=1, max_size=3, unique=True))
        positions: dict[str, Any] = {path: data.draw(st.sets(st.integers(0, 9), min_size=1)) for path in files}
        people.delete(positions, for_one=True if len(files) == 1 and data.draw(st.booleans()) else None)
        if data.draw(st.booleans()):
            people.tag(f"v{number}")
    forgotten = data.draw(st.sets(st.integers(0, 3), min_size=1, max_size=3))
    if forgotten & set(who):
        people.forget(*forgotten)
