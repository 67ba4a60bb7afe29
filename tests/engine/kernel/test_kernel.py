"""The rewrite task, in this process and by value: what goes in comes out, but for what is masked or dropped."""

from __future__ import annotations

import math
import struct
import subprocess
import sys
import uuid
from dataclasses import replace
from datetime import UTC, date, datetime, time
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import fs

from lakewarden.engine.kernel.checksum import Checksum, checksum_of_file
from lakewarden.engine.kernel.memory import Budget
from lakewarden.engine.kernel.messages import (
    Access,
    Bloom,
    Drop,
    Failure,
    Group,
    GroupReport,
    Input,
    Output,
    RewriteFault,
)
from lakewarden.engine.kernel.reading import ParquetInput
from lakewarden.engine.kernel.schema import Projection
from lakewarden.engine.kernel.storage import TaskStorage
from lakewarden.engine.kernel.task import pack, parts, rewrite, run_task
from lakewarden.engine.kernel.writing import DictionaryVotes, Outputs
from tests.engine.kernel_files import delete_file, done, field, layout, numbered, run, write, written
from tests.examples import examples

ORDERS = numbered(pa.schema([("id", pa.int64()), ("city", pa.string()), ("amount", pa.float64())]))
NAN_WITH_PAYLOAD = struct.unpack("<d", struct.pack("<Q", 0x7FF8_0000_0000_0123))[0]
EVERYTHING = numbered(
    pa.schema(
        [
            pa.field("long", pa.int64(), nullable=False),
            ("int", pa.int32()),
            ("flag", pa.bool_()),
            ("single", pa.float32()),
            ("double", pa.float64()),
            ("small", pa.decimal128(9, 2)),
            ("middle", pa.decimal128(18, 4)),
            ("large", pa.decimal128(38, 10)),
            ("day", pa.date32()),
            ("clock", pa.time64("us")),
            ("local", pa.timestamp("us")),
            ("moment", pa.timestamp("us", "UTC")),
            ("text", pa.string()),
            ("bytes", pa.binary()),
            ("fixed", pa.binary(5)),
            ("uuid", pa.uuid()),
            ("place", pa.struct([("street", pa.string()), ("tags", pa.list_(pa.string()))])),
            ("numbers", pa.list_(pa.int32())),
            ("scores", pa.map_(pa.string(), pa.struct([("value", pa.float64())]))),
        ]
    )
)
EVERY_ROW: list[dict[str, Any]] = [
    {
        "long": 2**63 - 1,
        "int": -(2**31),
        "flag": True,
        "single": 1.5,
        "double": -0.0,
        "small": Decimal("-1234567.89"),
        "middle": Decimal("12345678901234.5678"),
        "large": Decimal("1234567890123456789012345678.0123456789"),
        "day": date(1969, 12, 31),
        "clock": time(23, 59, 59, 999999),
        "local": datetime(1900, 1, 1, 1, 1, 1, 1),
        "moment": datetime(2300, 1, 1, tzinfo=UTC),
        "text": "Zürich \U0001f3d4",
        "bytes": b"\x00\xff",
        "fixed": b"12345",
        "uuid": uuid.UUID(int=2**127 + 5),
        "place": {"street": None, "tags": ["a", None, ""]},
        "numbers": [],
        "scores": [("a", {"value": math.inf}), ("b", None)],
    },
    {"long": 0, "double": math.nan, "single": math.nan, "place": None, "numbers": None, "scores": None},
    {"long": 1, "double": NAN_WITH_PAYLOAD, "text": "", "bytes": b"", "place": {"street": "x", "tags": None}},
    {"long": 2, "numbers": [1, None, 3], "scores": [], "place": {"street": "y", "tags": []}},
]


def orders(start: int, rows: int) -> Any:
    """Rows that tell where they come from."""
    ids = range(start, start + rows)
    return pa.table([ids, [f"city {at % 7}" for at in ids], [math.sin(at) for at in ids]], schema=ORDERS)


def footer(path: str) -> Any:
    return pq.read_metadata(path)


def parquet_schema(path: str) -> str:
    """Names, physical and logical types and field ids, as Parquet tells them."""
    return str(footer(path).schema).partition("\n")[2]


def encodings(path: str) -> list[set[str]]:
    """Of each column's pages."""
    row_group = footer(path).row_group(0)
    return [set(row_group.column(at).encodings) - {"RLE"} for at in range(row_group.num_columns)]


