"""Rows that are appended, or replace exact files: once, on whatever head there is, and right for every reader.

No JVM: files are written by hand, others write with PyIceberg. What Spark stages is in `test_staging.py`.

Covers `engine/commit/new_snapshot.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.transforms import IdentityTransform

from lakewarden.engine.commit.new_rows import Append, Overwrite
from lakewarden.engine.commit.rewritten_files import Rewrite, RewrittenGroup
from lakewarden.engine.files.live_files import Files, SnapshotFiles
from lakewarden.engine.files.manifests import Manifests, entries_at
from lakewarden.errors import CatalogUnavailable, LeaseLost, StalePlan
from lakewarden.lifecycle.failpoints import when
from tests.deletes_by_hand import column_of, commit_deletes, equality_deletes
from tests.engine.direct_commits import DirectCommits
from tests.engine.lakes import STAMP, Lake, digest, elsewhere, lake, local, unfenced
from tests.engine.new_files import SALES, delete_positions, new_file, sales
from tests.reachability import orphans
from tests.readers.engines import Ref, _duckdb
from tests.readers.spec import faults

__all__ = ["lake"]

OTHER = replace(STAMP, operation="op-20261115-101112-ffffff")
pytestmark = pytest.mark.filterwarnings("ignore:Delete operation did not match any records")


class Sales:
    """A table that nothing was written to yet, and what is done to it."""

    def __init__(self, lake: Lake, format: int = 2, by_city: bool = False) -> None:
        self.lake, self.name = lake, "main.shop.sales"
        fields = [PartitionField(2, 1000, IdentityTransform(), "city")] if by_city else []
        lake.catalog.create_namespace_if_not_exists("shop")
        properties = {"format-version": str(format)}
        lake.catalog.create_table("shop.sales", SALES, partition_spec=PartitionSpec(*fields), properties=properties)
        self.uuid = str(self.table.metadata.table_uuid)

    @property
    def table(self) -> Any:
        return self.lake.catalog.load_table("shop.sales")

    @property
    def files(self) -> SnapshotFiles:
        return Files(Manifests()).of(self.table, self.table.current_snapshot())

    def commits(self, stamp: Any = STAMP, fence: Callable[[], None] = unfenced) -> DirectCommits:
        return DirectCommits(self.lake.tables, fence, stamp, Manifests(), sleep=lambda _: None)

    def append(self, *ids: int, stamp: Any = STAMP, city: str | None = "Oslo", **more: Any) -> int:
        added = new_file(self.table, sales(ids, city), stamp)
        return self.commits(stamp).publish(Append(self.name, self.uuid, (added,), **more))

    def overwrite(self, *ids: int, paths: list[str], city: str = "Oslo", stamp: Any = STAMP) -> int:
        """Replace files as they are known now."""
        return self.commits(stamp).publish(self.overwriting(*ids, paths=paths, city=city, stamp=stamp))

    def overwriting(self, *ids: int, paths: list[str], city: str = "Oslo", stamp: Any = STAMP) -> Overwrite:
        added = (new_file(self.table, sales(ids, city), stamp),) if ids else ()
        known = {path: self.files.by_path[path].deletes_identity for path in paths}
        return Overwrite(self.name, self.uuid, added, removed=known)

    def append_elsewhere(self, *ids: int, city: str = "Oslo") -> None:
        import pyarrow as pa

        self.table.append(pa.Table.from_pylist(sales(ids, city), self.table.schema().as_arrow()))

    def compact_elsewhere(self) -> None:
        """All files rewritten as one, by another operation."""
        rows = self.table.scan().to_arrow().to_pylist()
        inputs = {file.path: file.deletes_identity for file in self.files.data}
        newest = max(file.sequence for file in self.files.data)
        added = replace(new_file(self.table, rows, OTHER), sequence=newest)
        change = Rewrite(self.name, self.uuid, (RewrittenGroup(0, inputs, (added,)),))
        assert self.commits(OTHER).publish(change).snapshot is not None

    def ids(self) -> list[int]:
        return sorted(self.table.scan().to_arrow()["id"].to_pylist())

    def path_of(self, id: int) -> str:
        """The file that holds an id, by its bounds."""
        wanted = id.to_bytes(8, "little", signed=True)
        entries = [e for m in self.files.manifests for e in entries_at(self.table.io, m.manifest_path)]
        live = {file.path for file in self.files.data}
        (found,) = {
            e.data_file.file_path
            for e in entries
            if e.data_file.file_path in live and (e.data_file.lower_bounds or {}).get(1) == wanted
        }
        return str(found)

    def check(self, *ids: int) -> None:
        """What every reader sees, and what is stored."""
        table = self.table
        assert self.ids() == sorted(ids)
        ref = Ref("shop.sales", "main", "branch", table.metadata.current_snapshot_id, table.metadata_location)
        read = _duckdb(ref)
        assert sorted(row["id"] for row in read) == sorted(ids)
        assert sum(row["amount"] != row["amount"] for row in read) == sum(id % 3 == 0 for id in ids)
        assert faults(table.metadata_location, lambda path: "/lw-op-" in path) == []
        assert orphans(table) == set()

    def summary(self) -> dict[str, str]:
        summary = self.table.current_snapshot().summary
        return {"operation": summary.operation.value, **summary.additional_properties}


@pytest.fixture(params=[1, 2], ids=lambda version: f"v{version}")
def shop(lake: Lake, request: pytest.FixtureRequest) -> Sales:
    return Sales(lake, request.param)


@pytest.fixture
def shop_v2(lake: Lake) -> Sales:
    return Sales(lake)


class TestAppend:
    def test_the_first_commit_of_a_table(self, shop: Sales) -> None:
        snapshot = shop.append(1, 2, 3)
        assert shop.table.metadata.current_snapshot_id == snapshot
        assert shop.table.current_snapshot().parent_snapshot_id is None
        expected = {"operation": "append", "added-data-files": "1", "added-records": "3", "total-records": "3"}
        assert expected.items() <= shop.summary().items()
        assert STAMP.properties().items() <= shop.summary().items()
        shop.check(1, 2, 3)

    def test_onto_what_is_there(self, shop: Sales) -> None:
        shop.append_elsewhere(1, 2)
        shop.append(3, 4)
        totals = {"total-records": "4", "total-data-files": "2", "added-records": "2"}
        assert totals.items() <= shop.summary().items()
        shop.check(1, 2, 3, 4)

    def test_rows_are_as_new_as_the_commit(self, shop_v2: Sales) -> None:
        """Their manifest names no sequence number: readers take that of the snapshot, whichever attempt landed."""
        shop_v2.append_elsewhere(1)
        when("commit.ready", lambda: shop_v2.append_elsewhere(2))
        shop_v2.append(3)
        (own,) = [file for file in shop_v2.files.data if "/lw-op-" in file.path]
        (entry,) = [e for e in entries_at(shop_v2.table.io, own.manifest) if e.data_file.file_path == own.path]
        assert (entry.sequence_number, entry.file_sequence_number) == (None, None)
        assert own.sequence == own.added_in == shop_v2.table.metadata.last_sequence_number == 3

    @pytest.mark.parametrize("point", ["commit.ready", "commit.fenced", "commit.staged"])
    def test_what_others_commit_meanwhile_does_not_matter(self, shop: Sales, point: str) -> None:
        shop.append_elsewhere(1, 2)
        shop.append_elsewhere(3, 4)

        def others() -> None:
            shop.append_elsewhere(5)
            shop.table.delete("id = 1")
            shop.compact_elsewhere()

        passed = when(point, elsewhere(others))
        shop.append(6)
        assert len(passed) > 1
        shop.check(2, 3, 4, 5, 6)

    def test_a_table_whose_first_commit_is_somebody_elses(self, shop: Sales) -> None:
        when("commit.fenced", lambda: shop.append_elsewhere(1))
        shop.append(2)
        shop.check(1, 2)

    def test_twice_is_once(self, shop: Sales) -> None:
        first = shop.append(1)
        shop.append_elsewhere(2)
        again = new_file(shop.table, sales([1]))
        assert shop.commits().publish(Append(shop.name, shop.uuid, (again,))) == first
        local(again.file.file_path).unlink()
        shop.check(1, 2)

    def test_parts_of_one_action_are_several_commits_and_each_is_recognised(self, shop: Sales) -> None:
        parts = [replace(STAMP, part=part) for part in ("2024-05", "2024-06", "")]
        made = [shop.append(number, stamp=stamp) for number, stamp in enumerate(parts)]
        assert len(set(made)) == 3
        again = [shop.append(number, stamp=stamp) for number, stamp in enumerate(parts)]
        assert again == made and shop.ids() == [0, 1, 2]

    def test_twice_is_once_also_after_a_rollback(self, shop_v2: Sales) -> None:
        shop_v2.append_elsewhere(1)
        before = shop_v2.table.metadata.current_snapshot_id
        first = shop_v2.append(2)
        with shop_v2.table.manage_snapshots() as manage:
            manage.rollback_to_snapshot(before)
        assert shop_v2.append(2) == first
        assert shop_v2.ids() == [1]

    def test_another_action_appends_its_own(self, shop: Sales) -> None:
        shop.append(1)
        shop.append(2, stamp=replace(STAMP, action="ba9876543210"))
        shop.append(3, stamp=OTHER)
        shop.check(1, 2, 3)

    def test_many_appends_of_one_operation_share_a_manifest(self, shop: Sales) -> None:
        for number in range(5):
            shop.append(number, stamp=replace(STAMP, action=f"{number:012}"))
        assert len(shop.files.manifests) == 1
        shop.check(0, 1, 2, 3, 4)

    def test_an_answer_that_was_lost(self, shop: Sales, monkeypatch: pytest.MonkeyPatch) -> None:
        from pyiceberg.exceptions import CommitStateUnknownException

        commit = type(shop.lake.catalog).commit_table

        def breaking(self: Any, *given: Any, **more: Any) -> Any:
            commit(self, *given, **more)
            raise CommitStateUnknownException("504")

        with monkeypatch.context() as patched:
            patched.setattr(type(shop.lake.catalog), "commit_table", breaking)
            with pytest.raises(CatalogUnavailable, match="did not confirm whether"):
                shop.append(1)
        shop.check(1)
        landed = shop.table.metadata.current_snapshot_id
        assert shop.commits().publish(Append(shop.name, shop.uuid)) == landed
        shop.check(1)

    def test_a_lease_that_is_lost_publishes_nothing(self, shop: Sales) -> None:
        shop.append_elsewhere(1)
        added = new_file(shop.table, sales([2]))
        before = digest(local(shop.table.metadata.location))

        def lost() -> None:
            raise LeaseLost("the lease was taken over", "")

        with pytest.raises(LeaseLost):
            shop.commits(fence=lost).publish(Append(shop.name, shop.uuid, (added,)))
        assert digest(local(shop.table.metadata.location)) == before

    def test_no_rows_leave_a_snapshot_that_says_so(self, shop: Sales) -> None:
        """Else nobody could see that the action was done."""
        snapshot = shop.commits().publish(Append(shop.name, shop.uuid, facts={"batch": "7"}))
        assert shop.commits().publish(Append(shop.name, shop.uuid)) == snapshot
        assert shop.summary()["batch"] == "7"
        shop.check()

    def test_partitions_of_an_earlier_spec(self, lake: Lake) -> None:
        shop = Sales(lake, by_city=True)
        added = [new_file(shop.table, sales([1], "Oslo")), new_file(shop.table, sales([2], None))]
        with shop.table.update_spec() as update:
            update.remove_field("city")
        added.append(new_file(shop.table, sales([3], "Rome")))
        shop.commits().publish(Append(shop.name, shop.uuid, tuple(added)))
        assert shop.table.scan("city = 'Oslo'").to_arrow()["id"].to_pylist() == [1]
        shop.check(1, 2, 3)

    def test_a_branch(self, shop_v2: Sales) -> None:
        head = shop_v2.append(1, stamp=OTHER)
        with shop_v2.table.manage_snapshots() as manage:
            manage.create_branch(head, "audit")
        shop_v2.append(2, branch="audit")
        assert shop_v2.table.scan().use_ref("audit").to_arrow().num_rows == 2
        shop_v2.check(1)

    def test_a_branch_that_is_gone(self, shop_v2: Sales) -> None:
        shop_v2.append(1, stamp=OTHER)
        with pytest.raises(StalePlan, match="no longer has branch audit"):
            shop_v2.append(2, branch="audit")

    def test_another_table_of_the_same_name(self, shop: Sales) -> None:
        added = new_file(shop.table, sales([1]))
        shop.lake.catalog.drop_table("shop.sales")
        other = Sales.__new__(Sales)
        shop.lake.catalog.create_table("shop.sales", SALES)
        other.lake, other.name, other.uuid = shop.lake, shop.name, shop.uuid
        with pytest.raises(StalePlan, match="was recreated: its UUID was .* and is now"):
            other.commits().publish(Append(shop.name, shop.uuid, (added,)))
        assert other.ids() == []


class TestOverwrite:
    def test_exact_files_out_new_ones_in(self, shop: Sales) -> None:
        for ids in ([1, 2], [3, 4], [5, 6]):
            shop.append_elsewhere(*ids)
        shop.overwrite(13, 14, 15, paths=[shop.path_of(3)])
        told = {"operation": "overwrite", "added-records": "3", "deleted-records": "2", "deleted-data-files": "1"}
        assert told.items() <= shop.summary().items()
        assert len(shop.table.metadata.snapshots) == 4
        shop.check(1, 2, 5, 6, 13, 14, 15)

    def test_files_that_only_go(self, shop: Sales) -> None:
        shop.append_elsewhere(1)
        shop.append_elsewhere(2)
        shop.overwrite(paths=[shop.path_of(1)])
        assert shop.summary()["operation"] == "delete"
        shop.check(2)

    def test_new_rows_are_newer_than_deletes_of_the_old(self, shop_v2: Sales) -> None:
        """The same id, deleted by equality before: the row that replaces it stays, as that of a rewrite would not."""
        import pyarrow as pa

        shop_v2.append_elsewhere(1, 2)
        file = equality_deletes(shop_v2.table, column_of("id", pa.int64(), 1, [1]), [1])
        commit_deletes(shop_v2.table, file)
        shop_v2.overwrite(1, 2, paths=[shop_v2.path_of(1)])
        assert shop_v2.files.deletes == ()  # they apply to nothing now
        shop_v2.check(1, 2)

    def test_deletes_that_still_apply_stay(self, shop_v2: Sales) -> None:
        shop_v2.append_elsewhere(1, 2)
        shop_v2.append_elsewhere(3, 4)
        for path in (shop_v2.path_of(1), shop_v2.path_of(3)):
            delete_positions(shop_v2.table, shop_v2.files.by_path[path], [0])
        shop_v2.overwrite(5, paths=[shop_v2.path_of(1)])
        assert [delete.only_for for delete in shop_v2.files.deletes] == [shop_v2.path_of(3)]
        assert {"removed-delete-files": "1", "total-delete-files": "1"}.items() <= shop_v2.summary().items()
        shop_v2.check(4, 5)

    @pytest.mark.parametrize("change", ["deleted from", "removed", "rewritten"])
    @pytest.mark.parametrize("point", ["planned", "commit.ready"])
    def test_files_that_others_changed_are_refused(self, shop_v2: Sales, change: str, point: str) -> None:
        shop_v2.append_elsewhere(1, 2)
        shop_v2.append_elsewhere(3, 4)
        first = shop_v2.path_of(1)
        planned = shop_v2.overwriting(5, paths=[first])
        acts: dict[str, Callable[[], None]] = {
            "deleted from": lambda: delete_positions(shop_v2.table, shop_v2.files.by_path[first], [1]),
            "removed": lambda: shop_v2.table.delete("id < 3"),
            "rewritten": shop_v2.compact_elsewhere,
        }
        left = {"deleted from": [1, 3, 4], "removed": [3, 4], "rewritten": [1, 2, 3, 4]}[change]
        acts[change]() if point == "planned" else when(point, acts[change])
        with pytest.raises(StalePlan, match="1 of the 1 files on branch main of main.shop.sales"):
            shop_v2.commits().publish(planned)
        local(planned.added[0].file.file_path).unlink()
        shop_v2.check(*left)

    def test_appends_of_others_do_not_matter(self, shop: Sales) -> None:
        shop.append_elsewhere(1)
        when("commit.ready", lambda: shop.append_elsewhere(2))
        shop.overwrite(3, paths=[shop.path_of(1)])
        shop.check(2, 3)

    def test_a_delete_in_another_file_does_not_matter(self, shop_v2: Sales) -> None:
        shop_v2.append_elsewhere(1)
        shop_v2.append_elsewhere(2, 3)
        other = shop_v2.files.by_path[shop_v2.path_of(2)]
        when("commit.ready", lambda: delete_positions(shop_v2.table, other, [1]))
        shop_v2.overwrite(4, paths=[shop_v2.path_of(1)])
        shop_v2.check(2, 4)

    def test_twice_is_once(self, shop: Sales) -> None:
        shop.append_elsewhere(1)
        planned = shop.overwriting(2, paths=[shop.path_of(1)])
        assert shop.commits().publish(planned) == shop.commits().publish(planned)
        shop.check(2)

    def test_nothing_to_replace_in_an_empty_table(self, shop: Sales) -> None:
        planned = Overwrite(shop.name, shop.uuid, removed={"file:///nowhere.parquet": frozenset()})
        with pytest.raises(StalePlan):
            shop.commits().publish(planned)
        assert shop.table.metadata.snapshots == []
