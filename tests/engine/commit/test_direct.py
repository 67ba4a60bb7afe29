"""Publishing refs: all or nothing, never over somebody else's work, and nothing left lying about."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakewarden.engine.commit import publish
from lakewarden.engine.commit.change import Change, Desk, RoutedCommits
from lakewarden.engine.commit.merged_manifests import ManifestMerge
from lakewarden.engine.commit.publish import ATTEMPTS, Attempt, Publisher, at_refs
from lakewarden.engine.commit.refs import RefChange, SetRef
from lakewarden.engine.files.manifests import Manifests
from lakewarden.errors import (
    BrokenTable,
    CatalogBusy,
    CatalogUnavailable,
    CommitRefused,
    LeaseLost,
    StalePlan,
    StorageUnavailable,
    TableNotFound,
)
from lakewarden.lifecycle.basics import PUBLISH, SPARK_SQL
from tests.engine.direct_commits import DirectCommits
from tests.engine.lakes import STAMP, Lake, digest, lake, local, open_lake, open_path, read_only, unfenced

__all__ = ["lake", "open_lake", "open_path"]


class Orders:
    """sales.orders with two versions, and changes to it."""

    def __init__(self, lake: Lake) -> None:
        self.lake = lake
        lake.create("sales.orders")
        metadata = lake.table().metadata
        self.uuid = str(metadata.table_uuid)
        self.first, self.head = (int(snapshot.snapshot_id) for snapshot in metadata.snapshots)

    def change(self, expects: dict[str, int | None], **what: Any) -> RefChange:
        return RefChange("main.sales.orders", self.uuid, expects, **what)

    def tag(self, name: str, at: int | None = None, **what: Any) -> RefChange:
        return self.change({name: None}, set=(SetRef(name, "tag", at or self.head),), **what)

    def commits(self, fence: Callable[[], None] = unfenced) -> DirectCommits:
        return DirectCommits(self.lake.tables, fence, STAMP, Manifests(), sleep=lambda _: None)

    def publish(self, taken_back: list[int]) -> bool:
        """Publish a version like the head, and note whether what was written for it was taken back."""
        from pyiceberg.table.update import AddSnapshotUpdate, SetSnapshotRefUpdate

        def make(table: Any) -> Attempt:
            head, new = table.current_snapshot(), table.metadata.new_snapshot_id()
            following = {
                "snapshot_id": new,
                "parent_snapshot_id": head.snapshot_id,
                "sequence_number": table.metadata.last_sequence_number + 1,
            }
            moved = {"ref-name": "main", "type": "branch", "snapshot-id": new}
            updates = (
                AddSnapshotUpdate(snapshot=head.model_copy(update=following)),
                SetSnapshotRefUpdate.model_validate(moved),
            )
            return Attempt(at_refs(self.uuid, {"main": head.snapshot_id}), updates, lambda: taken_back.append(1), new)

        publisher = Publisher(self.lake.tables, unfenced, STAMP, sleep=lambda _: None)
        return publisher.publish("main.sales.orders", self.uuid, make) is not None

    @property
    def files(self) -> dict[str, str]:
        return digest(local(self.lake.table().metadata.location))

    def location(self) -> str:
        return str(self.lake.table().metadata_location)

    def unreferenced(self) -> set[Path]:
        """Metadata files that neither the table nor its log knows."""
        table = self.lake.table()
        known = {local(entry.metadata_file) for entry in table.metadata.metadata_log}
        return self.lake.metadata_files() - known - {local(table.metadata_location)}


@pytest.fixture
def orders(lake: Lake) -> Orders:
    return Orders(lake)


class Interloper:
    """Does something to the table right before our commits reach the catalog: after they looked, before they swap."""

    def __init__(self, catalog: Any, act: Callable[[], object], times: int = 1) -> None:
        self._commit, self._stage, self._act, self.left = (
            catalog.commit_table,
            catalog._update_and_stage_table,
            act,
            times,
        )
        self.seen = 0
        catalog._update_and_stage_table = self._staged

    def _staged(self, *args: Any, **kwargs: Any) -> Any:
        staged = self._stage(*args, **kwargs)  # built on what was loaded; what follows makes that old
        self.seen += 1
        if self.left:
            self.left -= 1
            self._act()
        return staged


@pytest.fixture
def outside(orders: Orders) -> Lake:
    """The same lake as another process has it."""
    from lakewarden.warden import Warden

    other = Lake.__new__(Lake)
    other.folder, other.warden = orders.lake.folder, Warden.open(orders.lake.folder)
    return other


class TestOneCommit:
    def test_several_refs_at_once(self, orders: Orders) -> None:
        orders.commits().publish(orders.tag("old", orders.first))
        before = orders.lake.metadata_files()
        orders.commits().publish(
            orders.change(
                {"main": orders.head, "v1": None, "work": None, "old": orders.first},
                set=(
                    SetRef("v1", "tag", orders.head, keep_ms=86_400_000),
                    SetRef("work", "branch", orders.first),
                    SetRef("main", "branch", orders.first),
                ),
                remove=("old",),
                properties={"note": "a"},
            )
        )
        assert orders.lake.refs() == {"main": orders.first, "v1": orders.head, "work": orders.first}
        metadata = orders.lake.table().metadata
        assert metadata.refs["v1"].max_ref_age_ms == 86_400_000
        assert metadata.properties["note"] == "a"
        assert metadata.current_snapshot_id == orders.first
        assert len(orders.lake.metadata_files() - before) == 1

    def test_properties(self, orders: Orders) -> None:
        orders.commits().publish(orders.change({}, properties={"a": "1", "b": "2"}))
        orders.commits().publish(orders.change({}, properties={"c": "3"}, drop_properties=("a", "never-there")))
        assert {k: v for k, v in orders.lake.table().metadata.properties.items() if len(k) == 1} == {"b": "2", "c": "3"}

    def test_nothing_to_do_writes_nothing(self, orders: Orders) -> None:
        before = orders.files
        orders.commits().publish(orders.change({"main": orders.head}, set=(SetRef("main", "branch", orders.head),)))
        orders.commits().publish(orders.change({}, drop_properties=("never-there",)))
        assert orders.files == before

    def test_a_branch_keeps_its_settings_when_it_moves(self, orders: Orders) -> None:
        with orders.lake.table().manage_snapshots() as manage:
            manage.create_branch(
                orders.head, "work", max_ref_age_ms=1000, max_snapshot_age_ms=2000, min_snapshots_to_keep=3
            )
        orders.commits().publish(orders.change({"work": orders.head}, set=(SetRef("work", "branch", orders.first),)))
        work = orders.lake.table().metadata.refs["work"]
        assert (work.snapshot_id, work.snapshot_ref_type) == (orders.first, "branch")
        assert (work.max_ref_age_ms, work.max_snapshot_age_ms, work.min_snapshots_to_keep) == (1000, 2000, 3)

    def test_a_move_may_set_how_long_it_is_kept(self, orders: Orders) -> None:
        orders.commits().publish(orders.change({"v1": None}, set=(SetRef("v1", "tag", orders.head, keep_ms=60_000),)))
        orders.commits().publish(
            orders.change({"v1": orders.head}, set=(SetRef("v1", "tag", orders.first, keep_ms=120_000),))
        )
        assert orders.lake.table().metadata.refs["v1"].max_ref_age_ms == 120_000

    def test_data_is_not_touched(self, orders: Orders) -> None:
        before = orders.files
        orders.commits().publish(orders.tag("v1"))
        after = orders.files
        assert all(after[name] == content for name, content in before.items())
        assert [name.split("/")[0] for name in set(after) - set(before)] == ["metadata"]


class TestStale:
    def refused(self, orders: Orders, change: RefChange, commits: DirectCommits | None = None) -> str:
        before, location = orders.files, orders.location()
        with pytest.raises(StalePlan) as caught:
            (commits or orders.commits()).publish(change)
        assert orders.location() == location and orders.files == before
        assert caught.value.hint == "Nothing was written. Plan again."
        return caught.value.message

    def test_a_ref_that_moved(self, orders: Orders) -> None:
        told = self.refused(
            orders, orders.change({"main": orders.first}, set=(SetRef("main", "branch", orders.first),))
        )
        assert told == (f"the plan is stale: ref main of main.sales.orders moved from {orders.first} to {orders.head}")

    def test_a_ref_that_should_not_exist(self, orders: Orders) -> None:
        orders.commits().publish(orders.tag("v1", orders.first))
        told = self.refused(orders, orders.tag("v1"))
        assert f"ref v1 of main.sales.orders moved from nowhere to {orders.first}" in told

    def test_a_ref_that_is_gone(self, orders: Orders) -> None:
        told = self.refused(orders, orders.change({"v1": orders.first}, remove=("v1",)))
        assert f"ref v1 of main.sales.orders moved from {orders.first} to nowhere" in told

    def test_every_ref_is_told(self, orders: Orders) -> None:
        told = self.refused(orders, orders.change({"main": 1, "v1": 2}, properties={"a": "b"}))
        assert "ref main" in told and "ref v1" in told

    def test_one_stale_ref_stops_all(self, orders: Orders) -> None:
        change = orders.change({"v1": None, "main": orders.first}, set=(SetRef("v1", "tag", orders.head),))
        self.refused(orders, change)
        assert "v1" not in orders.lake.refs()

    def test_another_table_of_that_name(self, orders: Orders) -> None:
        old = orders.uuid
        orders.lake.catalog.drop_table("sales.orders")
        orders.lake.create("sales.orders")
        new = str(orders.lake.table().metadata.table_uuid)
        told = self.refused(orders, orders.change({}, properties={"a": "b"}))
        assert told == f"the plan is stale: main.sales.orders was recreated: its UUID was {old} and is now {new}"

    def test_a_table_that_is_gone(self, orders: Orders) -> None:
        orders.lake.catalog.drop_table("sales.orders")
        with pytest.raises(TableNotFound):
            orders.commits().publish(orders.tag("v1"))

    def test_what_moves_while_we_commit(self, orders: Orders, outside: Lake) -> None:
        """The ref is where it should be when looked at, and elsewhere when the catalog swaps."""
        table = orders.lake.table()
        location = table.metadata_location
        elsewhere = orders.change({"v1": None}, set=(SetRef("v1", "tag", orders.first),))
        interloper = Interloper(orders.lake.catalog, lambda: outside.direct.publish(elsewhere))
        with pytest.raises(StalePlan, match=f"ref v1 .* moved from nowhere to {orders.first}"):
            orders.commits().publish(orders.tag("v1"))
        assert interloper.seen == 1
        assert orders.lake.refs()["v1"] == orders.first
        assert orders.unreferenced() == set()
        assert orders.location() != location  # only theirs landed

    def test_a_table_dropped_while_we_commit(self, orders: Orders, outside: Lake) -> None:
        Interloper(orders.lake.catalog, lambda: outside.catalog.drop_table("sales.orders"))
        with pytest.raises(TableNotFound):
            orders.commits().publish(orders.tag("v1"))


class TestRaces:
    def test_an_outside_append_is_kept(self, orders: Orders, outside: Lake) -> None:
        theirs: list[int] = []
        interloper = Interloper(orders.lake.catalog, lambda: theirs.append(outside.append()))
        orders.commits().publish(orders.tag("v1"))
        assert interloper.seen == 2
        assert orders.lake.refs() == {"main": theirs[0], "v1": orders.head}
        assert len(orders.lake.table().metadata.snapshots) == 3
        assert orders.unreferenced() == set()

    def test_an_outside_tag_is_kept(self, orders: Orders, outside: Lake) -> None:
        def tag() -> None:
            with outside.table().manage_snapshots() as manage:
                manage.create_tag(orders.first, "theirs")

        Interloper(orders.lake.catalog, tag)
        orders.commits().publish(orders.tag("ours"))
        assert orders.lake.refs() == {"main": orders.head, "theirs": orders.first, "ours": orders.head}
        assert orders.unreferenced() == set()

    def test_an_outside_property_is_kept(self, orders: Orders, outside: Lake) -> None:
        def set_property() -> None:
            with outside.table().transaction() as transaction:
                transaction.set_properties(theirs="1")

        Interloper(orders.lake.catalog, set_property)
        orders.commits().publish(orders.tag("v1", properties={"ours": "1"}))
        properties = orders.lake.table().metadata.properties
        assert properties["theirs"] == "1" and properties["ours"] == "1"

    def test_branch_settings_that_change_meanwhile_are_kept(self, orders: Orders, outside: Lake) -> None:
        with orders.lake.table().manage_snapshots() as manage:
            manage.create_branch(orders.head, "work", min_snapshots_to_keep=3)

        def change() -> None:
            with outside.table().manage_snapshots() as manage:
                manage.remove_branch("work").create_branch(orders.head, "work", min_snapshots_to_keep=7)

        Interloper(orders.lake.catalog, change)
        orders.commits().publish(orders.change({"work": orders.head}, set=(SetRef("work", "branch", orders.first),)))
        work = orders.lake.table().metadata.refs["work"]
        assert (work.snapshot_id, work.min_snapshots_to_keep) == (orders.first, 7)

    def test_settings_that_change_right_before_the_catalog_looks(
        self, orders: Orders, outside: Lake, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The branch is at the same snapshot, so no requirement on it tells; its new settings are kept all the same."""
        with orders.lake.table().manage_snapshots() as manage:
            manage.create_branch(orders.head, "work", min_snapshots_to_keep=3)
        catalog = orders.lake.catalog
        commit_table, calls = catalog.commit_table, []

        def commit(*args: Any) -> Any:
            calls.append(args)
            if len(calls) == 1:
                with outside.table().manage_snapshots() as manage:
                    manage.remove_branch("work").create_branch(orders.head, "work", min_snapshots_to_keep=7)
            return commit_table(*args)

        monkeypatch.setattr(catalog, "commit_table", commit)
        orders.commits().publish(orders.change({"work": orders.head}, set=(SetRef("work", "branch", orders.first),)))
        work = orders.lake.table().metadata.refs["work"]
        assert (work.snapshot_id, work.min_snapshots_to_keep) == (orders.first, 7)
        assert orders.unreferenced() == set()

    def test_losing_every_attempt(self, orders: Orders, outside: Lake) -> None:
        waits: list[float] = []
        interloper = Interloper(orders.lake.catalog, outside.append, times=ATTEMPTS)
        commits = DirectCommits(orders.lake.tables, unfenced, STAMP, Manifests(), sleep=waits.append)
        with pytest.raises(CommitRefused, match=f"main.sales.orders: {ATTEMPTS} commit attempts lost") as caught:
            commits.publish(orders.tag("v1"))
        assert caught.value.hint.startswith("Nothing was written.")
        assert interloper.seen == ATTEMPTS == len(waits)
        assert all(0 < wait <= 1.5 for wait in waits) and sum(waits) > 1  # it backs off, and not for ever
        assert "v1" not in orders.lake.refs()
        assert orders.unreferenced() == set()
        assert len(orders.lake.table().metadata.snapshots) == 2 + ATTEMPTS

    def test_the_fence_is_looked_at_before_every_attempt(self, orders: Orders, outside: Lake) -> None:
        looks: list[int] = []

        def fence() -> None:
            looks.append(len(looks))
            if len(looks) == 3:
                raise LeaseLost("somebody else has it")

        Interloper(orders.lake.catalog, outside.append, times=5)
        with pytest.raises(LeaseLost):
            orders.commits(fence).publish(orders.tag("v1"))
        assert len(looks) == 3
        assert "v1" not in orders.lake.refs() and orders.unreferenced() == set()

    def test_a_lost_lease_writes_nothing(self, orders: Orders) -> None:
        def fence() -> None:
            raise LeaseLost("somebody else has it")

        before = orders.files
        with pytest.raises(LeaseLost):
            orders.commits(fence).publish(orders.tag("v1"))
        assert orders.files == before


