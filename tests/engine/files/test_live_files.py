"""What is live, and which deletes apply to what."""

from __future__ import annotations

from typing import Any

import pytest
from pyiceberg.typedef import Record

from lakewarden.engine.files.live_files import DeleteFile, LiveFile, _with_deletes
from tests.engine.lakes import Lake, lake
from tests.features.compaction.compacted import Compactable
from tests.small_lake import SmallLake

__all__ = ["lake"]


def data(path: str = "a", sequence: int = 5, added: int = 5, partition: Any = (0, ("p",))) -> LiveFile:
    return LiveFile("m", path, 100, 10, partition, Record(), sequence, "parquet", added_in=added)


def delete(sequence: int = 6, partition: Any = (0, ("p",)), **told: Any) -> DeleteFile:
    lowest, highest = told.pop("bounds", (None, None))
    usual = {"format": "parquet", "only_for": None, "is_equality": False, "is_vector": False}
    bounds = {"lowest": lowest, "highest": highest}
    return DeleteFile("m", "d", 10, 1, partition, Record(), sequence, **{**usual, **bounds, **told})


@pytest.mark.parametrize(
    ("one", "applies"),
    [
        (delete(), True),
        (delete(sequence=5), True),
        (delete(sequence=4), False),
        (delete(partition=(0, ("q",))), False),
        (delete(partition=(1, ("p",))), False),
        (delete(only_for="a"), True),
        (delete(only_for="b"), False),
        (delete(only_for="a", sequence=4), False),
        (delete(only_for="a", partition=(0, ("q",))), True),
        (delete(bounds=(b"a", b"a")), True),
        (delete(bounds=(b"b", b"c")), False),
        (delete(bounds=(b"0", b"Z")), False),
        (delete(is_equality=True), True),
        (delete(is_equality=True, sequence=5), False),
        (delete(is_equality=True, partition=(0, ("q",))), False),
        (delete(is_equality=True, partition=(3, ())), True),
        (delete(is_equality=True, partition=(3, (None,))), True),
        (delete(partition=(3, ())), False),
    ],
)
def test_what_a_delete_may_apply_to(one: DeleteFile, applies: bool) -> None:
    assert one.may_apply(data()) is applies


def test_a_file_that_was_added_after_a_delete_is_not_meant_by_it() -> None:
    """Rewritten files keep the sequence number of their rows, and yet have other positions."""
    assert delete(sequence=6).may_apply(data(sequence=5, added=6))
    assert not delete(sequence=6).may_apply(data(sequence=5, added=7))
    assert delete(sequence=6, is_equality=True).may_apply(data(sequence=5, added=7))


def test_deletes_whose_rows_cannot_be_read_here_are_thought_to_apply() -> None:
    unread, other = delete(format="orc"), data("b", partition=(0, ("q",)))
    assert unread.is_guessed and not delete().is_guessed and not delete(format="puffin", only_for="a").is_guessed
    found = list(_with_deletes([data(), other], [unread], {}))
    assert [file.deletes_identity for file in found] == [frozenset({"d"}), frozenset()]


def test_a_vector_is_known_by_its_data_file_too() -> None:
    vectors = [delete(only_for=path, is_vector=True, format="puffin") for path in ("a", "b")]
    assert len({vector.identity for vector in vectors}) == 2
    assert delete().identity == "d"


def test_a_table_without_versions_has_no_files(lake: Lake) -> None:
    table = lake.create(appends=0)
    files = lake.warden.ground.files.of(table, table.current_snapshot())
    assert (files.data, files.deletes, files.dangling()) == ((), (), [])


@pytest.mark.spark
def test_deletes_of_a_partition_by_what_they_hold(tmp_path: Any) -> None:
    with SmallLake(tmp_path / "lake") as small:
        small.warden.ground.spark.sql("CREATE NAMESPACE main.db")
        table = Compactable(small, "db.t")
        table.sql(
            "CREATE TABLE {t} (id BIGINT) USING iceberg TBLPROPERTIES ('format-version' = '2', "
            "'write.delete.mode' = 'merge-on-read', 'write.delete.granularity' = 'partition')"
        )
        for start in (0, 10, 20):
            table.sql(f"INSERT INTO {{t}} SELECT id FROM range({start}, {start + 10}, 1, 1)")
        table.sql("DELETE FROM {t} WHERE id IN (1, 2, 11)")
        files = table.files
        (one,) = files.deletes
        assert sorted(files.masked(file) for file in files.data) == [0, 1, 2]
        assert [len(file.deletes) for file in sorted(files.data, key=lambda file: -files.masked(file))] == [1, 1, 0]
        hit = [file.path for file in files.data if file.deletes]
        assert files.dangling() == []
        assert files.dangling(hit[:1]) == []
        assert files.dangling(hit) == [one]