class TestMerging:
    def test_rows_come_out_as_they_went_in(self, tmp_path: Path) -> None:
        inputs = [write(tmp_path / f"{at}.parquet", orders(at * 100, 100), row_group_size=30) for at in range(5)]
        report = run(tmp_path, inputs, layout(ORDERS))
        assert done(report).equals(orders(0, 500))
        (output,) = report.outputs
        assert (report.number, report.rows_in, report.rows_masked, report.rows_dropped) == (7, 500, 0, 0)
        assert (output.rows, output.row_groups, output.source) == (500, 1, None)
        assert output.bytes == Path(output.path).stat().st_size

    def test_outputs_are_plain_parquet_with_field_ids(self, tmp_path: Path) -> None:
        report = run(tmp_path, [write(tmp_path / "a.parquet", orders(0, 100))], layout(ORDERS))
        (output,) = report.outputs
        found = footer(output.path)
        assert found.schema.to_arrow_schema().equals(ORDERS, check_metadata=True)
        assert (found.format_version, found.metadata) == ("2.6", None)  # no Arrow schema
        chunk = found.row_group(0).column(0)
        assert (chunk.compression, chunk.has_offset_index, chunk.has_column_index) == ("ZSTD", True, True)
        assert (chunk.statistics.min, chunk.statistics.max, chunk.statistics.null_count) == (0, 99, 0)
        content = Path(output.path).read_bytes()
        assert content.startswith(b"PAR1") and content.endswith(b"PAR1") and content.count(b"PAR1") == 2

    def test_two_attempts_write_different_names(self, tmp_path: Path) -> None:
        inputs = [write(tmp_path / "a.parquet", orders(0, 10))]
        names = {Path(run(tmp_path, inputs, layout(ORDERS)).outputs[0].path).name for _ in range(2)}
        assert len(names) == 2
        assert all(name.startswith("00007-000-") for name in names)

    def test_files_roll_over_at_their_target(self, tmp_path: Path) -> None:
        inputs = [write(tmp_path / f"{at}.parquet", orders(at * 5000, 5000)) for at in range(10)]
        look = layout(ORDERS, row_group_bytes=64 << 10, target_bytes=100 << 10)
        report = run(tmp_path, inputs, look)
        assert done(report).equals(orders(0, 50_000))
        assert len(report.outputs) > 2
        assert all(100 << 10 <= output.bytes < 300 << 10 for output in report.outputs[:-1])
        assert [Path(output.path).name[:10] for output in report.outputs[:2]] == ["00007-000-", "00007-001-"]
        assert sum(footer(output.path).num_row_groups for output in report.outputs) > len(report.outputs)

    def test_row_groups_are_as_large_as_the_table_says(self, tmp_path: Path) -> None:
        inputs = [write(tmp_path / f"{at}.parquet", orders(at * 20_000, 20_000)) for at in range(20)]
        (output,) = run(tmp_path, inputs, layout(ORDERS, row_group_bytes=1 << 20)).outputs
        sizes = [footer(output.path).row_group(at).total_byte_size for at in range(output.row_groups)]
        assert output.row_groups > 2
        assert all(size > 500_000 for size in sizes[1:-1])

    def test_a_location_with_a_scheme_and_odd_letters(self, tmp_path: Path) -> None:
        folder = tmp_path / "day=2026-01-01 %20#a?b"
        folder.mkdir()
        write(folder / "a.parquet", orders(0, 10))
        group = Group(0, (Input(f"file://{folder}/a.parquet", 10),), f"file:{folder}/new/")
        (output,) = rewrite(group, layout(ORDERS), Access()).outputs
        assert output.path.startswith(f"file:{folder}/new/00000-000-")
        assert pq.ParquetFile(output.path.removeprefix("file:")).read().equals(orders(0, 10))

    def test_no_rows_no_files(self, tmp_path: Path) -> None:
        report = run(tmp_path, [write(tmp_path / "a.parquet", orders(0, 0))], layout(ORDERS, verify="full"))
        assert (report.failure, report.outputs, written(tmp_path)) == (None, (), [])

    def test_arrow_allocates_as_before_afterwards(self, tmp_path: Path) -> None:
        before = pa.default_memory_pool().backend_name
        run(tmp_path, [write(tmp_path / "a.parquet", orders(0, 10))], layout(ORDERS))
        assert pa.default_memory_pool().backend_name == before != "system"


class TestTypes:
    @pytest.mark.parametrize("use_dictionary", [True, False])
    @pytest.mark.parametrize("own", [True, False])
    def test_every_type_keeps_its_values_and_its_parquet_type(
        self, tmp_path: Path, own: bool, use_dictionary: bool
    ) -> None:
        table = pa.Table.from_pylist(EVERY_ROW, schema=EVERYTHING)
        input_ = write(tmp_path / "a.parquet", table, use_dictionary=use_dictionary, store_decimal_as_integer=True)
        report = run(tmp_path, [input_], layout(None if own else EVERYTHING, verify="full"))
        assert repr(done(report).to_pylist()) == repr(table.to_pylist())
        assert parquet_schema(report.outputs[0].path) == parquet_schema(input_.path)
        assert report.checksum_in is not None and report.checksum_in == report.checksum_out
        bits = [struct.pack("<d", value) for value in done(report)["double"].drop_null().to_pylist()]
        assert bits == [struct.pack("<d", value) for value in (-0.0, math.nan, NAN_WITH_PAYLOAD)]

    def test_nulls_are_counted_by_field_id(self, tmp_path: Path) -> None:
        table = pa.Table.from_pylist(EVERY_ROW, schema=EVERYTHING)
        inputs = [write(tmp_path / f"{at}.parquet", table) for at in range(2)]
        nulls = run(tmp_path, inputs, layout(EVERYTHING)).nulls
        flat = [column for column in EVERYTHING if not pa.types.is_nested(column.type)]
        ids = [int(column.metadata[b"PARQUET:field_id"]) for column in flat]
        assert nulls == {at: 2 * table[column.name].null_count for at, column in zip(ids, flat, strict=True)}
        assert nulls[ids[0]] == 0 and nulls[ids[1]] == 6

    def test_moments_of_the_old_kind(self, tmp_path: Path) -> None:
        moments = [datetime(1800, 2, 3, 4, 5, 6, 7, tzinfo=UTC), None, datetime(2400, 1, 1, tzinfo=UTC)]
        schema = numbered(pa.schema([("at", pa.timestamp("us", "UTC"))]))
        table = pa.table([moments], schema=schema)
        inputs = [write(tmp_path / "a.parquet", table, use_deprecated_int96_timestamps=True)]
        assert footer(inputs[0].path).schema.column(0).physical_type == "INT96"
        for target in (schema, None):
            report = run(tmp_path, inputs, layout(target, verify="full"))
            assert done(report).equals(table)

    @pytest.mark.parametrize("kind", ["large", "dictionary", "view"])
    def test_what_arrow_writers_remember_of_their_types_does_not_matter(self, tmp_path: Path, kind: str) -> None:
        types = {"large": pa.large_string(), "dictionary": pa.dictionary(pa.int32(), pa.string())}
        odd = ORDERS.set(1, field("city", types.get(kind, pa.string_view()), 2))
        inputs = [write(tmp_path / "a.parquet", orders(0, 100).cast(odd), store_schema=True)]
        assert pq.ParquetFile(inputs[0].path).schema_arrow.field(1).type == odd.field(1).type
        assert done(run(tmp_path, inputs, layout(ORDERS, verify="full"))).equals(orders(0, 100))


