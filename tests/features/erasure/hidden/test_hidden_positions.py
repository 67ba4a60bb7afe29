"""Hidden rows whose hide file another engine merged with deletes of its own: they are told apart, and come back."""

from __future__ import annotations

import secrets
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.engine.commit.delete_files import Mask
from lakewarden.engine.files.live_files import Files
from lakewarden.engine.files.manifests import Manifests
from lakewarden.engine.rows.position_deletes import named_positions, write
from lakewarden.errors import LakewardenError
from lakewarden.features.erasure.hidden.hidden_positions import _positions, entry
from lakewarden.lifecycle.basics import Stamp
from lakewarden.lifecycle.failpoints import when
from tests.engine.direct_commits import DirectCommits
from tests.features.erasure.people import with_people
from tests.features.erasure.seen import seen
from tests.reachability import days_later
from tests.small_lake import SmallLake

TABLE = "crm.people"


@given(st.sets(st.integers(0, 2**40)))
def test_positions_are_kept_as_they_are(positions: set[int]) -> None:
    assert set(_positions(entry("a", positions)["at"])) == positions


def ask(lake: SmallLake, key: str, value: str) -> str:
    return str(lake.warden.erasure.request(TABLE, key=key, value=[value]).id)


def hide(lake: SmallLake, *requests: str) -> None:
    lake.warden.erasure.hide(TABLE, request=list(requests)).apply()


def withdraw(lake: SmallLake, request: str) -> Any:
    planned = lake.warden.erasure.withdraw(request)
    planned.apply()
    return planned.plan


def delete_as_spark_does(lake: SmallLake, position: int) -> None:
    """Delete a row of each data file that has deletes, in one new file with all that the old ones name."""
    table = lake.catalog.load_table(TABLE)
    files, storage = Files(Manifests()).of(table, table.current_snapshot()), lake.warden.ground.storage("main")
    added, inputs, replaced = [], {}, set[str]()
    for file in (file for file in files.data if file.deletes):
        rows = {position}
        for delete in file.deletes:
            rows |= named_positions(storage, delete, [file.path]).get(file.path, set())
            replaced.add(delete.path)
        path = f"{table.metadata.location}/data/00000-{secrets.token_hex(8)}-00001-deletes.parquet"
        added.append(write(table.io, path, {file.path: rows}, file))
        inputs[file.path] = file.deletes_identity
    assert replaced
    uuid = str(table.metadata.table_uuid)
    commits = DirectCommits(lake.warden.ground.tables, lambda: None, Stamp("spark", "delete", "x"), Manifests())
    commits.publish(Mask(f"main.{TABLE}", uuid, tuple(added), inputs, replaced=frozenset(replaced)))


@pytest.fixture
def merged(lake: SmallLake) -> tuple[SmallLake, str]:
    """Row 1 is hidden, and row 2 of the same file was deleted by another engine afterwards."""
    with_people(lake)
    request = ask(lake, "id", "1")
    hide(lake)
    delete_as_spark_does(lake, 2)
    assert seen(lake) == [0, 3, 4, 5]
    return lake, request


def test_only_the_hidden_row_comes_back(merged: tuple[SmallLake, str]) -> None:
    lake, request = merged
    assert withdraw(lake, request).warnings == ()
    assert seen(lake) == [0, 1, 3, 4, 5]


def test_compaction_leaves_such_a_file_alone(merged: tuple[SmallLake, str]) -> None:
    lake, request = merged
    (action,) = lake.warden.compaction.compact(TABLE, rewrite_all=True).plan.actions
    assert action.files.count == 1  # of two
    withdraw(lake, request)
    assert lake.warden.compaction.compact(TABLE, rewrite_all=True).plan.actions[0].files.count == 2


def test_the_version_that_hid_it_may_expire(merged: tuple[SmallLake, str]) -> None:
    lake, request = merged
    days_later(lake, 400)
    lake.warden.retention.expire(TABLE, keep_last=1, keep_days=0).apply()
    assert len(lake.catalog.load_table(TABLE).metadata.snapshots) == 1
    assert withdraw(lake, request).warnings == ()
    assert seen(lake) == [0, 1, 3, 4, 5]


def test_though_a_kill_kept_it_from_being_written_down(lake: SmallLake) -> None:
    with_people(lake)
    request = ask(lake, "id", "1")

    def stop() -> None:
        raise KeyboardInterrupt

    when("commit.landed", stop)
    with pytest.raises((KeyboardInterrupt, LakewardenError)):
        hide(lake)
    (stopped,) = lake.warden.operation.list(kind="erasure.hide")
    lake.warden.operation.resume(stopped.id)
    delete_as_spark_does(lake, 2)
    days_later(lake, 400)
    lake.warden.retention.expire(TABLE, keep_last=1, keep_days=0).apply()
    assert len(lake.catalog.load_table(TABLE).metadata.snapshots) == 1
    assert seen(lake) == [0, 3, 4, 5]
    withdraw(lake, request)
    assert seen(lake) == [0, 1, 3, 4, 5]


def test_a_purge_for_somebody_else_moves_it(merged: tuple[SmallLake, str]) -> None:
    lake, request = merged
    other = ask(lake, "id", "0")
    lake.warden.erasure.purge(TABLE, request=[other]).apply()
    assert seen(lake) == [3, 4, 5]
    withdraw(lake, request)
    assert seen(lake) == [1, 3, 4, 5]


def test_a_row_of_two_requests_comes_back_with_the_last(merged: tuple[SmallLake, str]) -> None:
    lake, first = merged
    second, third = ask(lake, "email", "p1@example.org"), ask(lake, "born", "2000-01-02")
    assert lake.warden.erasure.hide(TABLE).is_empty
    for request, expected in ((first, [0, 3, 4, 5]), (second, [0, 3, 4, 5]), (third, [0, 1, 3, 4, 5])):
        withdraw(lake, request)
        assert seen(lake) == expected


def test_a_row_that_was_deleted_before_stays_deleted(lake: SmallLake) -> None:
    """It was never hidden: the request is withdrawn, and the deletion by another engine is not."""
    with_people(lake)
    hidden, deleted = ask(lake, "id", "1"), ""
    hide(lake)
    delete_as_spark_does(lake, 2)
    deleted = ask(lake, "id", "2")
    hide(lake)
    withdraw(lake, deleted)
    withdraw(lake, hidden)
    assert seen(lake) == [0, 1, 3, 4, 5]


def test_paths_and_values_are_not_in_what_is_remembered(merged: tuple[SmallLake, str]) -> None:
    lake, request = merged
    told = str([each.document for each in lake.warden.ground.state.erasure.evidence([], request=request)])
    (file, *_) = [task.file.file_path for task in lake.catalog.load_table(TABLE).scan().plan_files()]
    assert "'at'" in told and file.rpartition("/")[2] not in told
