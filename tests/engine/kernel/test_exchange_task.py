"""The exchange: rows are written once, under their own number, whatever tasks they came from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.engine.kernel.exchange_task import Piece, Slice, Spread, gather, packed, spread
from lakewarden.engine.kernel.messages import Access, GroupReport
from tests.engine.kernel_files import field, layout
from tests.examples import examples

ROWS = pa.schema(
    [
        field("id", pa.int64(), 1),
        field("text", pa.string(), 2),
        field("value", pa.float64(), 3),
        field("tags", pa.list_(field("element", pa.string(), 5)), 4),
    ]
)
SENT = pa.schema([*(each.remove_metadata() for each in ROWS), pa.field("number", pa.int32(), nullable=False)])
NARROW = 8 * 256  # bytes of a task: 256 of rows are buffered


def batch(rows: Sequence[tuple[int, int]]) -> Any:
    """Rows by id and number, as Spark sends them."""
    content = [
        {"id": id, "text": f"text {id}", "value": float("nan") if id % 3 else id / 2, "tags": [str(id)] * (id % 3)}
        for id, _ in rows
    ]
    table = pa.Table.from_pylist(content, schema=pa.schema(list(SENT)[:-1]))
    numbers = pa.array([number for _, number in rows], pa.int32())
    return pa.RecordBatch.from_arrays([*table.combine_chunks().to_batches()[0].columns, numbers], schema=SENT)


def spread_out(folder: Path, batches: Sequence[Any], memory: int = 512 << 20) -> Spread:
    (report,) = spread(str(folder), memory, Access())(batches)
    return Spread.from_json(report.column(0)[0].as_py())


def gathered(folder: Path, spreads: Sequence[Spread], **options: Any) -> list[GroupReport]:
    """What one task makes of all slices."""
    by_number: dict[int, list[Slice]] = {}
    for each in (each for task in spreads for each in task.slices):
        by_number.setdefault(each.number, []).append(each)
    pieces = [Piece(number, tuple(slices)) for number, slices in sorted(by_number.items())]
    schema = next(task.schema for task in spreads if task.schema)
    task = gather(schema, str(folder), layout(ROWS, **options), Access())
    (reports,) = task([pa.record_batch({"pieces": [packed(pieces)]})])
    return [GroupReport.from_json(report) for report in reports.column(0).to_pylist()]


def ids(reports: Sequence[GroupReport]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for report in reports:
        for output in report.outputs:
            found.setdefault(report.number, []).extend(pq.read_table(output.path)["id"].to_pylist())
    return {number: sorted(some) for number, some in found.items()}


@examples(60)
@given(
    tasks=st.lists(
        st.lists(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 7)), min_size=1, max_size=12), max_size=4),
        min_size=1,
        max_size=4,
    )
)
def test_each_row_is_written_once_under_its_number(
    tmp_path_factory: pytest.TempPathFactory, tasks: list[list[list[tuple[int, int]]]]
) -> None:
    folder = tmp_path_factory.mktemp("exchange")
    spreads = [spread_out(folder, [batch(rows) for rows in batches], NARROW) for batches in tasks]
    expected: dict[int, list[int]] = {}
    for id, number in (row for batches in tasks for rows in batches for row in rows):
        expected.setdefault(number, []).append(id)
    if not expected:
        assert not any(task.slices for task in spreads)
        return
    reports = gathered(folder, spreads)
    assert ids(reports) == {number: sorted(some) for number, some in expected.items()}
    for report in reports:
        assert report.rows_in == report.rows_out == len(expected[report.number])
        nans = sum(output.nans[3] for output in report.outputs)
        assert nans == sum(bool(id % 3) for id in expected[report.number])


def test_rows_keep_their_values_and_get_the_field_ids(tmp_path: Path) -> None:
    sent = batch([(1, 1), (2, 0), (3, 1)])
    (first, second) = gathered(tmp_path, [spread_out(tmp_path, [sent])])
    found = pq.read_table(second.outputs[0].path)
    assert found.schema.remove_metadata().equals(pa.schema(list(SENT)[:-1]), check_metadata=False)
    assert [int(column.metadata[b"PARQUET:field_id"]) for column in found.schema] == [1, 2, 3, 4]
    assert found.column("text").to_pylist() == ["text 1", "text 3"]
    assert found.column("tags").to_pylist() == [["1"], []]
    assert first.nulls == {1: 0, 2: 0, 3: 0}


def test_a_large_number_of_rows_becomes_several_row_groups_and_files(tmp_path: Path) -> None:
    rows = [
        spread_out(tmp_path, [batch([(id, 0) for id in range(start, start + 500)])]) for start in range(0, 4000, 500)
    ]
    (report,) = gathered(tmp_path, rows, row_group_bytes=4 << 10, target_bytes=8 << 10)
    assert len(report.outputs) > 1 and max(output.row_groups for output in report.outputs) > 1
    assert ids([report]) == {0: list(range(4000))}


def test_a_dictionary_is_for_columns_whose_values_come_again(tmp_path: Path) -> None:
    many = batch([(id, 0) for id in range(400)])
    few = many.set_column(1, "text", pa.array(["north", "south"] * 200))
    (report,) = gathered(tmp_path, [spread_out(tmp_path, [few])])
    group = pq.read_metadata(report.outputs[0].path).row_group(0)
    encodings = {group.column(place).path_in_schema: group.column(place).encodings for place in range(3)}
    assert "RLE_DICTIONARY" in encodings["text"] and "RLE_DICTIONARY" not in encodings["id"]


def test_a_small_piece_does_not_decide_for_larger_ones(tmp_path: Path) -> None:
    rows = batch([(0, 0), *((id, 1) for id in range(1, 4001))])
    few = rows.set_column(1, "text", pa.array(["one", *["north", "south"] * 2000]))
    (_, report) = gathered(tmp_path, [spread_out(tmp_path, [few])])
    column = pq.read_metadata(report.outputs[0].path).row_group(0).column(1)
    assert column.path_in_schema == "text" and "RLE_DICTIONARY" in column.encodings


def test_problems_with_files_are_reported_and_leave_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    failed = spread_out(tmp_path / "file", [batch([(1, 0)])])
    assert failed.failure is not None and failed.failure.kind == "unwritable" and not failed.slices
    spread_here = spread_out(tmp_path / "rows", [batch([(1, 0), (2, 1)])])
    (one, other) = spread_here.slices
    gone = replace(spread_here, slices=(one, replace(other, path=f"{other.path}.gone")))
    first, second = gathered(tmp_path / "out", [gone])
    assert first.failure is None and second.failure is not None
    assert (second.failure.kind, second.failure.file) == ("missing", f"{other.path}.gone")
    short = replace(spread_here, slices=(replace(one, rows=one.rows + 1),))
    (report,) = gathered(tmp_path / "out", [short])
    assert report.failure is not None and report.failure.kind == "rows"
    assert [path.name for path in (tmp_path / "out").iterdir()] == [Path(first.outputs[0].path).name]


def test_errors_of_the_query_are_its_own(tmp_path: Path) -> None:
    def failing() -> Any:
        yield batch([(1, 0)] * 100)
        raise ValueError("of the query")

    with pytest.raises(ValueError, match="of the query"):
        list(spread(str(tmp_path), NARROW, Access())(failing()))
    assert list(tmp_path.iterdir()) == []


def test_a_task_without_rows_writes_nothing(tmp_path: Path) -> None:
    assert spread_out(tmp_path, []) == Spread()
    assert list(tmp_path.iterdir()) == []
