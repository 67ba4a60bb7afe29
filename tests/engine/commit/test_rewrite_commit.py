"""A compaction beside other writers: whatever they commit meanwhile is kept, and nothing deleted comes back.

Each test lets a compaction rewrite its files, and before it commits somebody else changes the table.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from lakewarden.engine.commit import publish
from lakewarden.errors import CatalogUnavailable, CommitRefused, Interrupted, LeaseLost, StalePlan
from lakewarden.lifecycle.failpoints import when
from tests.cases import in_soak
from tests.features.compaction.compacted import Compactable
from tests.small_lake import SmallLake

pytestmark = pytest.mark.spark

SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.int32())])
MERGE_ON_READ = {"write.delete.mode": "merge-on-read", "write.update.mode": "merge-on-read"}
BY_PARTITION = {"write.delete.granularity": "partition"}


@pytest.fixture(scope="module")
def shared_lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallLake]:
    with SmallLake(tmp_path_factory.mktemp("races") / "lake") as lake:
        lake.catalog.create_namespace("db")
        yield lake


@pytest.fixture
def table(shared_lake: SmallLake, request: pytest.FixtureRequest) -> Compactable:
    return made(shared_lake, f"db.t{abs(hash(request.node.nodeid))}", **MERGE_ON_READ)


def made(lake: SmallLake, name: str, partitioned: str = "part", **properties: str) -> Compactable:
    """Two partitions of three files with ten rows each; ids 0 to 29 are in partition 0, 30 to 59 in 1."""
    table = lake.catalog.create_table(name, SCHEMA, properties={"format-version": "2", **properties})
    if partitioned:
        with table.update_spec() as spec:
            spec.add_identity(partitioned)
    for start in range(0, 60, 10):
        table.append(pa.table({"id": range(start, start + 10), "part": [start // 30] * 10}, schema=SCHEMA))
    return Compactable(lake, name)


def ids(table: Compactable) -> list[int]:
    return sorted(row.id for row in table.sql("SELECT id FROM {t}"))


POINTS = pytest.mark.parametrize("point", ["commit.ready", *in_soak("compaction.rewritten")])


@POINTS
def test_rows_that_are_appended_are_kept(table: Compactable, point: str) -> None:
    when(point, lambda: table.sql("INSERT INTO {t} VALUES (100, 0), (101, 1)"))
    result = table.compact()
    assert ids(table) == [*range(60), 100, 101]
    assert result["groups_sent_back"] == 0
    assert sorted(file.sequence for file in table.data) == [3, 6, 7, 7]  # rewritten rows are as old as their newest
    table.look_at_metadata()


@POINTS
def test_deleted_rows_never_come_back(table: Compactable, point: str) -> None:
    """The trap: rewritten, then deleted by Spark, then appended to; then committed."""

    def delete_and_append() -> None:
        table.sql("DELETE FROM {t} WHERE id IN (3, 4)")
        table.sql("INSERT INTO {t} VALUES (100, 0)")

    when(point, delete_and_append)
    result = table.compact()
    assert ids(table) == [i for i in range(60) if i not in (3, 4)] + [100]
    assert result["groups_sent_back"] == 1
    assert result["deleted_rows_dropped"] == 2
    assert not table.files.deletes
    table.look_at_metadata()
    assert len(table.data) == 3


def test_a_delete_in_another_partition_disturbs_nothing(table: Compactable) -> None:
    when("commit.ready", lambda: table.sql("DELETE FROM {t} WHERE id = 40"))
    result = table.compact(where="part = 0")
    assert result["groups_sent_back"] == 0
    assert ids(table) == [i for i in range(60) if i != 40]
    assert len(table.files.deletes) == 1
    table.look_at_metadata()


def test_what_a_copy_on_write_delete_replaced_is_left_to_it(shared_lake: SmallLake) -> None:
    table = made(shared_lake, "db.copied")
    when("commit.ready", lambda: table.sql("DELETE FROM {t} WHERE id IN (3, 39)"))
    result = table.compact()
    assert ids(table) == [i for i in range(60) if i not in (3, 39)]
    assert result["groups_sent_back"] == 2
    table.look_at_metadata()


def test_an_overwrite_of_everything_leaves_nothing_to_do(table: Compactable) -> None:
    when("commit.ready", lambda: table.sql("INSERT OVERWRITE {t} VALUES (7, 0), (8, 1)"))
    table.sql("SELECT 1")
    table.compact()
    assert ids(table) == [7, 8]
    assert table.unreached() == set()


def test_another_compaction_by_spark(table: Compactable) -> None:
    call = f"CALL main.system.rewrite_data_files(table => '{table.name}', options => map('rewrite-all', 'true'))"
    when("commit.ready", lambda: table.sql(call))
    table.compact()
    assert ids(table) == list(range(60))
    assert table.unreached() == set()


def test_a_tag_or_a_property_made_meanwhile_is_kept(table: Compactable) -> None:
    def change() -> None:
        table.sql("ALTER TABLE {t} CREATE TAG mine")
        table.sql("ALTER TABLE {t} SET TBLPROPERTIES ('a' = 'b')")

    passed = when("commit.fenced", change)
    table.compact()
    assert len(passed) == 2  # the first attempt lost, and what it wrote is gone
    assert "mine" in table.table.metadata.refs
    assert table.table.metadata.properties["a"] == "b"
    assert ids(table) == list(range(60))
    table.look_at_metadata()


def test_a_rollback_meanwhile_stands(table: Compactable) -> None:
    oldest = table.table.metadata.snapshots[0].snapshot_id
    call = f"CALL main.system.rollback_to_snapshot('{table.name}', {oldest}L)"
    when("commit.ready", lambda: table.sql(call))
    table.compact()
    assert ids(table) == list(range(10))
    assert table.unreached() == set()


@pytest.mark.parametrize("point", ["commit.fenced", *in_soak("compaction.rewritten", "commit.ready")])
def test_another_table_of_the_same_name_is_left_alone(table: Compactable, point: str) -> None:
    def recreate() -> None:
        table.sql("DROP TABLE {t}")
        table.sql("CREATE TABLE {t} (id BIGINT, part INT) USING iceberg")
        table.sql("INSERT INTO {t} VALUES (1, 1)")

    when(point, recreate)
    with pytest.raises(StalePlan, match="was recreated: its UUID was .* and is now"):
        table.compact()
    assert ids(table) == [1]
    assert not [path for path in table.folder.rglob("*lw-op*") if path.is_file()]


def test_a_writer_that_is_always_quicker_is_given_way_to(table: Compactable) -> None:
    """Deletes on the inputs each time: after some rounds it gives up, and says so."""
    gone = iter(range(60))
    when("commit.ready", lambda: table.sql(f"DELETE FROM {{t}} WHERE id = {next(gone)}"), times=99)
    with pytest.raises(StalePlan, match="other writers changed .* each time"):
        table.compact(where="part = 0")
    left = next(gone)
    assert ids(table) == list(range(left, 60))
    assert table.unreached() == set()


def test_a_lease_that_is_lost_right_before_the_commit(table: Compactable, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is published, and nothing of it is left."""
    head, lost, made_with = table.table.metadata_location, list[bool](), publish.Publisher.__init__

    def with_lease(self: Any, tables: Any, fence: Any, *others: Any, **more: Any) -> None:
        def fenced() -> None:
            fence()
            if lost:
                raise LeaseLost("the lease was taken over", "")

        made_with(self, tables, fenced, *others, **more)

    monkeypatch.setattr(publish.Publisher, "__init__", with_lease)
    when("commit.ready", lambda: lost.append(True))
    with pytest.raises(LeaseLost):
        table.compact()
    assert table.table.metadata_location == head
    assert table.unreached() == set()


