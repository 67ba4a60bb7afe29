"""The checker finds what it is there to find: an entry that describes its file well has no faults, any other has."""

from __future__ import annotations

import struct
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.readers.spec_files import DataFile
from tests.readers.spec_values import transformed

KINDS = {1: "long", 2: "double", 3: "string", 4: "decimal(9, 2)", 5: "uuid", 7: "double"}
NAN = float("nan")


def field(name: str, id: int, kind: Any) -> pa.Field:
    return pa.field(name, kind, metadata={"PARQUET:field_id": str(id)})


SCHEMA = pa.schema(
    [
        field("id", 1, pa.int64()),
        field("d", 2, pa.float64()),
        field("s", 3, pa.string()),
        field("n", 4, pa.decimal128(9, 2)),
        field("u", 5, pa.uuid()),
        field("st", 6, pa.struct([field("x", 7, pa.float64())])),
    ]
)
LOW, HIGH = UUID(int=1).bytes, UUID(int=2).bytes
ROWS: list[dict[str, Any]] = [
    {"id": 1, "d": NAN, "s": "a" * 20, "n": Decimal("-1.25"), "u": LOW, "st": {"x": NAN}},
    {"id": 2, "d": 0.0, "s": None, "n": Decimal("300.00"), "u": HIGH, "st": None},
    {"id": 3, "d": -0.0, "s": "b", "n": None, "u": None, "st": {"x": 1.5}},
]


def pairs(values: dict[int, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": value} for key, value in values.items()]


def double(value: float) -> bytes:
    return struct.pack("<d", value)


@pytest.fixture
def entry(tmp_path: Path) -> dict[str, Any]:
    """A file, and all that is true of it."""
    path = tmp_path / "f.parquet"
    table = pa.Table.from_pylist(ROWS, schema=SCHEMA)
    pq.write_table(table, path, store_decimal_as_integer=True, store_schema=False)
    group = pq.read_metadata(path).row_group(0)
    ids = (1, 2, 3, 4, 5, 7)
    return {
        "file_path": f"file:{path}",
        "file_size_in_bytes": path.stat().st_size,
        "record_count": 3,
        "split_offsets": [4],
        "partition": {"s_trunc": None},
        "column_sizes": pairs({id: group.column(place).total_compressed_size for place, id in enumerate(ids)}),
        "value_counts": pairs(dict.fromkeys(ids, 3)),
        "null_value_counts": pairs({1: 0, 2: 0, 3: 1, 4: 1, 5: 1, 7: 1}),
        "nan_value_counts": pairs({2: 1, 7: 1}),
        "lower_bounds": pairs({1: struct.pack("<q", 1), 2: double(-0.0), 3: b"a" * 16, 4: b"\x83", 5: LOW,
                               7: double(1.5)}),
        "upper_bounds": pairs({1: struct.pack("<q", 3), 2: double(0.0), 3: b"b", 4: b"\x75\x30", 5: HIGH,
                               7: double(1.5)}),
    }  # fmt: skip


def test_what_is_true(entry: dict[str, Any]) -> None:
    assert list(DataFile(entry, KINDS).faults()) == []


@pytest.mark.parametrize(
    ("name", "id", "value"),
    [
        ("value_counts", 3, 2), ("null_value_counts", 3, 0), ("nan_value_counts", 2, 0), ("nan_value_counts", 7, None),
        ("nan_value_counts", 1, 0), ("column_sizes", 1, 7), ("lower_bounds", 2, double(0.0)),
        ("upper_bounds", 2, double(-0.0)), ("upper_bounds", 2, double(NAN)), ("lower_bounds", 3, b"b"),
        ("upper_bounds", 3, b"a" * 16), ("lower_bounds", 4, b"\xff\x83"), ("upper_bounds", 4, b"\x30\x75"),
        ("upper_bounds", 5, LOW), ("lower_bounds", 1, None), ("upper_bounds", 7, None),
    ],
)  # fmt: skip
def test_wrong_metrics_are_found(entry: dict[str, Any], name: str, id: int, value: Any) -> None:
    told = {pair["key"]: pair["value"] for pair in entry[name]} | {id: value}
    entry[name] = pairs({key: value for key, value in told.items() if value is not None})
    assert list(DataFile(entry, KINDS).faults()) != []


@pytest.mark.parametrize(
    ("name", "value"),
    [("record_count", 2), ("file_size_in_bytes", 1), ("split_offsets", None), ("key_metadata", b"k")],
)
def test_wrong_facts_of_a_file_are_found(entry: dict[str, Any], name: str, value: Any) -> None:
    entry[name] = value
    assert list(DataFile(entry, KINDS).faults()) != []


def test_partition_values_of_other_rows_are_found(entry: dict[str, Any]) -> None:
    spec = {"fields": [{"source-id": 3, "transform": "truncate[1]", "name": "s_trunc"}]}
    assert list(DataFile(entry, KINDS).partition_faults(spec)) != []


@pytest.mark.parametrize(
    ("transform", "value", "kind", "expected"),
    [  # from the appendix of the Iceberg spec on hashes, modulo 1000 and so on
        ("bucket[1000000]", 34, "int", 2017239379 % 1000000),
        ("bucket[1000000]", "iceberg", "string", 1210000089 % 1000000),
        ("bucket[1000000]", 1420, "decimal(9,2)", (-500754589 & 0x7FFFFFFF) % 1000000),
        ("truncate[10]", -1, "int", -10),
        ("year", -1, "date", -1),
        ("hour", 1510871468000000, "timestamp", 1510871468 // 3600),
    ],
)
def test_transforms(transform: str, value: Any, kind: str, expected: int) -> None:
    assert transformed(transform, value, kind) == expected
