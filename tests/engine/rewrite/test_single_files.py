"""Files rewritten each by itself: what leaves them, what stays as it was, and what is believed of the tasks."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.typedef import Record

from lakewarden.engine.commit.abandoned_files import staging_folder
from lakewarden.engine.files.live_files import Files, LiveFile
from lakewarden.engine.files.manifests import Manifests
from lakewarden.engine.files.written_files import delete_file, layout_for, read_footer
from lakewarden.engine.kernel.messages import MIB, Drop
from lakewarden.engine.kernel.task import pack
from lakewarden.engine.rewrite import single_files
from lakewarden.engine.rewrite.driver import Rewriter
from lakewarden.engine.rewrite.single_files import RewrittenFile, shared_out
from lakewarden.engine.storage.storage import Storage
from lakewarden.errors import BrokenTable, VerificationFailed
from tests.engine.lakes import STAMP, Lake, digest, lake, local

__all__ = ["lake"]

PEOPLE = pa.schema([("id", pa.int64()), ("email", pa.string()), ("note", pa.string())])


def no_spark() -> Any:
    raise AssertionError("Spark was started for a little work")


def rewriter(lake: Lake, spark: Callable[[], Any] = no_spark) -> Rewriter:
    ground = lake.warden.ground
    return Rewriter(spark, lake.warden.ground.settings.lake("main"), Storage(ground.stores["main"]))


def people(lake: Lake, appends: int = 3, rows: int = 100, format: int = 2) -> Any:
    """A table of files in which the same ten people are found again and again."""
    lake.catalog.create_namespace_if_not_exists("crm")
    table = lake.catalog.create_table("crm.people", PEOPLE, properties={"format-version": str(format)})
    for start in range(0, appends * rows, rows):
        table.append(
            pa.table(
                {
                    "id": list(range(start, start + rows)),
                    "email": [f"person{at % 10}@example.org" for at in range(rows)],
                    "note": [None if at % 7 == 0 else f"note {at}" for at in range(rows)],
                },
                schema=PEOPLE,
            )
        )
    return table


def live(table: Any, snapshot: Any = None) -> tuple[LiveFile, ...]:
    return Files(Manifests()).of(table, snapshot or table.current_snapshot()).data


def drops(*emails: str, field_id: int = 2) -> list[Drop]:
    return [Drop(field_id, pack(pa.array(emails, pa.string())))]


def each(lake: Lake, table: Any, files: Any, what: list[Drop], **layout: Any) -> dict[str, RewrittenFile]:
    folder = f"{staging_folder(table, STAMP)}/{secrets.token_hex(4)}"
    look = replace(layout_for(table, 512 * MIB, "counts", 512 * MIB), **layout)
    return rewriter(lake).rewrite_each(table, files, what, look, folder, lambda done, whole: None)


def staged(table: Any) -> list[Path]:
    folder = local(staging_folder(table, STAMP))
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_each_file_loses_its_rows_and_nothing_else(lake: Lake) -> None:
    table = people(lake)
    files, before = live(table), digest(lake.folder / "lake")
    found = each(lake, table, files, drops("person3@example.org", "person7@example.org"))
    assert found.keys() == {file.path for file in files}
    for file in files:
        answer = found[file.path]
        old = pq.read_table(local(file.path))
        gone = [at for at, email in enumerate(old["email"].to_pylist()) if email[6] in "37"]
        assert (answer.rows_in, answer.rows_dropped, list(answer.dropped)) == (100, 20, gone)
        assert answer.file is not None
        new = local(answer.file.file_path)
        kept = [at for at in range(100) if at not in set(gone)]
        assert pq.read_table(new).equals(old.take(kept))
        assert answer.sha256_before == hashlib.sha256(local(file.path).read_bytes()).hexdigest()
        assert answer.sha256_after == hashlib.sha256(new.read_bytes()).hexdigest()
        assert answer.file.record_count == 80
        assert answer.file.file_size_in_bytes == new.stat().st_size
        assert answer.file.null_value_counts[3] == sum(at % 7 == 0 for at in kept)
    assert before.items() <= digest(lake.folder / "lake").items()


def test_a_file_all_of_whose_rows_go_leaves_nothing(lake: Lake) -> None:
    table = people(lake, appends=1)
    table.append(pa.table({"id": [1, 2], "email": ["x@y", "x@y"], "note": ["", None]}, schema=PEOPLE))
    found = each(lake, table, live(table), drops("x@y"))
    (emptied,) = [answer for answer in found.values() if answer.file is None]
    assert (emptied.rows_dropped, list(emptied.dropped), emptied.sha256_after) == (2, [0, 1], None)
    assert len(staged(table)) == 1


def test_rows_that_deletes_mask_are_rewritten_too(lake: Lake) -> None:
    """Earlier versions still see them."""
    table = people(lake, appends=1)
    masked = [replace(file, deletes=("unread",)) for file in live(table)]  # type: ignore[arg-type]
    (answer,) = each(lake, table, masked, drops("person1@example.org")).values()
    assert answer.file is not None and answer.file.record_count == 90


def test_each_keeps_its_own_schema(lake: Lake) -> None:
    """Also columns that were dropped, renamed or promoted since: tags of before still have them as they were."""
    table = people(lake, appends=1)
    with table.update_schema() as change:
        change.delete_column("note")
        change.rename_column("email", "mail")
    table.append(pa.table({"id": [500], "mail": ["person1@example.org"]}))
    old, new = sorted(live(table), key=lambda file: -file.rows)
    found = each(lake, table, (old, new), drops("person1@example.org"))
    assert found[new.path].file is None
    file = found[old.path].file
    assert file is not None
    assert pq.read_schema(local(file.file_path)).names == ["id", "email", "note"]
    assert file.lower_bounds[3] == b"note 10" and file.null_value_counts[3] == 13
    assert file.lower_bounds[2] == b"person0@example."


@pytest.mark.parametrize("codec", ["uncompressed", "zstd"])
def test_no_page_or_dictionary_holds_what_was_dropped(lake: Lake, codec: str) -> None:
    table = people(lake, appends=1, rows=20_000)
    (file,) = live(table)
    assert pq.read_metadata(local(file.path)).row_group(0).column(1).has_dictionary_page
    found = each(lake, table, (file,), drops("person4@example.org"), codec=codec)
    new = found[file.path].file
    assert new is not None
    raw = local(new.file_path).read_bytes()
    assert b"person4@" not in raw
    chunk = pq.read_metadata(local(new.file_path)).row_group(0).column(1)
    assert chunk.has_dictionary_page
    if codec == "uncompressed":
        assert raw.count(b"person5@example.org") >= 1
        return
    decoded = pq.read_table(local(new.file_path), read_dictionary=["email"])["email"]
    words = {word for part in decoded.chunks for word in part.dictionary.to_pylist()}
    assert words == {f"person{at}@example.org" for at in range(10) if at != 4}


def test_bounds_close_in_on_what_is_left(lake: Lake) -> None:
    table = people(lake, appends=1)
    found = each(lake, table, live(table), drops("person0@example.org", "person9@example.org"))
    (answer,) = found.values()
    assert answer.file is not None
    assert (answer.file.lower_bounds[2], answer.file.upper_bounds[2]) == (b"person1@example.", b"person8@example/")


def test_a_table_of_format_1(lake: Lake) -> None:
    table = people(lake, appends=1, format=1)
    (answer,) = each(lake, table, live(table), drops("person0@example.org")).values()
    assert answer.file is not None and answer.file.record_count == 90


def test_nothing_is_left_where_a_file_is_damaged(lake: Lake) -> None:
    table = people(lake)
    files = live(table)
    local(files[1].path).write_bytes(b"PAR1 no more PAR1")
    with pytest.raises(BrokenTable, match="Nothing was changed|parquet"):
        each(lake, table, files, drops("person1@example.org"))
    assert staged(table) == []


def test_metadata_that_counts_other_rows_is_noticed(lake: Lake) -> None:
    table = people(lake, appends=1)
    with pytest.raises(BrokenTable, match="has 100 rows"):
        each(lake, table, [replace(file, rows=99) for file in live(table)], drops("person1@example.org"))
    assert staged(table) == []


def test_a_task_that_lost_rows_is_not_believed(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    from lakewarden.engine.kernel import task

    def lose(*task: Any) -> Any:
        report = honest(*task)
        return replace(report, dropped={path: places[1:] for path, places in report.dropped.items()})

    honest = task.rewrite
    monkeypatch.setattr(task, "rewrite", lose)
    table = people(lake)
    with pytest.raises(VerificationFailed, match="9 of 100 rows of a file were to be dropped, but 90"):
        each(lake, table, live(table), drops("person1@example.org"))
    assert staged(table) == []


def test_nothing_to_do(lake: Lake) -> None:
    table = people(lake, appends=1)
    assert each(lake, table, (), drops("a")) == {}


@given(sizes=st.lists(st.integers(0, 300 * MIB), min_size=1, max_size=60), tasks=st.none() | st.integers(1, 9))
def test_sharing_out(sizes: list[int], tasks: int | None) -> None:
    """Every file in one group only, none of them empty, and none much larger than its share."""
    files: Any = [replace(_BLANK, path=f"f{at}", bytes=size, rows=at) for at, size in enumerate(sizes)]
    groups = shared_out(files, (), "out", tasks)
    assert sorted(input_.path for group in groups for input_ in group.inputs) == sorted(file.path for file in files)
    assert all(group.inputs for group in groups)
    assert [group.number for group in groups] == list(range(len(groups)))
    assert tasks is None or len(groups) <= tasks
    loads = [sum(sizes[int(input_.path[1:])] for input_ in group.inputs) for group in groups]
    assert max(loads) <= sum(sizes) / len(groups) + max(sizes) + len(sizes)


_BLANK = LiveFile("", "", bytes=0, rows=0, partition=(0, ()), record=Record(), sequence=0, format="parquet")


def test_much_work_and_strange_places_go_to_spark(lake: Lake) -> None:
    settings = lake.warden.ground.settings.lake("main")
    here = replace(_BLANK, path="file:/a.parquet", bytes=single_files.HERE_BYTES)
    assert single_files.fits_here([here], "file:/out", settings)
    assert not single_files.fits_here([here, replace(here, bytes=1)], "file:/out", settings)
    assert not single_files.fits_here([replace(here, bytes=0)] * (single_files.HERE_FILES + 1), "file:/out", settings)
    assert not single_files.fits_here([replace(here, path="hdfs://n/a", bytes=1)], "file:/out", settings)
    assert not single_files.fits_here([replace(here, path="s3://b/a", bytes=1)], "s3://b/out", settings)  # no keys


def test_the_entry_of_rewritten_equality_deletes(lake: Lake, tmp_path: Path) -> None:
    """Same kind, same columns, same place among the partitions; statistics of what is left."""
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestEntry, ManifestEntryStatus

    from lakewarden.engine.files.live_files import _delete_files, _Shared

    table = people(lake, appends=1)
    field = pa.field("email", pa.string(), metadata={"PARQUET:field_id": "2"})
    path = tmp_path / "deletes.parquet"
    pq.write_table(pa.table([["b", "c"]], schema=pa.schema([field])), path, store_schema=False)
    old = DataFile.from_args(
        content=DataFileContent.EQUALITY_DELETES,
        file_path="old",
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=3,
        file_size_in_bytes=1,
        equality_ids=[2],
        sort_order_id=0,
        lower_bounds={2: b"a"},
    )
    old.spec_id = 0
    entry = ManifestEntry.from_args(
        status=ManifestEntryStatus.EXISTING, snapshot_id=1, sequence_number=4, file_sequence_number=4, data_file=old
    )
    footer = read_footer(lake.warden.ground.storage("main"), str(path))
    (like,) = _delete_files(_Shared(), [entry], "m")
    new = delete_file(table, footer, {}, like)
    assert (new.content, new.equality_ids, new.sort_order_id) == (DataFileContent.EQUALITY_DELETES, [2], 0)
    assert (new.record_count, new.lower_bounds, new.spec_id) == (2, {2: b"b"}, 0)
    assert new.file_size_in_bytes == path.stat().st_size


@pytest.mark.spark
def test_on_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same by Spark's tasks, several files in one."""
    from tests.small_lake import SmallLake

    with SmallLake(tmp_path / "lake") as small:
        holder = Lake.__new__(Lake)
        holder.folder, holder.warden = tmp_path / "lake", small.warden
        table = people(holder, appends=5)
        files, what = live(table), drops("person3@example.org")
        monkeypatch.setattr(single_files, "HERE_BYTES", 0)
        folder = f"{staging_folder(table, STAMP)}/spark"
        look = layout_for(table, 512 * MIB, "counts", 512 * MIB)
        by_spark = rewriter(holder, lambda: small.warden.ground.spark)
        found = by_spark.rewrite_each(table, files, what, look, folder, lambda done, whole: None)
        assert len(staged(table)) == 5
        for file in files:
            answer = found[file.path]
            assert answer.file is not None
            kept = pq.read_table(local(answer.file.file_path))
            old = pq.read_table(local(file.path)).to_pylist()
            assert kept.to_pylist() == [row for row in old if row["email"] != "person3@example.org"]
            assert answer.sha256_after == hashlib.sha256(local(answer.file.file_path).read_bytes()).hexdigest()