class TestManyWriters:
    def test_threads(self, orders: Orders) -> None:
        failures: list[BaseException] = []

        def write(writer: int) -> None:
            try:
                for number in range(10):
                    DirectCommits(orders.lake.tables, unfenced, STAMP, Manifests()).publish(
                        orders.tag(f"w{writer}-{number}")
                    )
            except BaseException as error:  # noqa: BLE001  (a thread's failure must reach the test)
                failures.append(error)

        threads = [threading.Thread(target=write, args=(writer,)) for writer in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        wanted = {f"w{writer}-{number}" for writer in range(4) for number in range(10)}
        assert set(orders.lake.refs()) == wanted | {"main"}
        assert orders.unreferenced() == set()

    @pytest.mark.slow
    @pytest.mark.soak
    def test_processes(self, orders: Orders) -> None:
        program = (
            "import sys\n"
            "from lakewarden.warden import Warden\n"
            "from lakewarden.engine.commit.refs import RefChange, SetRef\n"
            "from lakewarden.engine.commit.change import Desk\n"
            "from lakewarden.engine.files.manifests import Manifests\n"
            "from lakewarden.lifecycle.basics import Stamp\n"
            "folder, uuid, head, writer = sys.argv[1:]\n"
            "tables = Warden.open(folder).ground.tables\n"
            "for number in range(10):\n"
            "    name = f'w{writer}-{number}'\n"
            "    tag = SetRef(name, 'tag', int(head))\n"
            "    change = RefChange('main.sales.orders', uuid, {name: None}, (tag,))\n"
            "    change.publish(Desk(tables, lambda: None, Stamp('op', 'a', 'test'), Manifests()))\n"
        )
        arguments = [sys.executable, "-c", program, str(orders.lake.folder), orders.uuid, str(orders.head)]
        processes = [subprocess.Popen([*arguments, str(w)], stderr=subprocess.PIPE, text=True) for w in range(4)]
        ended = [process.communicate(timeout=120)[1] for process in processes]
        assert [process.returncode for process in processes] == [0] * 4, ended
        wanted = {f"w{writer}-{number}" for writer in range(4) for number in range(10)}
        assert set(orders.lake.refs()) == wanted | {"main"}
        assert orders.unreferenced() == set()


class TestTrouble:
    def test_a_locked_database_is_waited_for(self, orders: Orders, monkeypatch: pytest.MonkeyPatch) -> None:
        _hurried(orders.lake, monkeypatch)
        holder = sqlite3.connect(orders.lake.folder / "lake/catalog.db", isolation_level=None, check_same_thread=False)
        holder.execute("BEGIN EXCLUSIVE")
        waits: list[float] = []

        def release() -> None:
            time.sleep(1)
            holder.execute("ROLLBACK")

        def sleep(seconds: float) -> None:
            waits.append(seconds)
            time.sleep(seconds)

        releasing = threading.Thread(target=release)
        releasing.start()
        try:
            DirectCommits(orders.lake.tables, unfenced, STAMP, Manifests(), sleep=sleep).publish(orders.tag("v1"))
        finally:
            releasing.join()
            holder.close()
        assert waits  # it was refused at least once
        assert orders.lake.refs()["v1"] == orders.head
        assert orders.unreferenced() == set()

    def test_a_lock_while_we_commit_is_waited_for(self, orders: Orders, monkeypatch: pytest.MonkeyPatch) -> None:
        """The metadata file is written by then; the attempt's must not stay."""
        _hurried(orders.lake, monkeypatch)
        holder = sqlite3.connect(orders.lake.folder / "lake/catalog.db", isolation_level=None)
        Interloper(orders.lake.catalog, lambda: holder.execute("BEGIN IMMEDIATE"))
        released: list[float] = []

        def sleep(seconds: float) -> None:
            if not released:
                holder.execute("ROLLBACK")
            released.append(seconds)

        DirectCommits(orders.lake.tables, unfenced, STAMP, Manifests(), sleep=sleep).publish(orders.tag("v1"))
        holder.close()
        assert len(released) == 1
        assert orders.lake.refs()["v1"] == orders.head
        assert orders.unreferenced() == set()

    def test_a_lock_that_stays(self, orders: Orders, monkeypatch: pytest.MonkeyPatch) -> None:
        _hurried(orders.lake, monkeypatch)
        monkeypatch.setattr(publish, "ATTEMPTS", 3)
        before = orders.files
        holder = sqlite3.connect(orders.lake.folder / "lake/catalog.db", isolation_level=None)
        holder.execute("BEGIN EXCLUSIVE")
        with pytest.raises(CatalogUnavailable, match="is locked by another process") as caught:
            orders.commits().publish(orders.tag("v1"))
        assert caught.value.hint == "Try again in a moment."
        holder.close()
        assert orders.files == before

    def test_a_catalog_that_cannot_be_written(self, open_lake: Lake) -> None:
        """The new metadata file is written by the time that the catalog refuses; it must not stay."""
        orders = Orders(open_lake)
        before, folder = orders.files, local(orders.location()).parent
        folder.chmod(0o777)
        open_lake.catalog.engine.dispose()
        with read_only(open_lake.folder / "lake"), pytest.raises(CatalogUnavailable, match="readonly database"):
            orders.commits().publish(orders.tag("v1"))
        open_lake.catalog.engine.dispose()
        assert orders.files == before

    def test_a_storage_that_cannot_be_written(self, open_lake: Lake) -> None:
        orders = Orders(open_lake)
        before, folder = orders.files, local(orders.location()).parent
        with read_only(folder), pytest.raises(StorageUnavailable, match="table main.sales.orders") as caught:
            orders.commits().publish(orders.tag("v1"))
        assert "\n" not in caught.value.message and caught.value.hint == "Check its permissions."
        assert orders.files == before

    def test_metadata_that_is_gone(self, orders: Orders) -> None:
        local(orders.location()).unlink()
        with pytest.raises(BrokenTable):
            orders.commits().publish(orders.tag("v1"))

    def test_a_catalog_that_does_not_say(self, orders: Orders, monkeypatch: pytest.MonkeyPatch) -> None:
        from pyiceberg.exceptions import CommitStateUnknownException

        calls: list[int] = []

        def commit(*_: Any) -> None:
            calls.append(1)
            raise CommitStateUnknownException("gateway timeout")

        monkeypatch.setattr(orders.lake.catalog, "commit_table", commit)
        with pytest.raises(CatalogUnavailable, match="did not confirm whether the commit landed") as caught:
            orders.commits().publish(orders.tag("v1"))
        assert "lakewarden operation resume" in caught.value.hint
        assert len(calls) == 1  # it may have landed: not to be tried again blindly

    @pytest.mark.parametrize("is_readable", [True, False])
    def test_a_commit_that_landed_and_was_refused(
        self, orders: Orders, monkeypatch: pytest.MonkeyPatch, is_readable: bool
    ) -> None:
        """It was sent twice. Where nobody can see that it landed, nothing of it may be taken back."""
        from pyiceberg.exceptions import CommitFailedException

        honest = orders.lake.catalog.commit_table

        def twice(*args: Any) -> None:
            honest(*args)
            if not is_readable:
                local(orders.location()).unlink()
            raise CommitFailedException("the table was changed")

        monkeypatch.setattr(orders.lake.catalog, "commit_table", twice)
        taken_back: list[int] = []
        if is_readable:
            assert orders.publish(taken_back)
        else:
            with pytest.raises(CatalogUnavailable, match="did not confirm whether the commit landed") as caught:
                orders.publish(taken_back)
            assert isinstance(caught.value.__cause__, BrokenTable)
        assert taken_back == []

    @pytest.mark.parametrize("stays", [False, True])
    def test_a_lock_while_we_look_whether_it_landed(
        self, orders: Orders, monkeypatch: pytest.MonkeyPatch, stays: bool
    ) -> None:
        from pyiceberg.exceptions import CommitFailedException

        honest, load = orders.lake.catalog.commit_table, orders.lake.tables.load
        left = 0

        def twice(*args: Any) -> None:
            nonlocal left
            honest(*args)
            left = ATTEMPTS if stays else 2
            raise CommitFailedException("the table was changed")

        def busy(name: Any) -> Any:
            nonlocal left
            if left:
                left -= 1
                raise CatalogBusy("the catalog's database is locked", "Try again.")
            return load(name)

        monkeypatch.setattr(orders.lake.catalog, "commit_table", twice)
        monkeypatch.setattr(orders.lake.tables, "load", busy)
        taken_back: list[int] = []
        if stays:
            with pytest.raises(CatalogUnavailable, match="did not confirm whether the commit landed"):
                orders.publish(taken_back)
        else:
            assert orders.publish(taken_back)
        assert left == 0 and taken_back == []

    def test_a_defect_is_not_dressed_up(self, orders: Orders, monkeypatch: pytest.MonkeyPatch) -> None:
        def commit(*_: Any) -> None:
            raise ZeroDivisionError

        monkeypatch.setattr(orders.lake.catalog, "commit_table", commit)
        with pytest.raises(ZeroDivisionError):
            orders.commits().publish(orders.tag("v1"))

    def test_a_snapshot_that_does_not_exist(self, orders: Orders) -> None:
        before = orders.files
        with pytest.raises(Exception, match="77"):
            orders.commits().publish(orders.tag("v1", 77))
        assert orders.files == before


def test_each_table_goes_by_its_route() -> None:
    seen: list[tuple[str, str]] = []
    started: list[int] = []

    class Noted(Change[str]):
        def publish(self, desk: Desk) -> str:
            seen.append((self.table, "directly"))
            return "published"

        def publish_through_spark(self, desk: Desk, spark: Any) -> str:
            seen.append((self.table, str(spark)))
            return "published"

    def spark() -> Any:
        started.append(1)
        return "on Spark"

    routed = RoutedCommits(Any, spark, needs_spark=lambda change: change.table == "v3")  # type: ignore[arg-type]
    assert routed.publish(Noted("v2", "u")) == "published" and started == []  # no session for a table that needs none
    assert routed.publish(Noted("v3", "u")) == "published"
    assert seen == [("v2", "directly"), ("v3", "on Spark")]
    for table, route in (("v3", PUBLISH), ("v2", SPARK_SQL)):  # the format version changed since planning
        with pytest.raises(StalePlan, match=f"{table} was to be changed by {route}"):
            routed.publish(RefChange(table, "u", {}, route=route))
    with pytest.raises(StalePlan, match="the format version of v3 changed"):
        routed.publish(ManifestMerge("v3", "u", ()))


def _hurried(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite itself would wait five seconds for a lock; let it give up at once, so that ours is what waits."""
    from sqlalchemy import event

    event.listen(lake.catalog.engine, "connect", lambda connection, _: connection.execute("PRAGMA busy_timeout = 50"))
    lake.catalog.engine.dispose()