def test_a_catalog_that_never_takes_it_has_nothing_left_of_it(
    table: Compactable, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyiceberg.exceptions import CommitFailedException

    def refusing(*_: Any, **__: Any) -> Any:
        raise CommitFailedException("another was quicker")

    monkeypatch.setattr(type(table.lake.catalog), "commit_table", refusing)
    monkeypatch.setattr(publish, "ATTEMPTS", 3)
    with pytest.raises(CommitRefused, match="3 commit attempts lost"):
        table.compact()
    monkeypatch.undo()
    assert ids(table) == list(range(60))
    assert table.unreached() == set()


def test_a_delete_file_that_still_masks_other_files_stays(shared_lake: SmallLake) -> None:
    """One file of deletes for a whole partition: compacting a part of it must not take it from the rest."""
    table = made(shared_lake, "db.partly", "", **MERGE_ON_READ, **BY_PARTITION)
    table.sql("DELETE FROM {t} WHERE id IN (5, 25, 55)")
    assert len(table.files.deletes) == 1
    expected = [i for i in range(60) if i not in (5, 25, 55)]

    table.compact(where="id < 10")

    assert len(table.files.deletes) == 1
    assert ids(table) == expected
    table.look_at_metadata()
    table.compact()
    assert not table.files.deletes
    assert ids(table) == expected
    table.look_at_metadata()


def lost_answers() -> list[Exception]:
    from pyiceberg.exceptions import CommitStateUnknownException
    from requests.exceptions import ReadTimeout
    from sqlalchemy.exc import OperationalError

    broken = OperationalError("COMMIT", {}, Exception("server closed the connection"), connection_invalidated=True)
    return [CommitStateUnknownException("504"), ReadTimeout("timed out"), broken]


@pytest.mark.parametrize("lost", lost_answers(), ids=lambda error: type(error).__name__)
def test_an_answer_that_was_lost_leaves_what_may_be_in_use(
    table: Compactable, monkeypatch: pytest.MonkeyPatch, lost: Exception
) -> None:
    """The connection breaks after the catalog has committed: the new files are the table's, and stay."""
    commit = type(table.lake.catalog).commit_table

    def breaking(self: Any, *given: Any, **more: Any) -> Any:
        commit(self, *given, **more)
        raise lost

    planned = table.plan()
    with monkeypatch.context() as patched:
        patched.setattr(type(table.lake.catalog), "commit_table", breaking)
        with pytest.raises(CatalogUnavailable, match="did not confirm whether the commit landed") as told:
            planned.apply()
    assert ids(table) == list(range(60))
    table.look_at_metadata()
    table.lake.warden.operation.resume(str(told.value.details["operation"]))
    assert ids(table) == list(range(60))
    assert len(table.data) == 2
    table.look_at_metadata()


@POINTS
def test_an_equality_delete_by_another_writer_is_not_passed_over(table: Compactable, point: str) -> None:
    """Only Spark can apply it, so the plan is stale; the rows stay deleted, before and after planning again."""
    when(point, lambda: table.delete_by_equality([3, 33]))
    with pytest.raises(StalePlan, match="equality deletes"):
        table.compact()
    expected = [i for i in range(60) if i not in (3, 33)]
    assert ids(table) == expected
    assert table.unreached() == set()
    table.compact()
    assert ids(table) == expected


@pytest.mark.parametrize("has_landed", [True, False], ids=["after", "before"])
def test_an_interrupt_in_the_midst_of_the_commit(
    table: Compactable, monkeypatch: pytest.MonkeyPatch, has_landed: bool
) -> None:
    """Nobody knows then whether it landed: files stay until a resume has looked, and then only what is used."""
    commit = type(table.lake.catalog).commit_table

    def interrupted(self: Any, *given: Any, **more: Any) -> Any:
        if has_landed:
            commit(self, *given, **more)
        raise KeyboardInterrupt

    planned = table.plan()
    with monkeypatch.context() as patched:
        patched.setattr(type(table.lake.catalog), "commit_table", interrupted)
        with pytest.raises(Interrupted):
            planned.apply()
    assert ids(table) == list(range(60))
    assert (len(table.data) == 2) is has_landed
    operation = table.lake.warden.operation.list(limit=1)[0]
    table.lake.warden.operation.resume(operation.id)
    assert ids(table) == list(range(60))
    assert len(table.data) == 2
    table.look_at_metadata()
