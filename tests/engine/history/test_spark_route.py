"""Rows erased from every version of format v3 through Spark: what is left, what stays, and what others do meanwhile.

Covers `engine/rows/row_positions.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakewarden.engine.files.reachable import own_places
from lakewarden.engine.files.unreachable import still_unreachable
from lakewarden.engine.history.replacement import Cleansed
from lakewarden.engine.history.spark_route import (
    SparkCleansing,
    check_nothing_else_goes,
    costs,
    displaced,
    place_before,
)
from lakewarden.engine.history.working_branch import CLEANSED, MERGING, WorkingBranch, is_working, leftover_snapshots
from lakewarden.engine.rows.search import search
from lakewarden.engine.spark.statements import TableStatements
from lakewarden.engine.storage.storage import Storage
from lakewarden.errors import CommitRefused, StalePlan
from lakewarden.lifecycle import failpoints
from lakewarden.lifecycle.journal import known_to
from lakewarden.records.erasure import HiddenKey
from tests.cases import in_soak
from tests.engine.catalog.test_rest_catalog import RestLake
from tests.engine.lakes import STAMP, unfenced
from tests.features.erasure.independent import Erased, traces
from tests.reachability import on_disk
from tests.services.rest_catalog import RestCatalog
from tests.small_lake import SmallLake

PEOPLE = "crm.people"
NAME = f"main.{PEOPLE}"
GONE = ("aa00@example.org", "ba05@example.org", "zz19@example.org")  # the smallest, one within, the largest
KEY = HiddenKey(2, "string", GONE)
LEFT = "op-20261114-090807-00ff00"  # an operation of ours that ended before its time
MERGE_ON_READ = "'write.delete.mode' = 'merge-on-read'"
COPY_ON_WRITE = "'write.delete.mode' = 'copy-on-write'"


def email(id: str) -> str:
    """Twenty people; their emails in SQL."""
    first = f"CASE {id} % 20 WHEN 0 THEN 'aa' WHEN 19 THEN 'zz' ELSE 'ba' END"
    return f"concat({first}, lpad(CAST({id} % 20 AS STRING), 2, '0'), '@example.org')"


class People:
    """A table of people in format v3, with tags, a branch and rows that deletes mask, as Spark writes them."""

    def __init__(self, lake: SmallLake, partition: str = "", mode: str = MERGE_ON_READ, format: int = 3) -> None:
        self.lake = lake
        lake.catalog.create_namespace_if_not_exists("crm")
        by = f"PARTITIONED BY ({partition})" if partition else ""
        summary = "'write.summary.partition-limit' = '100'"
        self.sql(
            f"CREATE TABLE {NAME} (id BIGINT, email STRING, city STRING) USING iceberg {by} "
            f"TBLPROPERTIES ('format-version' = '{format}', {mode}, {summary})",
            f"INSERT INTO {NAME} VALUES (1000, 'ba01@example.org', 'x')",
        )
        self.clean = lake.head(PEOPLE)
        self.insert(0, 40)
        self.sql(f"ALTER TABLE {NAME} CREATE TAG first RETAIN 90 MINUTES")

    def grown(self) -> People:
        """With more versions that share files, and files whose matching rows are masked."""
        self.insert(40, 80)
        self.sql(
            f"CALL main.system.rewrite_manifests('{PEOPLE}')",
            f"DELETE FROM {NAME} WHERE id IN (45, 46)",
            f"ALTER TABLE {NAME} CREATE TAG second",
            f"ALTER TABLE {NAME} CREATE BRANCH dev RETAIN 5 DAYS WITH SNAPSHOT RETENTION 3 SNAPSHOTS 2 DAYS",
            f"INSERT INTO {NAME}.branch_dev VALUES (2000, 'ba05@example.org', 'd'), (2001, 'ba06@example.org', 'd')",
            f"CALL main.system.compute_table_stats(table => '{PEOPLE}')",
        )
        self.insert(80, 90)
        return self

    def sql(self, *statements: str) -> list[Any]:
        found: list[Any] = []
        for statement in statements:
            found = self.lake.warden.ground.spark.sql(statement).collect()
        return found

    def insert(self, start: int, end: int, branch: str = "") -> None:
        rows = f"SELECT /*+ COALESCE(1) */ id, {email('id')}, concat('city ', id % 3) FROM range({start}, {end})"
        self.sql(f"INSERT INTO {NAME}{branch} {rows} ORDER BY 2")

    @property
    def table(self) -> Any:
        return self.lake.catalog.load_table(PEOPLE)

    def rows(self, ref: str) -> list[Any]:
        return sorted(map(tuple, self.sql(f"SELECT * FROM {NAME} VERSION AS OF '{ref}'")))

    def all_rows(self) -> dict[str, list[Any]]:
        return {ref: self.rows(ref) for ref in self.table.metadata.refs if not is_working(ref)}

    def settings(self) -> dict[str, Any]:
        return {name: ref.model_copy(update={"snapshot_id": 0}) for name, ref in self.table.metadata.refs.items()}

    def row_ids(self, ref: str) -> dict[int, int]:
        return {row[0]: row[1] for row in self.sql(f"SELECT id, _row_id FROM {NAME} VERSION AS OF '{ref}'")}

    def cleansing(self, fence: Callable[[], None] = unfenced) -> SparkCleansing:
        ground = self.lake.warden.ground
        stores = ground.stores
        return SparkCleansing(
            ground.tables, ground.spark, fence, STAMP, ground.files, lambda lake: Storage(stores[lake]), LEFT.__eq__
        )

    def purge(self, keys: Sequence[HiddenKey] = (KEY,), fence: Callable[[], None] = unfenced) -> Cleansed | None:
        """Search, erase, and remove what nothing leads to, as a purge does; nothing where nothing is found."""
        ground = self.lake.warden.ground
        storage = Storage(ground.stores["main"])
        found = search(self.table, keys, ground.files, storage)
        dirty = {*found.snapshots, *found.tainted}
        if not dirty:
            return None
        refs = [name for name, ref in self.table.metadata.refs.items() if ref.snapshot_id in dirty]
        told: list[str] = []
        name = ground.tables.name(PEOPLE)
        cleansed = self.cleansing(fence).cleanse(name, keys, refs, sorted(dirty), told.extend, self.progress)
        assert set(cleansed.superseded) == set(told)
        storage.erase_all(still_unreachable(self.table, told), own_places(self.table))
        return cleansed

    def progress(self, done: int, total: int, says: str) -> None:
        assert 0 <= done <= total and says

    def check_erased(self, gone: Sequence[str] = GONE) -> None:
        folder = on_disk(self.table.metadata.location)
        stay = frozenset({f"ba{n:02}@example.org" for n in range(1, 19)} - set(gone))
        assert traces(folder, [Erased(2, frozenset(gone), stay)]) == []
        assert not [ref for ref in self.table.metadata.refs if is_working(ref)]
        properties = self.table.metadata.properties
        assert MERGING not in properties and "commit.manifest.target-size-bytes" not in properties
        for ref in self.table.metadata.refs.values():
            manifests = self.table.snapshot_by_id(ref.snapshot_id).manifests(self.table.io)
            assert all(manifest.deleted_files_count == 0 for manifest in manifests)


def without(rows: dict[str, list[Any]], gone: Sequence[str] = GONE) -> dict[str, list[Any]]:
    return {ref: [row for row in some if row[1] not in gone] for ref, some in rows.items()}


@pytest.mark.spark
@pytest.mark.parametrize(
    ("partition", "mode"),
    [
        ("truncate(4, email)", COPY_ON_WRITE),
        *in_soak(("", MERGE_ON_READ), ("email", MERGE_ON_READ)),
        *in_soak(("", COPY_ON_WRITE), ("bucket(4, email)", MERGE_ON_READ)),
    ],
)
def test_every_version_is_without_the_rows(lake: SmallLake, partition: str, mode: str) -> None:
    people = People(lake, partition, mode).grown()
    before, settings, row_ids = people.all_rows(), people.settings(), people.row_ids("main")
    dirty = {s.snapshot_id for s in people.table.metadata.snapshots} - {people.clean}
    refs = lake.refs(PEOPLE)
    assert all(len(without(before)[ref]) < len(before[ref]) for ref in before)

    cleansed = people.purge()
    assert cleansed is not None
    assert people.all_rows() == without(before)
    assert people.settings() == settings
    assert {ref: (refs[ref], at) for ref, at in lake.refs(PEOPLE).items()} == cleansed.refs
    there = {s.snapshot_id for s in people.table.metadata.snapshots}
    assert there == {people.clean, *lake.refs(PEOPLE).values()} and dirty <= set(cleansed.snapshots)
    people.check_erased()
    now = people.row_ids("main")
    assert now == {id: row_ids[id] for id in now}  # rows are who they were
    assert people.purge() is None

    people.insert(100, 110)  # and Spark goes on from there
    people.sql(f"DELETE FROM {NAME} WHERE id = 101")
    assert len(people.rows("main")) == len(without(before)["main"]) + 9


@pytest.mark.spark
def test_a_tag_of_an_older_schema_takes_the_tables_own(lake: SmallLake) -> None:
    """Spark has no way to keep it: the plan tells exactly what becomes of it."""
    people = People(lake)
    people.sql(
        f"ALTER TABLE {NAME} DROP COLUMN city",
        f"ALTER TABLE {NAME} RENAME COLUMN email TO mail",
        f"ALTER TABLE {NAME} ADD COLUMN zip STRING",
        f"ALTER TABLE {NAME} ALTER COLUMN id COMMENT 'who'",
    )
    people.sql(f"ALTER TABLE {NAME} CREATE TAG second", f"INSERT INTO {NAME} VALUES (99, 'zz19@example.org', '1')")
    told = "\n".join(costs(people.table, ["first", "main"]))
    assert "2 versions are rebuilt one by one" in told and "2 refs are moved one after the other" in told
    assert "retention starts again at the purge for first" in told
    assert (
        "tag first will have the table's current schema: it permanently loses city, which the table has dropped; "
        "email is renamed to mail; it gains zip"
    ) in told
    assert "branch main" not in told and "city" in {column.name for column in at_tag(people, "first")}
    rows = people.rows("first")
    people.purge()
    assert [column.name for column in at_tag(people, "first")] == ["id", "mail", "zip"]
    assert people.rows("first") == [(row[0], row[1], None) for row in rows if row[1] not in GONE]
    people.check_erased()


def at_tag(people: People, tag: str) -> Any:
    return people.lake.warden.ground.spark.sql(f"SELECT * FROM {NAME} VERSION AS OF '{tag}'").schema


@pytest.mark.spark
@pytest.mark.soak
def test_after_the_spec_was_changed(lake: SmallLake) -> None:
    """A manifest of the former spec has no other to be merged with."""
    people = People(lake, "city")
    people.sql(
        f"CALL main.system.rewrite_manifests('{PEOPLE}')", f"ALTER TABLE {NAME} ADD PARTITION FIELD bucket(2, id)"
    )
    people.insert(40, 50)
    before = people.all_rows()
    people.purge()
    assert people.all_rows() == without(before)
    people.check_erased()


@pytest.mark.spark
@pytest.mark.parametrize("mode", [MERGE_ON_READ, COPY_ON_WRITE])
@pytest.mark.soak
def test_a_table_that_was_upgraded(lake: SmallLake, mode: str) -> None:
    """Its deletes are files of positions still, which name the data files that go."""
    people = People(lake, "email", MERGE_ON_READ, format=2).grown()
    people.sql(f"ALTER TABLE {NAME} SET TBLPROPERTIES ('format-version' = '3', {mode})")
    before = people.all_rows()
    people.purge()
    assert people.all_rows() == without(before)
    people.check_erased()


@pytest.mark.spark
@pytest.mark.soak
def test_in_a_rest_catalog(tmp_path: Path, rest_catalog: RestCatalog) -> None:
    """Whoever writes the metadata there, manifests are the client's: it goes the same way."""
    with RestLake(tmp_path / "lake", rest_catalog.uri, rest_catalog.warehouse) as lake:
        people = People(lake)
        people.insert(40, 60)
        before = people.all_rows()
        people.purge()
        assert people.all_rows() == without(before)
        people.check_erased()