class TestEvolution:
    def test_columns_are_found_by_id(self, tmp_path: Path) -> None:
        old = pa.schema(
            [
                field("id", pa.int32(), 1),
                field("city", pa.string(), 2),
                field("gone", pa.string(), 3),
                field("amount", pa.float32(), 4),
                field("price", pa.decimal128(9, 2), 5),
            ]
        )
        new = pa.schema(
            [
                field("price", pa.decimal128(18, 2), 5),
                field("city", pa.int64(), 9),  # added under a name that another column had
                field("id", pa.int64(), 1),
                field("town", pa.string(), 2),
                field("amount", pa.float64(), 4),
            ]
        )
        before = pa.table([[1, None], ["Bern", "Chur"], ["x", "y"], [0.5, None], [Decimal("1.25"), None]], schema=old)
        after = pa.table([[Decimal("7.00")], [3], [2**40], ["Genf"], [0.1]], schema=new)
        inputs = [write(tmp_path / "a.parquet", before), write(tmp_path / "b.parquet", after)]
        found = done(run(tmp_path, inputs, layout(new, verify="full")))
        assert found.schema.equals(new, check_metadata=True)
        assert found.to_pylist() == [
            {"price": Decimal("1.25"), "city": None, "id": 1, "town": "Bern", "amount": 0.5},
            {"price": None, "city": None, "id": None, "town": "Chur", "amount": None},
            {"price": Decimal("7.00"), "city": 3, "id": 2**40, "town": "Genf", "amount": 0.1},
        ]

    def test_a_file_that_has_none_of_the_columns(self, tmp_path: Path) -> None:
        new = pa.schema([field("later", pa.string(), 9), field("uuid", pa.uuid(), 10)])
        report = run(tmp_path, [write(tmp_path / "a.parquet", orders(0, 70_000))], layout(new, verify="full"))
        assert done(report).to_pylist() == [{"later": None, "uuid": None}] * 70_000
        assert report.nulls == {9: 70_000, 10: 70_000}

    def test_names_with_dots_are_no_paths(self, tmp_path: Path) -> None:
        inner = pa.struct([field("b", pa.int32(), 2), field("c", pa.int32(), 3)])
        old = pa.schema([field("a", inner, 1), field("a.b", pa.int32(), 4), field("z", pa.int32(), 5)])
        rows = [{"a": {"b": 1, "c": 2}, "a.b": 3, "z": 4}]
        inputs = [write(tmp_path / "a.parquet", pa.Table.from_pylist(rows, schema=old))]
        new = pa.schema([old.field(1)])
        assert done(run(tmp_path, inputs, layout(new))).to_pylist() == [{"a.b": 3}]

    def test_a_file_without_field_ids_is_refused(self, tmp_path: Path) -> None:
        plain = pa.table({"id": [1], "city": ["Bern"], "amount": [1.0]})
        good, bad = write(tmp_path / "a.parquet", orders(0, 10)), write(tmp_path / "b.parquet", plain)
        report = run(tmp_path, [good, bad], layout(ORDERS))
        assert report.failure == Failure("no-field-ids", "column id has no field id", bad.path)
        assert written(tmp_path) == []


class TestDeletes:
    def test_masked_rows_are_left_out(self, tmp_path: Path) -> None:
        paths = [str(tmp_path / f"{at}.parquet") for at in range(2)]
        first = delete_file(tmp_path / "d1.parquet", [(paths[0], 0), (paths[0], 99), (paths[1], 5)])
        second = delete_file(tmp_path / "d2.parquet", [(paths[0], 0), (paths[0], 50), ("elsewhere", 1)])
        inputs = [write(Path(path), orders(at * 100, 100), [first, second]) for at, path in enumerate(paths)]
        report = run(tmp_path, inputs, layout(ORDERS))
        kept = [at for at in range(200) if at not in (0, 50, 99, 105)]
        assert done(report)["id"].to_pylist() == kept
        assert (report.rows_in, report.rows_masked) == (200, 4)

    def test_a_delete_file_masks_only_where_it_applies(self, tmp_path: Path) -> None:
        """A file that is newer than the deletes has its rows, though the delete file names it."""
        paths = [str(tmp_path / f"{at}.parquet") for at in range(2)]
        deletes = delete_file(tmp_path / "d.parquet", [(paths[0], 1), (paths[1], 1)])
        inputs = [write(Path(paths[0]), orders(0, 3), [deletes]), write(Path(paths[1]), orders(3, 3))]
        assert done(run(tmp_path, inputs, layout(ORDERS)))["id"].to_pylist() == [0, 2, 3, 4, 5]

    def test_paths_are_compared_as_they_are_stored(self, tmp_path: Path) -> None:
        path = tmp_path / "a.parquet"
        deletes = delete_file(tmp_path / "d.parquet", [(str(path), 0), (f"file:{path}", 1), (f"file://{path}", 2)])
        write(path, orders(0, 4))
        report = run(tmp_path, [Input(f"file:{path}", 4, (deletes,))], layout(ORDERS))
        assert done(report)["id"].to_pylist() == [0, 2, 3]

    def test_a_group_that_is_masked_altogether_gives_no_file(self, tmp_path: Path) -> None:
        path = tmp_path / "a.parquet"
        deletes = delete_file(tmp_path / "d.parquet", [(str(path), at) for at in range(100)])
        report = run(tmp_path, [write(path, orders(0, 100), [deletes])], layout(ORDERS, verify="full"))
        assert (report.failure, report.outputs, report.rows_masked) == (None, (), 100)
        assert written(tmp_path) == []

    def test_many_positions_are_folded_into_bits_on_the_way(self, tmp_path: Path) -> None:
        """More of them than may wait, over several windows of rows."""
        rows = 1_400_000
        path = tmp_path / "a.parquet"
        table = pa.table([pa.array(range(rows), pa.int64())], schema=pa.schema([ORDERS.field(0)]))
        masked = [at for at in range(rows) if at % 5 != 4]
        files = [delete_file(tmp_path / f"{at}.d.parquet", [(str(path), p) for p in masked[at::2]]) for at in range(2)]
        report = run(tmp_path, [write(path, table, files)], layout(table.schema))
        assert report.rows_masked == len(masked)
        assert done(report)["id"].to_pylist() == [at for at in range(rows) if at % 5 == 4]

    @examples(80)
    @given(
        sizes=st.lists(st.integers(0, 40), min_size=1, max_size=4),
        masked=st.lists(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 45)), max_size=30), max_size=3),
        row_group_size=st.integers(1, 50),
    )
    def test_masks_do_what_a_model_does(
        self, tmp_path_factory: pytest.TempPathFactory, sizes: list[int], masked: list[list[Any]], row_group_size: int
    ) -> None:
        folder = tmp_path_factory.mktemp("masks")
        paths = [folder / f"{at}.parquet" for at in range(5)]  # more than there are files: others' rows
        deletes = [
            delete_file(folder / f"{at}.d.parquet", [(str(paths[file]), row) for file, row in rows], row_group_size=7)
            for at, rows in enumerate(masked)
        ]
        inputs = [
            write(paths[at], orders(at * 100, size), deletes, row_group_size=row_group_size)
            for at, size in enumerate(sizes)
        ]
        gone = {pair for rows in masked for pair in rows}
        report = run(folder, inputs, layout(ORDERS))
        kept = [file * 100 + row for file, size in enumerate(sizes) for row in range(size) if (file, row) not in gone]
        found = done(report)["id"].to_pylist() if kept else []
        assert (found, report.rows_masked) == (kept, sum(sizes) - len(kept))


