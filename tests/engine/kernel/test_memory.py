"""A rewrite task keeps within its memory, whatever the files are like. Each runs in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from lakewarden.engine.kernel.messages import GroupReport, Input
from tests.cases import in_soak
from tests.engine.kernel_files import numbered

BOUND = 512 << 20
CODE = """
import json, sys
import pyarrow.parquet as pq
from lakewarden.engine.kernel.messages import Access, Group, Input, Layout
from lakewarden.engine.kernel.task import rewrite

given = json.load(sys.stdin)
inputs = tuple(Input(path, rows, tuple(deletes)) for path, rows, deletes in given["inputs"])
schema = pq.read_schema(inputs[0].path).serialize().to_pybytes()
layout = Layout(schema, memory_bytes=given["memory"], verify=given["verify"])
print(rewrite(Group(0, inputs, given["folder"]), layout, Access()).to_json())
"""


def numbers(rows: int) -> Any:
    return pc.random(rows, initializer=rows)


def texts(rows: int, length: int) -> Any:
    """All different, and not easily compressed."""
    digits = pc.cast(pc.round(pc.multiply(numbers(rows), 1e15)), pa.int64()).cast(pa.string())
    return pc.utf8_slice_codeunits(pc.binary_repeat(digits, 1 + length // 15), 0, length)


def mixed(rows: int, columns: int) -> Any:
    """Columns of six kinds, side by side."""
    kinds = [
        pc.cast(pc.round(pc.multiply(numbers(rows), 1e12)), pa.int64()),
        numbers(rows),
        texts(rows, 24),
        pc.utf8_slice_codeunits(texts(rows, 3), 0, 3),
        pc.cast(pc.round(pc.multiply(numbers(rows), 100)), pa.int32()),
        pc.less(numbers(rows), 0.5),
    ]
    table = pa.table({f"column {at}": kinds[at % 6] for at in range(columns)})
    return table.cast(numbered(table.schema))


def wide(folder: Path) -> Iterator[Path]:
    """Three hundred columns, row groups of a hundred MB and more."""
    yield write(folder, [mixed(30_000, 300)] * 3)


def wide_and_high(folder: Path) -> Iterator[Path]:
    """Three hundred columns in one row group, larger than what a task may take for its rows."""
    yield write(folder, [pa.concat_tables([mixed(30_000, 300)] * 3)])


def very_wide(folder: Path) -> Iterator[Path]:
    yield write(folder, [mixed(10_000, 1000)])


def one_row_group(folder: Path) -> Iterator[Path]:
    """A row group that is larger than the bound."""
    yield write(folder, [pa.concat_tables([mixed(1_000_000, 6)] * 10)], compression="none")


def hidden_texts(folder: Path) -> Iterator[Path]:
    """Long texts from a small dictionary: a few bytes on disk, a gigabyte in memory. The first rows have none."""
    words = pa.array([""] + [f"{at} " * 700 for at in range(19)])
    indices = pa.concat_arrays([pa.repeat(0, 2000), pa.array(range(600_000))])
    indices = pc.subtract(indices, pc.multiply(pc.divide(indices, 20), 20)).cast(pa.int32())
    table = pa.table({"text": pa.DictionaryArray.from_arrays(indices, words)})
    yield write(folder, [table.cast(numbered(table.schema))])


def large_values(folder: Path) -> Iterator[Path]:
    one = texts(1, 1 << 20)[0].as_py().encode()
    table = pa.table({"id": range(300), "content": [one] * 300})
    yield write(folder, [table.cast(numbered(table.schema))], write_batch_size=1, use_dictionary=False)


def many_small(folder: Path) -> Iterator[Path]:
    yield from [write(folder, [mixed(20_000, 30)])] * 40


def write(folder: Path, row_groups: list[Any], **options: Any) -> Path:
    path = folder / "0.parquet"
    chosen: dict[str, Any] = {"compression": "zstd", "store_schema": False} | options
    with pq.ParquetWriter(path, row_groups[0].schema, **chosen) as writer:
        for table in row_groups:
            writer.write_table(table, row_group_size=table.num_rows)
    return path


def measured(folder: Path, inputs: list[Input], memory: int = BOUND, verify: str = "counts") -> GroupReport:
    given = {
        "inputs": [(input_.path, input_.rows, input_.deletes) for input_ in inputs],
        "folder": str(folder / "out"),
        "memory": memory,
        "verify": verify,
    }
    command = [sys.executable, "-c", CODE]
    ran = subprocess.run(command, input=json.dumps(given), capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    report = GroupReport.from_json(ran.stdout)
    assert report.failure is None
    return report


@pytest.mark.slow
@pytest.mark.parametrize(
    "files", [wide, hidden_texts, *in_soak(wide_and_high, very_wide, one_row_group, large_values, many_small)]
)
def test_a_task_keeps_within_its_memory(tmp_path: Path, files: Callable[[Path], Iterator[Path]]) -> None:
    inputs = [Input(str(path), pq.read_metadata(path).num_rows) for path in files(tmp_path)]
    report = measured(tmp_path, inputs)
    assert report.rows_out == sum(input_.rows for input_ in inputs)
    assert report.peak_bytes < BOUND


@pytest.mark.slow
@pytest.mark.soak
def test_reading_back_keeps_within_it_too(tmp_path: Path) -> None:
    inputs = [Input(str(path), pq.read_metadata(path).num_rows) for path in wide(tmp_path)]
    report = measured(tmp_path, inputs, verify="full")
    assert report.checksum_in == report.checksum_out
    assert report.peak_bytes < BOUND


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Input:
    """Eight million rows in one file."""
    path = write(tmp_path_factory.mktemp("long"), [mixed(1_000_000, 4)] * 8)
    return Input(str(path), 8_000_000)


@pytest.mark.slow
@pytest.mark.soak
def test_a_smaller_bound_is_kept_as_well(tmp_path: Path, long: Input) -> None:
    """And the bound is what does it: with more, the same task takes more."""
    small, large = (measured(tmp_path, [long], memory=megabytes << 20) for megabytes in (256, 1024))
    assert small.peak_bytes < 256 << 20 < large.peak_bytes < 1024 << 20
    assert large.outputs[0].row_groups < small.outputs[0].row_groups


@pytest.mark.slow
@pytest.mark.soak
def test_position_deletes_take_a_bit_a_row(tmp_path: Path, long: Input) -> None:
    """Seven million of them: as numbers, held and sorted, they would not fit."""
    schema = pa.schema([("file_path", pa.string()), ("pos", pa.int64())])
    step = 1_000_000
    with pq.ParquetWriter(tmp_path / "deletes.parquet", schema) as writer:
        for start in range(0, long.rows, step):
            positions = pa.array(range(start, start + step))
            table = pa.table([pa.repeat(long.path, step), positions], schema=schema)
            writer.write_table(table.filter(pc.not_equal(pc.bit_wise_and(positions, 7), 0)))
    masked = replace(long, deletes=(str(tmp_path / "deletes.parquet"),))
    report = measured(tmp_path, [masked], memory=256 << 20)
    assert (report.rows_masked, report.rows_out) == (7_000_000, 1_000_000)
    assert report.peak_bytes < 256 << 20
