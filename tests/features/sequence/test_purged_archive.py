"""What an archive knows of its partitions, after an erasure purge too, whoever expires its snapshots.

Covers `features/sequence/stamps.py` and `engine/history/purged_partitions.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakewarden.engine.catalog import snapshots
from lakewarden.engine.catalog.snapshot_removal import SEQUENCE, stamp_property
from lakewarden.errors import UnfitDatabase
from lakewarden.features.sequence.columns import PARTITION
from tests.features.sequence.archive_alone import NAME, PERSON, SOURCE, Archive
from tests.walks.others import Others, stop


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[Archive]:
    made = Archive(tmp_path)
    with made.lake:
        yield made


def filled(archive: Archive) -> None:
    """p3 was copied twice; the person is in p1 and in the earlier copy of p3."""
    archive.copy("p1", {1: PERSON, 2: "b@x"})
    archive.copy("p2", {3: "c@x", 4: "d@x"})
    archive.copy("p3", {5: PERSON, 6: "e@x"})
    archive.copy("p3", {5: "f@x", 6: "e@x"}, again=True)


@pytest.mark.parametrize("expire", [Archive.expire, Archive.expire_as_retention])
def test_copies_are_known_after_a_purge_and_an_expiry(archive: Archive, expire: Any) -> None:
    filled(archive)
    archive.purge()
    archive.copy("p4", {7: "g@x"})
    assert not archive.table.lost
    expire(archive)
    assert not archive.table.lost
    assert sorted(archive.table.copies) == ["p1", "p2", "p3", "p4"]


def test_copies_are_known_though_their_properties_have_the_sequence_of_a_purge(archive: Archive) -> None:
    """As earlier versions of Lakewarden left them."""
    filled(archive)
    archive.purge()
    purged = archive.iceberg.current_snapshot()
    archive.copy("p4", {7: "g@x"})
    archive.expire()
    for name, stamped in archive.table.stamps.items():
        if name != "p4":
            archive.set_property(f"{SEQUENCE}{SOURCE}.{name}", stamp_property(purged, stamped.copied.text))
    assert not archive.table.lost


@pytest.mark.parametrize("expire", [Archive.expire, Archive.expire_as_retention])
def test_a_partition_whose_rows_were_all_erased_is_not_missed(archive: Archive, expire: Any) -> None:
    archive.copy("p1", {1: PERSON})
    archive.copy("p2", {2: "b@x", 3: PERSON})
    archive.copy("p2", {2: "c@x", 3: PERSON}, again=True)
    archive.purge()
    archive.copy("p3", {4: "d@x"})
    assert archive.table.copies["p1"].rows == 0
    archive.rewrite("p2", {2: "c@x"})
    expire(archive)
    assert not archive.table.lost


@pytest.mark.spark
@pytest.mark.parametrize("point", ["", "spark_cleansing.moved", "spark_cleansing.marked", "spark_cleansing.expired"])
def test_copies_are_known_after_a_purge_in_format_v3(archive: Archive, point: str) -> None:
    """Which goes through Spark; also if it was stopped and resumed."""
    archive.copy("p1", {1: PERSON})
    archive.copy("p2", {2: "b@x", 3: PERSON})
    archive.copy("p2", {2: "c@x", 3: PERSON}, again=True)
    archive.copy("p3", {4: "d@x", 5: "e@x"})
    others = Others(archive.lake, NAME)
    others.upgrade()
    if point:
        archive.lake.warden.erasure.request(NAME, key="email", value=[PERSON])
        stop(archive.lake.warden.erasure.purge(NAME), point)
        archive.lake.warden.operation.resume()
    else:
        archive.purge()
    expected = {"p1": (0, True), "p2": (2, True), "p3": (2, False)}
    assert {name: (copy.rows, copy.purged) for name, copy in archive.table.copies.items()} == expected
    for done in (others.compact, others.expire):
        done()
        assert {name: (copy.rows, copy.purged) for name, copy in archive.table.copies.items()} == expected


@pytest.mark.spark
def test_a_purge_in_format_v3_keeps_stamps_that_only_snapshots_have(archive: Archive) -> None:
    """As earlier versions of Lakewarden left them."""
    archive.copy("p1", {1: PERSON})
    archive.copy("p2", {2: "b@x"})
    others = Others(archive.lake, NAME)
    stamps = [key for key in others.metadata.properties if key.startswith(SEQUENCE)]
    others.sql(f"ALTER TABLE {{t}} UNSET TBLPROPERTIES ({', '.join(map(repr, stamps))})")
    others.upgrade()
    archive.purge()
    assert len(others.snapshots()) == 1
    assert {name: copy.rows for name, copy in archive.table.copies.items()} == {"p1": 0, "p2": 1}


def test_a_purged_partition_whose_other_rows_are_gone_is_missed(archive: Archive) -> None:
    archive.copy("p1", {1: PERSON, 2: "b@x"})
    archive.purge()
    archive.iceberg.delete(f"{PARTITION} == 'p1'")
    archive.expire()
    assert archive.table.lost == {"p1"}


def test_a_partition_is_purged_in_two_steps(archive: Archive) -> None:
    archive.copy("p1", {1: PERSON, 2: "b@x"})
    for value, rows in ((PERSON, 2), ("b@x", 0)):
        archive.purge(value)
        archive.expire()
        assert (archive.table.copies["p1"].rows, archive.table.copies["p1"].purged) == (rows, True)


def test_a_damaged_property_stops_neither_purge_nor_expiry(archive: Archive) -> None:
    """Expiry replaces it by the stamp of the snapshot that goes."""
    filled(archive)
    archive.set_property(f"{SEQUENCE}{SOURCE}.p1", "{")
    archive.purge()
    archive.copy("p4", {7: "g@x"})
    archive.expire_as_retention()
    assert sorted(archive.table.copies) == ["p1", "p2", "p3", "p4"]


def test_an_earlier_copy_is_not_taken_for_a_later_one(archive: Archive) -> None:
    archive.copy("p1", {1: "b@x"})
    first = archive.iceberg.current_snapshot().snapshot_id
    archive.copy("p1", {1: "c@x"}, again=True)
    archive.iceberg.manage_snapshots().set_current_snapshot(first).commit()
    archive.expire()
    assert archive.table.lost == {"p1"}


class TestTheSecondCopyIsOnMainThoughItsSnapshotIsNot:
    """Also if others changed it, as with a first copy: unless main has the rows of an earlier copy."""

    @pytest.fixture(autouse=True)
    def copied_twice(self, archive: Archive) -> None:
        archive.copy("p1", {1: "b@x", 2: "c@x", 3: "d@x"})
        archive.copy("p1", {1: "e@x", 2: "c@x", 3: "d@x"}, again=True)

    def test_others_deleted_a_row(self, archive: Archive) -> None:
        archive.rewrite("p1", {1: "e@x", 3: "d@x"})
        archive.expire()
        assert not archive.table.lost

    @pytest.mark.parametrize("earlier", [{1: "b@x", 2: "c@x", 3: "d@x"}, {1: "e@x", 2: "c@x", 3: "d@x"}])
    def test_main_has_the_rows_of_an_earlier_copy(self, archive: Archive, earlier: dict[int, str]) -> None:
        archive.copy("p1", {1: "f@x", 2: "c@x", 3: "d@x"}, again=True)
        archive.rewrite("p1", earlier)
        archive.expire()
        assert archive.table.lost == {"p1"}

    @pytest.mark.parametrize("column", ["email", "id"])
    def test_others_renamed_a_column(self, archive: Archive, column: str) -> None:
        """Rows are compared in the other columns; without the id they cannot be."""
        archive.rewrite("p1", {1: "e@x", 2: "c@x", 3: "d@x"})
        with archive.iceberg.update_schema() as schema:
            schema.rename_column(column, "renamed")
        archive.expire()
        assert archive.table.lost == ({"p1"} if column == "id" else set())

    def test_it_was_purged_before_it_was_replaced(self, archive: Archive) -> None:
        """Then the rows of earlier copies are not known: only equal rows are those of the copy."""
        archive.purge("e@x")
        archive.copy("p1", {2: "f@x", 3: "d@x"}, again=True)
        archive.rewrite("p1", {2: "f@x", 3: "d@x"})
        archive.expire()
        assert not archive.table.lost
        archive.rewrite("p1", {2: "f@x"})
        archive.expire()
        assert archive.table.lost == {"p1"}

    def test_it_was_replaced_often(self, archive: Archive) -> None:
        """A stamp does not grow without limit."""
        for time in range(8):
            archive.copy("p1", {1: f"{time}@x", 2: "c@x"}, again=True)
        assert archive.table.copies["p1"].replaced == ()
        archive.rewrite("p1", {1: "3@x", 2: "c@x"})
        archive.expire()
        assert archive.table.lost == {"p1"}


def test_copies_whose_snapshots_are_there_need_no_files(archive: Archive) -> None:
    """Other rows in the archive, without a partition, matter to a stamp only once its snapshot has expired."""
    filled(archive)
    archive.iceberg.append(
        pa.table({"id": [9], "email": ["g@x"], PARTITION: [None]}, archive.iceberg.schema().as_arrow())
    )
    assert sorted(archive.table.copies) == ["p1", "p2", "p3"]
    archive.expire()
    with pytest.raises(UnfitDatabase, match="rows that do not say which partition they come from"):
        _ = archive.table.copies


def test_the_line_of_main_is_walked_once_for_all_copies(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(archive)
    walks, read = list[Any](), snapshots._before

    def counted(table: Any) -> Any:
        walks.append(table)
        return read(table)

    monkeypatch.setattr(snapshots, "_before", counted)
    assert len(archive.table.copies) == 3
    assert len(walks) == 1