@pytest.mark.spark
def test_rows_that_no_ref_leads_to(lake: SmallLake) -> None:
    """Such versions only expire; nothing is made anew."""
    people = People(lake)
    people.sql(
        f"ALTER TABLE {NAME} DROP TAG first", f"CALL main.system.rollback_to_snapshot('{PEOPLE}', {people.clean})"
    )
    head = lake.refs(PEOPLE)
    cleansed = people.purge()
    assert cleansed is not None and cleansed.refs == {} and len(cleansed.snapshots) == 1
    assert lake.refs(PEOPLE) == head
    people.check_erased()


@pytest.mark.spark
class TestOthersMeanwhile:
    def test_an_append_is_kept(self, lake: SmallLake, monkeypatch: pytest.MonkeyPatch) -> None:
        """What was committed to the branch in between, with such rows too, is there afterwards without them."""
        people = People(lake)
        before = people.all_rows()
        forward = TableStatements.fast_forward
        appended: list[str] = []

        def late(self: TableStatements, branch: str, to: str) -> None:
            if not appended:
                appended.append(branch)
                people.insert(200, 220)
            forward(self, branch, to)

        monkeypatch.setattr(TableStatements, "fast_forward", late)
        people.purge()
        assert appended == ["main"]
        assert people.rows("first") == without(before)["first"]
        assert {row[0] for row in people.rows("main")} >= {row[0] for row in without(before)["main"]} | {201, 218}
        assert not {row[1] for row in people.rows("main")} & set(GONE)
        people.check_erased()

    @pytest.mark.soak
    def test_a_commit_that_the_move_went_over(self, lake: SmallLake, monkeypatch: pytest.MonkeyPatch) -> None:
        """In the very moment of the move, where Iceberg does not see it: the branch goes back to it."""
        people = People(lake)
        gone_over: list[str] = []
        forward = TableStatements.fast_forward

        def blind(self: TableStatements, branch: str, to: str) -> None:
            if gone_over:
                return forward(self, branch, to)
            gone_over.append(branch)
            people.sql(f"INSERT INTO {NAME} VALUES (300, 'ba07@example.org', 'late')")
            return self.set_branch(branch, lake.refs(PEOPLE)[to])

        monkeypatch.setattr(TableStatements, "fast_forward", blind)
        before = people.all_rows()
        people.purge()
        assert people.rows("main") == sorted([*without(before)["main"], (300, "ba07@example.org", "late")])
        assert set(lake.refs(PEOPLE)) == {"main", "first"}
        people.check_erased()

    @pytest.mark.soak
    def test_a_tag_that_comes_late(self, lake: SmallLake, monkeypatch: pytest.MonkeyPatch) -> None:
        people = People(lake)
        before = people.all_rows()
        make = WorkingBranch.make
        late: list[int] = []

        def made(self: WorkingBranch) -> int:
            if not late:
                late.append(self._origin)
                people.sql(f"ALTER TABLE {NAME} CREATE TAG late AS OF VERSION {self._origin}")
            return make(self)

        monkeypatch.setattr(WorkingBranch, "make", made)
        people.purge()
        assert people.rows("late") == without(before)["first"]
        people.check_erased()

    def test_a_tag_that_is_moved_in_the_moment_between(self, lake: SmallLake, monkeypatch: pytest.MonkeyPatch) -> None:
        """Spark goes over it unseen: the tag goes back to where somebody had set it, and nothing expires."""
        people = People(lake)
        move, moved = TableStatements.move_tag, list[str]()

        def late(self: TableStatements, tag: str, snapshot: int) -> None:
            if not moved:
                moved.append(tag)
                people.sql(f"ALTER TABLE {NAME} REPLACE TAG first AS OF VERSION {people.clean}")
            move(self, tag, snapshot)

        monkeypatch.setattr(TableStatements, "move_tag", late)
        before, settings = people.all_rows(), people.settings()
        with pytest.raises(StalePlan, match=f"ref first .* to {people.clean} meanwhile"):
            people.purge()
        assert lake.refs(PEOPLE)["first"] == people.clean and people.settings() == settings
        people.purge()
        assert lake.refs(PEOPLE)["first"] == people.clean
        assert people.rows("main") == without(before)["main"]
        people.check_erased()

    def test_a_branch_that_is_rolled_back_in_the_moment_between(
        self, lake: SmallLake, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What it went back to is what the new version was built on: Iceberg would let it go forward again."""
        people = People(lake)
        forward, rolled_back = TableStatements.fast_forward, list[str]()

        def late(self: TableStatements, branch: str, to: str) -> None:
            if not rolled_back:
                rolled_back.append(branch)
                people.sql(f"CALL main.system.rollback_to_snapshot('{PEOPLE}', {people.clean})")
            forward(self, branch, to)

        monkeypatch.setattr(TableStatements, "fast_forward", late)
        with pytest.raises(StalePlan, match=f"ref main .* to {people.clean} meanwhile"):
            people.purge()
        assert lake.head(PEOPLE) == people.clean
        people.purge()
        assert lake.head(PEOPLE) == people.clean and people.rows("main") == [(1000, "ba01@example.org", "x")]
        people.check_erased()

    @pytest.mark.soak
    def test_a_version_that_is_staged(self, lake: SmallLake, monkeypatch: pytest.MonkeyPatch) -> None:
        """No ref leads to it yet, so it would go with the old versions: it stays, and is for somebody to publish."""
        people = People(lake)
        before = people.all_rows()
        make, staged = WorkingBranch.make, list[int]()

        def made(self: WorkingBranch) -> int:
            new = make(self)
            if not staged:
                people.sql(
                    f"ALTER TABLE {NAME} SET TBLPROPERTIES ('write.wap.enabled' = 'true')",
                    "SET spark.wap.id = looked-at",
                    f"INSERT INTO {NAME} VALUES (300, '{GONE[0]}', 'staged'), (301, 'ba07@example.org', 'staged')",
                    "RESET spark.wap.id",
                )
                staged.append(people.table.metadata.snapshots[-1].snapshot_id)
            return new

        monkeypatch.setattr(WorkingBranch, "make", made)
        with pytest.raises(StalePlan, match="is staged and not published"):
            people.purge()
        assert people.table.snapshot_by_id(staged[0]).summary.additional_properties["wap.id"] == "looked-at"
        assert people.all_rows() == without(before)
        people.sql(f"CALL main.system.publish_changes('{PEOPLE}', 'looked-at')")
        people.purge()
        assert people.rows("main") == sorted([*without(before)["main"], (301, "ba07@example.org", "staged")])
        people.check_erased()

    @pytest.mark.soak
    def test_branches_that_are_called_like_ours(self, lake: SmallLake) -> None:
        """Only those of operations that are known as ours are dropped; any other is somebody's, and kept."""
        people = People(lake)
        theirs = ["lakewarden-release-2024", "lakewarden-op-20240101-000000-abcdef-7"]
        left = [f"lakewarden-{LEFT}-{people.clean}", f"lakewarden-{LEFT}-{lake.head(PEOPLE)}-before"]
        people.sql(*(f"ALTER TABLE {NAME} CREATE BRANCH `{name}`" for name in (*theirs, *left)))
        people.sql(f"INSERT INTO {NAME}.`branch_{theirs[0]}` VALUES (500, 'ba05@example.org', 'x'), (501, 'b', 'x')")
        before = {ref: people.rows(ref) for ref in ("main", "first", *theirs)}
        people.purge()
        assert set(lake.refs(PEOPLE)) == set(before)
        assert {ref: people.rows(ref) for ref in before} == without(before)
        people.sql(f"ALTER TABLE {NAME} DROP BRANCH `{theirs[1]}`")
        people.check_erased()

    def test_what_would_go_with_them(self, lake: SmallLake) -> None:
        """Iceberg's expiry also takes tags whose time is over: then nothing is begun."""
        people = People(lake)
        people.sql(f"ALTER TABLE {NAME} CREATE TAG old AS OF VERSION {people.clean} RETAIN 1 MINUTES")
        refs = lake.refs(PEOPLE)
        with pytest.raises(CommitRefused, match="would also remove tag old"):
            people.purge()
        assert lake.refs(PEOPLE) == refs


class Killed(BaseException):
    """What stands for SIGKILL: nothing that runs after it can change the lake any more."""


class Death:
    """Ends a run at a point, and lets its clean-up come to nothing."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, at: str, times: int = 1) -> None:
        self.at, self.left, self.is_dead = at, times, False
        monkeypatch.setattr(failpoints, "_armed", [self.passed])

    def passed(self, point: str, number: int) -> None:
        self.left -= point == self.at
        if self.left == 0:
            self.is_dead = True
            raise Killed

    def fence(self) -> None:
        if self.is_dead:
            raise Killed


POINTS = [
    *(("branched", 1), ("deleted", 1), ("unmasked", 1), ("forgotten", 1), ("compared", 1), ("merging", 1)),
    *(("made", 1), ("made", 2), ("moved", 1), ("moved", 2), ("dropped", 1), ("intended", 1), ("expired", 1)),
]


@pytest.mark.spark
@pytest.mark.parametrize(("point", "times"), POINTS)
@pytest.mark.soak
def test_killed_at_any_point(lake: SmallLake, monkeypatch: pytest.MonkeyPatch, point: str, times: int) -> None:
    people = People(lake)
    people.insert(40, 60)
    people.sql(f"CALL main.system.rewrite_manifests('{PEOPLE}')", f"ALTER TABLE {NAME} CREATE TAG second")
    before = people.all_rows()
    with monkeypatch.context() as patched, pytest.raises(Killed):
        death = Death(patched, f"spark_cleansing.{point}", times)
        people.purge(fence=death.fence)
    for ref, rows in people.all_rows().items():
        assert rows in (before[ref], without(before)[ref]), ref
    people.purge()
    assert people.all_rows() == without(before)
    assert {s.snapshot_id for s in people.table.metadata.snapshots} == {people.clean, *lake.refs(PEOPLE).values()}
    if point != "expired":  # there the purge itself removes what it had written down
        people.check_erased()


@pytest.mark.spark
def test_no_value_is_in_what_spark_is_told(lake: SmallLake, monkeypatch: pytest.MonkeyPatch) -> None:
    people = People(lake, "email")  # where even paths tell one
    told: list[str] = []
    run = TableStatements._run

    def explained(self: TableStatements, statement: str) -> list[Any]:
        told.append(statement)
        if statement.startswith(("DELETE", "INSERT")):
            told.append(people.sql(f"EXPLAIN EXTENDED {statement}")[0][0])
        return run(self, statement)

    monkeypatch.setattr(TableStatements, "_run", explained)
    people.purge()
    text = "\n".join(told)
    assert "WriteDelta" in text and "lakewarden_0123456789ab_rows" in text
    assert not [value for value in (*GONE, "aa00", "zz19") if value in text]


class TestWithoutSpark:
    """What is told from metadata alone, of whatever format."""

    @pytest.fixture
    def orders(self, lake: SmallLake) -> SmallLake:
        lake.create("sales.orders", format=2, appends=2)
        return lake

    def made(self, lake: SmallLake, origin: int) -> int:
        table = lake.catalog.load_table("sales.orders")
        table.append(
            pa.table({"id": [7], "city": ["x"]}, schema=table.schema().as_arrow()),
            snapshot_properties={CLEANSED: str(origin)},
        )
        return lake.head()

    def test_versions_between_are_spent(self, orders: SmallLake) -> None:
        origin = orders.head()
        first, second, last = self.made(orders, origin), orders.append(), self.made(orders, origin)
        after = orders.append()
        assert leftover_snapshots(orders.catalog.load_table("sales.orders")) == {first, second}
        assert last not in {first, second, after}

    def test_what_only_says_so_takes_nothing_along(self, orders: SmallLake) -> None:
        self.made(orders, 12345)
        assert leftover_snapshots(orders.catalog.load_table("sales.orders")) == set()

    def test_what_was_made_in_vain(self, orders: SmallLake) -> None:
        origin = orders.head()
        last = self.made(orders, origin)
        orders.catalog.load_table("sales.orders").manage_snapshots().rollback_to_snapshot(origin).commit()
        assert leftover_snapshots(orders.catalog.load_table("sales.orders")) == {last}
        assert displaced(orders.catalog.load_table("sales.orders"), origin, {origin}) == last
        assert displaced(orders.catalog.load_table("sales.orders"), origin, {origin, last}) is None

    def test_working_branches(self) -> None:
        assert is_working(f"lakewarden-{STAMP.operation}-123") and is_working(f"lakewarden-{STAMP.operation}-1-before")
        others = ["lakewarden-notes", "main", "dev-12", "lakewarden-release-2024", f"lakewarden-x{STAMP.operation}-1"]
        assert not [ref for ref in (*others, f"lakewarden-{STAMP.operation}-1-after") if is_working(ref)]
        assert not is_working(f"lakewarden-{STAMP.operation}-123", lambda operation: operation != STAMP.operation)

    def test_operations_that_the_journal_knows(self, orders: SmallLake) -> None:
        done = orders.warden.version.tag("sales.orders", "v1").apply()
        is_ours = known_to(orders.warden.ground.journal)
        assert is_ours(done.id) and not is_ours(STAMP.operation)
        assert is_working(f"lakewarden-{done.id}-1", is_ours)
        assert not is_working(f"lakewarden-{STAMP.operation}-1", is_ours)

    def test_only_working_branches_of_ours_are_left_as_they_are(self, orders: SmallLake) -> None:
        """Rows are hidden on any other branch, whatever it is called."""
        done = orders.warden.version.tag("sales.orders", "v1").apply()
        theirs = ["lakewarden-release-2024", f"lakewarden-{STAMP.operation}-1"]
        for branch in (*theirs, f"lakewarden-{done.id}-1"):
            orders.catalog.load_table("sales.orders").manage_snapshots().create_branch(orders.head(), branch).commit()
        orders.warden.erasure.request("sales.orders", key="id", value=["1"])
        planned = orders.warden.erasure.hide("sales.orders").plan.actions
        assert {action.arguments["branch"] for action in planned} == {"main", *theirs}

    def test_files_that_lie_elsewhere(self, orders: SmallLake, tmp_path: Path) -> None:
        """Iceberg's expiry would delete them, whoever else has them: refused while nothing has begun."""
        name, table = orders.warden.ground.tables.name("sales.orders"), orders.catalog.load_table("sales.orders")
        own = orders.head()
        path = tmp_path / "shared" / "a.parquet"
        path.parent.mkdir()
        pq.write_table(pa.table({"id": [9], "city": ["x"]}), path)
        table.add_files([f"file://{path}"])
        shared = orders.head()
        table.overwrite(pa.table({"id": [1], "city": ["y"]}, schema=table.schema().as_arrow()))
        table = orders.catalog.load_table("sales.orders")
        check_nothing_else_goes(table, name, [own], [])
        going = [snapshot.snapshot_id for snapshot in table.metadata.snapshots][:-1]
        with pytest.raises(CommitRefused, match="would also delete 1 file outside its location") as refused:
            check_nothing_else_goes(table, name, going, [])
        assert "write.data.path" in refused.value.hint
        table.manage_snapshots().create_tag(shared, "kept").commit()
        check_nothing_else_goes(orders.catalog.load_table("sales.orders"), name, [own], [])
        with table.transaction() as change:
            change.set_properties({"write.data.path": f"file://{path.parent}"})
        check_nothing_else_goes(orders.catalog.load_table("sales.orders"), name, going, [])

    def test_where_a_ref_was_before(self, orders: SmallLake) -> None:
        def load() -> Any:
            return orders.catalog.load_table("sales.orders")

        first, second, third = (orders.append() for _ in range(3))
        load().manage_snapshots().create_tag(first, "v").commit()
        before = load()
        load().manage_snapshots().create_tag(third, "v").commit()
        assert place_before(load(), "v", third, before) == first
        orders.append()  # what others do to other refs changes nothing
        assert place_before(load(), "v", third, before) == first
        assert place_before(load(), "v", second, before) is None

        before = load()
        load().manage_snapshots().create_tag(second, "v").commit()
        orders.append()
        load().manage_snapshots().create_tag(first, "v").commit()
        orders.append()
        assert place_before(load(), "v", first, before) == second

    def test_costs_of_one_ref(self, orders: SmallLake) -> None:
        table = orders.catalog.load_table("sales.orders")
        assert costs(table, ["main"]) == [
            "the new versions have the time of the purge: time travel to before it does not find them"
        ]
        assert costs(table, []) == [] and costs(table, ["nothing"]) == []
