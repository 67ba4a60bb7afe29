"""A cleansing in a real REST catalog: the server writes the metadata, by rules of its own on times and names."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lakewarden.engine.commit.shortened_log import LIMIT, TO_RESTORE, ShortenedLog
from lakewarden.lifecycle.failpoints import when
from lakewarden.warden import Warden
from tests.engine.catalog.test_rest_catalog import RestLake
from tests.engine.cleansed import People, email
from tests.services.rest_catalog import RestCatalog

pytestmark = pytest.mark.spark  # the server is Java


@pytest.fixture
def people(tmp_path: Path, rest_catalog: RestCatalog) -> Iterator[People]:
    with RestLake(tmp_path / "lake", rest_catalog.uri, rest_catalog.warehouse) as lake:
        people = People(lake.warden, f"crm.p{time.time_ns()}").create()
        people.append(range(20))
        people.tag("v1", max_ref_age_ms=86_400_000_000)
        people.append(range(20, 40))
        people.append(range(40, 60))
        people.delete({people.files("v1").bare[0].path: [5, 7]})
        yield people


@pytest.fixture
def others(people: People, tmp_path: Path) -> People:
    return People(Warden.open(tmp_path / "lake"), people.name)


def meanwhile(people: People, *acts: Callable[[], object]) -> None:
    catalog, left = people.catalog, list(acts)
    commit = catalog.commit_table

    def late(*args: Any, **kwargs: Any) -> Any:
        if left:
            left.pop(0)()
        return commit(*args, **kwargs)

    catalog.commit_table = late


def without(rows: list[Any], who: int) -> list[Any]:
    return [row for row in rows if row[1] != email(who)]


def test_every_ref_loses_the_rows_and_keeps_the_others(people: People) -> None:
    time.sleep(1)
    people.tag("later")  # the table's clock is ahead of all its versions now
    before = {name: people.table.snapshot_by_id(at) for name, at in people.refs.items()}
    ref = people.table.metadata.refs["v1"]
    people.forget(3)
    metadata = people.table.metadata
    assert len(metadata.snapshots) == 2
    assert metadata.refs["v1"].model_copy(update={"snapshot_id": ref.snapshot_id}) == ref
    for name, old in before.items():
        new = people.table.snapshot_by_id(people.refs[name])
        assert (new.timestamp_ms, new.schema_id) == (old.timestamp_ms, old.schema_id)
    people.append(range(60, 70))
    people.forget(4)


def test_an_old_table_can_be_cleansed(people: People) -> None:
    """The server checks that its clock does not go back by more than a minute."""
    table = people.table
    import json

    from tests.engine.cleansed import local

    told, earlier = json.loads(local(table.metadata_location).read_text()), 9 * 86_400_000
    for dated in (*told["snapshots"], *told["snapshot-log"]):
        dated["timestamp-ms"] -= earlier
    told |= {"metadata-log": []}
    aged = local(table.metadata_location).with_name("00099-11111111-2222-4333-8444-555555555555.metadata.json")
    aged.write_text(json.dumps(told))
    people.catalog.drop_table(people.name)
    people.catalog.register_table(people.name, f"file://{aged}")
    before = people.all_rows()
    people.cleanse(people.rewritten({email(3)}))
    assert people.all_rows() == {ref: without(rows, 3) for ref, rows in before.items()}
    people.look_at_metadata()


@pytest.mark.parametrize("on", ["a version that has names", "a version without a name"])
def test_a_tag_that_the_server_takes_along_comes_back_clean(people: People, others: People, on: str) -> None:
    """A server can be asked whether refs are where they were, but not whether there are others."""
    with_names = on == "a version that has names"
    at = people.refs["v1"] if with_names else people.table.metadata.snapshots[1].snapshot_id
    expected = without(people.rows(at), 3)
    change = people.rewritten({email(3)})
    if not with_names:
        assert not change.obsolete
    meanwhile(people, lambda: others.tag("theirs", at, max_ref_age_ms=99_000_000))
    done = people.cleanse(change)
    assert people.rows("theirs") == expected
    assert people.table.metadata.refs["theirs"].max_ref_age_ms == 99_000_000
    assert at not in {snapshot.snapshot_id for snapshot in people.table.metadata.snapshots}
    from lakewarden.engine.files.unreachable import still_unreachable

    people.remove(still_unreachable(people.table, done.superseded))
    people.look_at_metadata()
    assert people.orphans() == set()
    assert len(people.all_rows()) == 3


def test_a_tag_on_files_that_were_not_replaced_comes_back_as_it_was(people: People, others: People) -> None:
    import pyarrow as pa

    lonely = people.append(range(100, 110))
    people.table.overwrite(pa.table({"id": [1], "email": [email(9)]}))
    expected = people.rows(lonely)
    change = people.rewritten({email(3)})
    assert change.obsolete
    meanwhile(people, lambda: others.tag("theirs", lonely))
    before = people.all_rows()
    done = people.cleanse(change)
    from lakewarden.engine.files.unreachable import still_unreachable

    people.remove(still_unreachable(people.table, done.superseded))
    assert people.rows("theirs") == expected  # the next purge finds it
    assert {ref: people.rows(ref) for ref in before} == {ref: without(rows, 3) for ref, rows in before.items()}
    people.forget(3)


def test_a_lost_race_is_planned_anew(people: People, others: People) -> None:
    change = people.rewritten({email(3)})
    first = people.files("v1").bare[0].path
    meanwhile(people, lambda: others.append(range(100, 103), lambda id: 9), lambda: others.delete({first: [14]}))
    before = people.rows("main")
    people.remove(people.cleanse(change).superseded)
    added = [(id, email(9)) for id in range(100, 103)]
    assert people.rows("main") == sorted([row for row in without(before, 3) if row[0] != 14] + added)
    people.look_at_metadata()
    assert people.orphans() == set()


@pytest.mark.parametrize("limit", ["", "7"])
def test_the_metadata_log_references_nothing_that_goes(people: People, limit: str) -> None:
    """The server builds the log: its limit is lowered for one commit and restored by the next, after a kill too."""
    if limit:
        people.table.transaction().set_properties({LIMIT: limit}).commit_transaction()
    done = people.cleanse(people.rewritten({email(3)}))
    people.append(range(60, 70))
    clean = people.table.metadata_location
    change = ShortenedLog(f"main.{people.name}", str(people.table.metadata.table_uuid), done.superseded)
    when("metadata_log.lowered", _kill)
    with pytest.raises(KeyboardInterrupt):
        people.commits().publish(change)
    assert people.table.metadata.properties[LIMIT] == "2"
    assert people.commits().publish(change) == 0
    people.remove(done.superseded)
    people.look_at_metadata()
    metadata = people.table.metadata
    assert metadata.properties.get(LIMIT, "") == limit and TO_RESTORE not in metadata.properties
    assert clean in [entry.metadata_file for entry in metadata.metadata_log]
    location = people.table.metadata_location
    assert people.commits().publish(change) == 0 and people.table.metadata_location == location


def _kill() -> None:
    raise KeyboardInterrupt