def _as(kind: Any, number: int) -> Any:
    """A number as a value of some kind."""
    if pa.types.is_fixed_size_binary(kind):
        return number.to_bytes(16, "big")
    if pa.types.is_date(kind):
        return date.fromordinal(number + 1)
    if pa.types.is_decimal(kind):
        return Decimal(number) / 4
    return f"key {number}" if pa.types.is_string(kind) else number


class TestDrops:
    def test_rows_with_given_values_are_left_out(self, tmp_path: Path) -> None:
        path = tmp_path / "a.parquet"
        deletes = delete_file(tmp_path / "d.parquet", [(str(path), 1), (str(path), 2)])
        drop = Drop(2, pack(pa.array(["city 1", "city 3", None])))
        report = run(tmp_path, [write(path, orders(0, 14), [deletes])], layout(ORDERS), drops=(drop,))
        assert done(report)["id"].to_pylist() == [0, 4, 5, 6, 7, 9, 11, 12, 13]
        assert (report.rows_masked, report.rows_dropped) == (2, 3)  # row 1 was masked already
        assert report.dropped == {str(path): [3, 8, 10]}

    def test_a_row_goes_where_any_of_several_names_it(self, tmp_path: Path) -> None:
        drops = (Drop(2, pack(pa.array(["city 1"]))), Drop(1, pack(pa.array([0, 5]))))
        inputs = [write(tmp_path / "a.parquet", orders(0, 5)), write(tmp_path / "b.parquet", orders(5, 5))]
        report = run(tmp_path, inputs, layout(ORDERS), drops=drops)
        assert done(report)["id"].to_pylist() == [2, 3, 4, 6, 7, 9]
        assert report.dropped == {inputs[0].path: [0, 1], inputs[1].path: [0, 3]}
        assert GroupReport.from_json(report.to_json()) == report

    def test_nulls_are_never_dropped(self, tmp_path: Path) -> None:
        table = pa.table([[1, None, 3]], schema=pa.schema([field("id", pa.int64(), 1)]))
        drop = Drop(1, pack(pa.array([None, 3], pa.int64())))
        report = run(tmp_path, [write(tmp_path / "a.parquet", table)], layout(table.schema), drops=(drop,))
        assert done(report)["id"].to_pylist() == [1, None]

    def test_a_value_is_found_in_structs_before_its_promotion_and_outside_the_target(self, tmp_path: Path) -> None:
        schema = pa.schema([field("who", pa.struct([field("key", pa.int32(), 2)]), 1), field("n", pa.int64(), 3)])
        rows = [
            {"who": {"key": 5}, "n": 0},
            {"who": None, "n": 1},
            {"who": {"key": None}, "n": 2},
            {"who": {"key": 6}, "n": 3},
        ]
        inputs = [write(tmp_path / "a.parquet", pa.Table.from_pylist(rows, schema=schema))]
        drop = Drop(2, pack(pa.array([5, 2**40])))
        for target in (schema, pa.schema([schema.field(1)]), None):
            assert done(run(tmp_path, inputs, layout(target), drops=(drop,)))["n"].to_pylist() == [1, 2, 3]

    @pytest.mark.parametrize("kind", [pa.string(), pa.int64(), pa.date32(), pa.decimal128(12, 2), pa.binary(16)])
    def test_many_values_are_found_like_few(self, tmp_path: Path, kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        """Looked up in another way, with the same answer: nulls, values that are twice, and batches without any."""
        from lakewarden.engine.kernel import deletes

        numbers = [None if at % 11 == 0 else at // 2 for at in range(5000)]
        made: list[Any] = [number if number is None else _as(kind, number) for number in numbers]
        table = pa.table(
            [pa.array(made, kind), range(5000)], schema=pa.schema([field("key", kind, 1), field("n", pa.int64(), 2)])
        )
        inputs = [write(tmp_path / "a.parquet", table)]
        drop = Drop(1, pack(pa.array([_as(kind, at) for at in range(0, 900, 3)], kind)))
        few = run(tmp_path, inputs, layout(None), drops=(drop,))
        monkeypatch.setattr(deletes, "_MANY_VALUES", 10)
        many = run(tmp_path, inputs, layout(None), drops=(drop,))
        assert many.dropped == few.dropped and len(few.dropped[inputs[0].path]) > 500
        assert done(many).equals(done(few))

    def test_uuids(self, tmp_path: Path) -> None:
        keys = [uuid.UUID(int=at) for at in range(3)]
        table = pa.table([pa.array(keys, pa.uuid())], schema=pa.schema([field("key", pa.uuid(), 1)]))
        drop = Drop(1, pack(pa.array([keys[1]], pa.uuid())))
        report = run(tmp_path, [write(tmp_path / "a.parquet", table)], layout(None), drops=(drop,))
        assert done(report)["key"].to_pylist() == [keys[0], keys[2]]

    @pytest.mark.parametrize("remembered", [True, False])
    def test_a_dropped_value_is_nowhere_in_the_file(self, tmp_path: Path, remembered: bool) -> None:
        """Neither in pages nor in dictionaries, which would outlive the rows if they were filtered as such."""
        type_ = pa.dictionary(pa.int32(), pa.string()) if remembered else pa.string()
        schema = pa.schema([field("email", type_, 1), field("again", type_, 2)])
        emails = [f"person{at % 3}@example.org" for at in range(300)]
        table = pa.table([pa.array(emails).cast(type_)] * 2, schema=schema)
        inputs = [write(tmp_path / "a.parquet", table, store_schema=remembered)]
        drop = Drop(1, pack(pa.array(["person1@example.org"])))
        look = layout(None, codec="uncompressed", verify="full")
        report = run(tmp_path, inputs, look, drops=(drop,))
        assert report.rows_dropped == 100
        content = Path(report.outputs[0].path).read_bytes()
        assert b"person1@" not in content
        assert b"person2@" in content
        assert "RLE_DICTIONARY" in encodings(report.outputs[0].path)[0]

    def test_a_column_without_id_cannot_hide_a_value(self, tmp_path: Path) -> None:
        input_ = write(tmp_path / "a.parquet", pa.table({"email": ["a@b"]}))
        report = run(tmp_path, [input_], layout(None), drops=(Drop(1, pack(pa.array(["a@b"]))),))
        assert report.failure == Failure("no-field-ids", "column email has no field id", input_.path)

    def test_a_file_older_than_the_column_keeps_its_rows(self, tmp_path: Path) -> None:
        inputs = [write(tmp_path / "a.parquet", orders(0, 5))]
        assert done(run(tmp_path, inputs, layout(None), drops=(Drop(99, pack(pa.array(["x"]))),))).num_rows == 5


class TestOwnSchema:
    def test_every_input_becomes_one_output(self, tmp_path: Path) -> None:
        other = pa.table({"no id": [1, 2]})
        inputs = [
            write(tmp_path / "a.parquet", orders(0, 50_000)),
            Input(str(tmp_path / "b.parquet"), 2),
            write(tmp_path / "c.parquet", orders(9, 3)),
        ]
        with pq.ParquetWriter(tmp_path / "b.parquet", other.schema, store_schema=False) as writer:
            writer.add_key_value_metadata({"iceberg.schema": "{}"})
            writer.write_table(other)
        look = layout(None, target_bytes=1000, row_group_bytes=64 << 10, verify="full")
        report = run(tmp_path, inputs, look)
        assert [output.source for output in report.outputs] == [input_.path for input_ in inputs]
        found = [pq.ParquetFile(output.path) for output in report.outputs]
        assert found[0].read().equals(orders(0, 50_000)) and found[0].num_row_groups > 1
        assert found[1].read().equals(other) and found[1].metadata.metadata == {b"iceberg.schema": b"{}"}
        assert found[2].read().equals(orders(9, 3))
        assert found[0].schema_arrow.equals(ORDERS, check_metadata=True)


class TestFailures:
    """Whatever is wrong with a file: the report names it, and nothing is left behind."""

    SMALL = layout(ORDERS, row_group_bytes=32 << 10, target_bytes=1)  # outputs are complete before the bad file comes

    def failing(self, folder: Path, bad: Input) -> Failure:
        good = write(folder / "good.parquet", orders(0, 20_000))
        report = run(folder, [good, good], self.SMALL)
        assert len(report.outputs) > 1
        for output in report.outputs:
            Path(output.path).unlink()
        report = run(folder, [good, good, bad], self.SMALL)
        assert (report.outputs, report.rows_out, report.checksum_in, report.nulls) == ((), 0, None, {})
        assert written(folder) == []
        assert report.failure is not None
        return report.failure

    def test_missing(self, tmp_path: Path) -> None:
        failure = self.failing(tmp_path, Input(str(tmp_path / "none.parquet"), 5))
        assert (failure.kind, failure.file) == ("missing", str(tmp_path / "none.parquet"))

    @pytest.mark.parametrize("kept", [0, 3, 100, -9, -1])
    def test_truncated(self, tmp_path: Path, kept: int) -> None:
        bad = write(tmp_path / "bad.parquet", orders(0, 5000))
        content = Path(bad.path).read_bytes()
        Path(bad.path).write_bytes(content[:kept])
        failure = self.failing(tmp_path, bad)
        assert (failure.kind, failure.file) == ("unreadable", bad.path)
        assert "\n" not in failure.message and failure.message

    @pytest.mark.parametrize("compression", ["zstd", "none"])
    def test_a_flipped_bit_in_a_page(self, tmp_path: Path, compression: str) -> None:
        """Without compression only the page's checksum can tell."""
        bad = write(tmp_path / "bad.parquet", orders(0, 5000), compression=compression, write_page_checksum=True)
        content = bytearray(Path(bad.path).read_bytes())
        content[footer(bad.path).row_group(0).column(2).data_page_offset + 500] ^= 4
        Path(bad.path).write_bytes(content)
        failure = self.failing(tmp_path, bad)
        assert (failure.kind, failure.file) == ("unreadable", bad.path)

    def test_other_rows_than_the_metadata_says(self, tmp_path: Path) -> None:
        bad = replace(write(tmp_path / "bad.parquet", orders(0, 5)), rows=6)
        failure = self.failing(tmp_path, bad)
        assert failure == Failure("rows", "has 5 rows, but the table's metadata says 6", bad.path)

    def test_missing_or_broken_deletes(self, tmp_path: Path) -> None:
        bad = write(tmp_path / "bad.parquet", orders(0, 5))
        broken = tmp_path / "broken.parquet"
        failure = self.failing(tmp_path, replace(bad, deletes=(str(broken),)))
        assert (failure.kind, failure.file) == ("missing", str(broken))
        broken.write_bytes(b"PAR1 no, PAR1")
        failure = self.failing(tmp_path, replace(bad, deletes=(str(broken),)))
        assert (failure.kind, failure.file) == ("unreadable", str(broken))
        write(broken, orders(0, 5))
        failure = self.failing(tmp_path, replace(bad, deletes=(str(broken),)))
        assert (failure.kind, failure.file) == ("schema", str(broken))

    def test_a_column_that_cannot_be_read_as_the_target_wants(self, tmp_path: Path) -> None:
        bad = write(tmp_path / "bad.parquet", pa.table([["x"]], schema=pa.schema([field("id", pa.string(), 1)])))
        failure = self.failing(tmp_path, bad)
        assert failure == Failure("schema", "column id is string, which cannot be read as int64", bad.path)

    def test_an_unwritable_place(self, tmp_path: Path) -> None:
        (tmp_path / "out").write_text("a file where the folder should be")
        report = run(tmp_path, [write(tmp_path / "a.parquet", orders(0, 5))], layout(ORDERS))
        assert report.failure is not None and report.failure.kind == "unwritable"
        assert report.failure.file.startswith(f"{tmp_path}/out/00007-000-")

    def test_an_unknown_storage(self, tmp_path: Path) -> None:
        report = run(tmp_path, [Input("carrier://pigeon/a.parquet", 1)], layout(ORDERS))
        assert report.failure is not None
        assert (report.failure.kind, report.failure.file) == ("storage", "carrier://pigeon/a.parquet")


class TestChecksum:
    @examples(60)
    @given(cuts=st.lists(st.integers(0, 12), max_size=4))
    def test_it_does_not_depend_on_batches(self, cuts: list[int]) -> None:
        table = pa.concat_tables([pa.Table.from_pylist(EVERY_ROW, schema=EVERYTHING)] * 3).combine_chunks()
        whole, cut = Checksum(EVERYTHING), Checksum(EVERYTHING)
        whole.update(table.to_batches()[0])
        bounds = [0, *sorted(cuts), 12]
        for start, stop in pairwise(bounds):
            for batch in table.slice(start, stop - start).to_batches():
                cut.update(batch)
        assert whole.digest() == cut.digest()

    def test_every_change_shows(self) -> None:
        def digest(rows: list[dict[str, Any]]) -> str:
            checksum = Checksum(EVERYTHING)
            checksum.update(pa.RecordBatch.from_pylist(rows, schema=EVERYTHING))
            return checksum.digest()

        changed = [[EVERY_ROW[1], EVERY_ROW[0], *EVERY_ROW[2:]], EVERY_ROW[:-1]]
        changes: dict[str, Any] = {"double": 0.0, "text": "Zürich", "flag": False, "numbers": None, "fixed": b"12346"}
        changes |= {"place": {"street": "", "tags": ["a", None, ""]}, "scores": [("a", None), ("b", None)]}
        changes |= {name: None for name in EVERYTHING.names if name not in changes and name != "long"}
        changed += [[EVERY_ROW[0] | {name: value}, *EVERY_ROW[1:]] for name, value in changes.items()]
        changed += [[EVERY_ROW[0] | {"place": {"street": None, "tags": ["a", "", None]}}, *EVERY_ROW[1:]]]
        changed += [[*EVERY_ROW[:2], EVERY_ROW[2] | {"double": math.nan}, EVERY_ROW[3]]]  # another NaN
        digests = [digest(EVERY_ROW), *(digest(rows) for rows in changed)]
        assert len(set(digests)) == len(digests)
        assert digest(EVERY_ROW) == digest(list(EVERY_ROW))

    def test_a_file_is_read_back_whole(self, tmp_path: Path) -> None:
        storage, budget = TaskStorage(Access()), Budget.within(512 << 20)
        report = run(tmp_path, [write(tmp_path / "a.parquet", orders(0, 5000))], layout(ORDERS, verify="full"))
        expected = Checksum(ORDERS)
        for batch in orders(0, 5000).to_batches():
            expected.update(batch)
        (output,) = report.outputs
        assert checksum_of_file(storage, output.path, budget) == expected.digest()
        write(Path(output.path), orders(1, 5000))
        assert checksum_of_file(storage, output.path, budget) != expected.digest()

    def test_a_file_that_is_not_what_was_written_to_it_is_told_and_removed(self, tmp_path: Path) -> None:
        class Lossy(TaskStorage):
            """Loses the last row of what it is given."""

            def open(self, location: str) -> Any:
                pq.write_table(pq.ParquetFile(location).read().slice(0, 4), location)
                return super().open(location)

        outputs = Outputs(Lossy(Access()), f"{tmp_path}/out/0", layout(ORDERS, verify="full"), Budget.within(512 << 20))
        outputs.begin(ORDERS, DictionaryVotes())
        outputs.add(orders(0, 5).to_batches()[0])
        with pytest.raises(RewriteFault, match="contains other values than were written to it") as fault:
            outputs.end()
        assert fault.value.kind == "checksum" and [Path(fault.value.file)] == written(tmp_path)
        outputs.abandon()
        assert (outputs.done, written(tmp_path)) == ([], [])

    def test_counts_alone_need_no_checksum(self, tmp_path: Path) -> None:
        report = run(tmp_path, [write(tmp_path / "a.parquet", orders(0, 5))], layout(ORDERS))
        assert (report.checksum_in, report.checksum_out) == (None, None)


class TestLook:
    """How outputs are written."""

    SCHEMA = numbered(
        pa.schema([("id", pa.int64()), ("city", pa.string()), ("note", pa.string()), ("day", pa.date32())])
        .append(pa.field("amount", pa.float64()))
        .append(pa.field("tags", pa.list_(pa.int32())))
    )

    def rows(self, rows: int = 5000) -> Any:
        ids = list(range(rows))
        cities, notes = [f"city {at % 7}" for at in ids], [f"a long note, and no other like it: {at}" for at in ids]
        days, amounts = [date.fromordinal(730_000 + at) for at in ids], [at / 7 for at in ids]
        return pa.table([ids, cities, notes, days, amounts, [[at] for at in ids]], schema=self.SCHEMA)

    @pytest.mark.parametrize("version", ["1.0", "2.6"])
    def test_dictionaries_only_where_the_inputs_kept_theirs(self, tmp_path: Path, version: str) -> None:
        """Every column tried one; only that of `city` did not grow too large."""
        options: dict[str, Any] = {"version": version, "dictionary_pagesize_limit": 2000}
        inputs = [write(tmp_path / f"{at}.parquet", self.rows(), **options) for at in range(3)]
        assert footer(inputs[0].path).row_group(0).column(2).has_dictionary_page
        (output,) = run(tmp_path, inputs, layout(self.SCHEMA)).outputs
        plain, dictionary = {"PLAIN"}, {"PLAIN", "RLE_DICTIONARY"}
        assert encodings(output.path) == [plain, dictionary, plain, plain, plain, plain]
        (output,) = run(tmp_path, inputs, layout(self.SCHEMA, delta_encoding=True)).outputs
        delta = {"DELTA_BINARY_PACKED"}
        assert encodings(output.path) == [delta, dictionary, plain, delta, plain, delta]

    def test_numbers_whose_dictionaries_grow_too_large_together(self, tmp_path: Path) -> None:
        """Each order has five lines. A dictionary pays in a small file; in a large one it would be given up."""
        schema = numbered(pa.schema([("order", pa.int64()), ("line", pa.int64())]))
        tables = [
            pa.table([[at // 5 for at in range(start, start + 5000)], [*range(5)] * 1000], schema=schema)
            for start in range(0, 100_000, 5000)
        ]
        inputs = [write(tmp_path / f"{at}.parquet", table, version="1.0") for at, table in enumerate(tables)]
        assert encodings(inputs[0].path) == [{"PLAIN_DICTIONARY"}, {"PLAIN_DICTIONARY"}]
        (output,) = run(tmp_path, inputs, layout(schema, dictionary_bytes=100_000, delta_encoding=True)).outputs
        assert encodings(output.path) == [{"DELTA_BINARY_PACKED"}, {"PLAIN", "RLE_DICTIONARY"}]
        (output,) = run(tmp_path, inputs, layout(schema, delta_encoding=True)).outputs
        assert encodings(output.path) == [{"PLAIN", "RLE_DICTIONARY"}] * 2

    def test_most_inputs_decide(self, tmp_path: Path) -> None:
        with_it = write(tmp_path / "a.parquet", self.rows(100), use_dictionary=["city"])
        without = write(tmp_path / "b.parquet", self.rows(99), use_dictionary=False)
        look = layout(self.SCHEMA)
        assert "RLE_DICTIONARY" in encodings(run(tmp_path, [with_it, without], look).outputs[0].path)[1]
        inputs = [with_it, without, without]
        assert encodings(run(tmp_path, inputs, look).outputs[0].path)[1] == {"PLAIN"}

    def test_renamed_columns_keep_their_vote(self, tmp_path: Path) -> None:
        inputs = [write(tmp_path / "a.parquet", self.rows(), use_dictionary=["city"])]
        new = self.SCHEMA.set(1, field("town", pa.string(), 2)).set(2, field("city", pa.string(), 3))
        found = encodings(run(tmp_path, inputs, layout(new)).outputs[0].path)
        assert "RLE_DICTIONARY" in found[1] and "RLE_DICTIONARY" not in found[2]

    def test_nan_is_counted_file_by_file(self, tmp_path: Path) -> None:
        """Footers do not count it, and without a count other engines take bounds to mean that there is none."""
        schema = numbered(pa.schema([("d", pa.float64()), ("s", pa.struct([("f", pa.float32())]))]))
        values = [math.nan if at % 3 == 0 else float(at) for at in range(3000)]
        table = pa.table([values, [{"f": value} for value in values]], schema=schema)
        inputs = [write(tmp_path / f"{at}.parquet", table.slice(at * 1000, 1000)) for at in range(3)]
        report = run(tmp_path, inputs, layout(schema, target_bytes=1, row_group_bytes=4096))
        assert done(report).num_rows == 3000 and len(report.outputs) > 1
        for output in report.outputs:
            rows = pq.ParquetFile(output.path).read().column("d").to_pylist()
            assert output.nans == dict.fromkeys((1, 3), sum(map(math.isnan, rows)))
        assert GroupReport.from_json(report.to_json()) == report

    @pytest.mark.parametrize(
        ("codec", "level", "written_as"),
        [
            ("zstd", None, "ZSTD"),
            ("zstd", 9, "ZSTD"),
            ("ZSTD", None, "ZSTD"),
            ("snappy", None, "SNAPPY"),
            ("gzip", 3, "GZIP"),
            ("lz4", None, "LZ4"),
            ("brotli", None, "BROTLI"),
            ("uncompressed", None, "UNCOMPRESSED"),
        ],
    )
    def test_codecs_as_table_properties_spell_them(
        self, tmp_path: Path, codec: str, level: int | None, written_as: str
    ) -> None:
        inputs = [write(tmp_path / "a.parquet", self.rows(50))]
        report = run(tmp_path, inputs, layout(self.SCHEMA, codec=codec, level=level))
        assert done(report).equals(self.rows(50))
        assert footer(report.outputs[0].path).row_group(0).column(0).compression == written_as

    def test_an_unknown_codec_is_told(self, tmp_path: Path) -> None:
        report = run(tmp_path, [write(tmp_path / "a.parquet", self.rows(50))], layout(self.SCHEMA, codec="zip"))
        assert report.failure is not None and report.failure.kind == "unwritable"
        assert written(tmp_path) == []

    def test_bloom_filters(self, tmp_path: Path) -> None:
        inputs = [write(tmp_path / "a.parquet", self.rows())]
        look = layout(self.SCHEMA, bloom=(Bloom("id"), Bloom("tags.list.element", max_bytes=1 << 10), Bloom("gone")))
        row_group = footer(run(tmp_path, inputs, look).outputs[0].path).row_group(0)
        sizes = [row_group.column(at).bloom_filter_length for at in range(6)]
        assert [size is not None for size in sizes] == [True, False, False, False, False, True]
        assert sizes[0] > 5000 and sizes[5] < 1200

    def test_pages_of_long_values_stay_short(self, tmp_path: Path) -> None:
        table = pa.table([[bytes(100_000)] * 100], schema=pa.schema([field("blob", pa.binary(), 1)]))
        inputs = [write(tmp_path / "a.parquet", table, use_dictionary=False)]
        look = layout(table.schema, codec="uncompressed", page_bytes=200_000)
        path = run(tmp_path, inputs, look).outputs[0].path
        content = Path(path).read_bytes()
        assert footer(path).row_group(0).column(0).total_uncompressed_size > 10_000_000
        longest = max(map(len, content.split(bytes(90_000))))  # what lies between the values: lengths and page headers
        assert longest < 20_000
        assert content.count(b"\x15\x00\x15") >= 30  # the headers of data pages


class TestWideFiles:
    """A file with more columns than may be open at once is read a few columns at a time."""

    SMALL = Budget(row_group=1 << 20, reading=600_000, batch=30_000, whole_file=0, memory=512 << 20)

    @pytest.mark.parametrize("whole_file", [0, 1 << 30])
    def test_the_rows_are_the_same(self, tmp_path: Path, whole_file: int) -> None:
        table = pa.concat_tables([pa.Table.from_pylist(EVERY_ROW, schema=EVERYTHING)] * 1500).combine_chunks()
        input_ = write(tmp_path / "a.parquet", table, row_group_size=3500)
        budget = replace(self.SMALL, whole_file=whole_file)
        with ParquetInput(TaskStorage(Access()), input_.path, budget) as file:
            columns = list(range(len(EVERYTHING)))
            assert len(file._parts(0, columns)) > 3
            batches = list(file.batches(columns, lambda: 0))
            some = list(file.batches([1, 12, 16], lambda: 1 << 20))
        found = pa.Table.from_batches(batches)
        assert len(batches) > 10
        assert repr(found.to_pylist()) == repr(table.to_pylist())
        assert repr(pa.Table.from_batches(some).to_pylist()) == repr(table.select([1, 12, 16]).to_pylist())

    def test_nested_columns_are_projected_from_the_middle_of_a_batch(self, tmp_path: Path) -> None:
        table = pa.concat_tables([pa.Table.from_pylist(EVERY_ROW, schema=EVERYTHING)] * 1500).combine_chunks()
        input_ = write(tmp_path / "a.parquet", table)
        place = EVERYTHING.field("place")
        street = pa.struct([field("road", pa.string(), 18), field("added", pa.int32(), 99)])
        projection = Projection(EVERYTHING, EVERYTHING.set(16, place.with_type(street)))
        assert place.type.field(0).metadata == street.field(0).metadata
        with ParquetInput(TaskStorage(Access()), input_.path, self.SMALL) as file:
            batches = list(file.batches(range(len(EVERYTHING)), lambda: 0))
        assert any(batch.column(16).offset for batch in batches)
        found = pa.Table.from_batches([projection.apply(batch) for batch in batches])
        expected = [
            None if row["place"] is None else {"road": row["place"]["street"], "added": None}
            for row in table.select(["place"]).to_pylist()
        ]
        assert found["place"].to_pylist() == expected


class TestStorage:
    def test_local_files(self) -> None:
        storage = TaskStorage(Access())
        for location in ("/a b/c%20d", "file:/a b/c%20d", "file:///a b/c%20d"):
            filesystem, path = storage.at(location)
            assert isinstance(filesystem, fs.LocalFileSystem) and path == "/a b/c%20d"
        assert storage.at("/day=12:30/x")[1] == "/day=12:30/x"

    @pytest.mark.parametrize("scheme", ["s3", "s3a", "s3n"])
    def test_s3(self, scheme: str) -> None:
        access = Access("http://127.0.0.1:9", "key", "secret", "token", "eu-central-1", path_style=False)
        storage = TaskStorage(access)
        filesystem, path = storage.at(f"{scheme}://lake/sales/day=1 2/a#b.parquet")
        assert path == "lake/sales/day=1 2/a#b.parquet"
        assert filesystem is storage.at("s3://other/x")[0]
        same: dict[str, Any] = {
            "endpoint_override": "http://127.0.0.1:9",
            "region": "eu-central-1",
            "session_token": "token",
        }
        same |= {"access_key": "key", "secret_key": "secret", "force_virtual_addressing": True}
        assert filesystem.equals(fs.S3FileSystem(**same))
        assert not filesystem.equals(fs.S3FileSystem(**(same | {"secret_key": "other"})))

    def test_a_server_of_ones_own_has_no_region(self) -> None:
        filesystem, _ = TaskStorage(Access("http://127.0.0.1:9", "key", "secret")).at("s3://lake/x")
        assert filesystem.region == "us-east-1"

    def test_secrets_are_not_shown(self) -> None:
        assert "secret" not in repr(Access("http://host", "secret1", "secret2", "secret3"))

    def test_unknown(self) -> None:
        with pytest.raises(RewriteFault, match="cannot access carrier://pigeon"):
            TaskStorage(Access()).at("carrier://pigeon/x")


class TestTravelling:
    def test_a_report_survives_as_json(self) -> None:
        failure = Failure("rows", "has 1 rows", "a")
        outputs = (Output("p", 1, 2, 3, "s", {4: 0, 7: 2}),)
        report = GroupReport(
            3, outputs, 5, 1, 1, 3, {4: 0, 7: 2}, "a", "b", {"p": [4]}, {"p": "c0ffee"}, failure, 1.5, 9
        )
        assert GroupReport.from_json(report.to_json()) == report
        assert GroupReport.from_json(GroupReport(1).to_json()) == GroupReport(1)

    def test_each_id_picks_its_group(self, tmp_path: Path) -> None:
        inputs = [write(tmp_path / f"{at}.parquet", orders(at, 10)) for at in range(3)]
        groups = [Group(at, (input_,), str(tmp_path / "out")) for at, input_ in enumerate(inputs)]
        ids = [pa.RecordBatch.from_pydict({"id": [2, 0]}), pa.RecordBatch.from_pydict({"id": [1]})]
        batches = list(run_task(groups, layout(ORDERS), Access())(ids))
        assert [batch.schema for batch in batches] == [pa.schema([("report", pa.string())])] * 3
        reports = [GroupReport.from_json(batch.column(0)[0].as_py()) for batch in batches]
        assert [report.number for report in reports] == [2, 0, 1]
        assert [done(report)["id"][0].as_py() for report in reports] == [2, 0, 1]

    def test_every_part_is_sent(self) -> None:
        import lakewarden.engine.kernel
        from lakewarden.engine.kernel import compare_task

        modules = {path.stem for path in Path(str(lakewarden.engine.kernel.__file__)).parent.glob("[a-z]*.py")}
        apart = {"executor_functions", "exchange_task"}  # sent by those who need them
        sent = {module.__name__.rpartition(".")[2] for module in compare_task.modules()}
        assert sent == modules - apart
        assert set(parts()) < set(compare_task.modules())

    def test_it_runs_where_there_is_no_lakewarden(self, tmp_path: Path) -> None:
        """As on an executor: unpickled by a Python that knows pyarrow and the standard library."""
        from pyspark import cloudpickle

        path = tmp_path / "a.parquet"
        deletes = delete_file(tmp_path / "d.parquet", [(str(path), 3)])
        groups = [
            Group(0, (write(path, orders(0, 10), [deletes]),), str(tmp_path / "out"), (Drop(1, pack(pa.array([5]))),)),
            Group(1, (Input(str(tmp_path / "none"), 1),), str(tmp_path / "out")),
        ]
        for module in parts():
            cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
        look = layout(ORDERS, verify="full", bloom=(Bloom("id"),))
        task = cloudpickle.dumps(run_task(groups, look, Access()))  # type: ignore[no-untyped-call]
        code = (
            "import sys, pickle\n"
            "for name in ('lakewarden', 'numpy', 'pandas', 'pyiceberg'): sys.modules[name] = None\n"
            "import pyarrow as pa\n"
            "task = pickle.loads(sys.stdin.buffer.read())\n"
            "ids = pa.RecordBatch.from_pydict({'id': [0, 1]})\n"
            "for batch in task([ids]): print(batch.column('report')[0].as_py())\n"
        )
        ran = subprocess.run([sys.executable, "-c", code], input=task, capture_output=True, check=False)
        assert ran.returncode == 0, ran.stderr.decode()
        reports = [GroupReport.from_json(line) for line in ran.stdout.decode().splitlines()]
        assert done(reports[0])["id"].to_pylist() == [0, 1, 2, 4, 6, 7, 8, 9]
        assert reports[1].failure is not None and reports[1].failure.kind == "missing"
