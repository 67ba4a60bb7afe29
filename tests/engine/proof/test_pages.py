"""Dictionary pages of Parquet files, as they are stored."""

from __future__ import annotations

import io
from datetime import date
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakewarden.engine.proof.pages import dictionary_tokens
from lakewarden.engine.proof.wanted import WantedKey

CODECS = ["none", "snappy", "gzip", "brotli", "lz4", "zstd"]
KINDS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "string": (pa.string(), ["a", "bc", "é", ""]),
    "int": (pa.int32(), [1, -2, 3]),
    "long": (pa.int64(), [1, -2, 2**60]),
    "date": (pa.date32(), [date(2020, 1, 2), date(1960, 5, 6)]),
    "decimal(9, 2)": (pa.decimal128(9, 2), [Decimal("1.50"), Decimal("-2.25")]),
    "decimal(30, 2)": (pa.decimal128(30, 2), [Decimal("1.50"), Decimal("-123456789012345678.25")]),
    "uuid": (pa.binary(16), [UUID(int=1).bytes, UUID(int=2**100).bytes]),
}


def tokens(table: pa.Table, kind: str, **options: Any) -> list[Any]:
    file = io.BytesIO()
    pq.write_table(table, file, **options)
    key = WantedKey(1, kind, "k", frozenset({"k"}), frozenset())
    with pq.ParquetFile(file) as opened:
        groups = [opened.metadata.row_group(number) for number in range(opened.metadata.num_row_groups)]
        return [token for group in groups for token in dictionary_tokens(file, group.column(0), key)]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_entry_of_every_type(kind: str, codec: str) -> None:
    data_type, values = KINDS[kind]
    key = WantedKey(1, kind, "k", frozenset(), frozenset())
    table = pa.table({"k": pa.array([*values, None, *values], data_type)})
    store_as_integer = {"store_decimal_as_integer": kind == "decimal(9, 2)"}
    found = tokens(table, kind, compression=codec, **store_as_integer)
    assert found == [key.token(value) for value in values]


@pytest.mark.parametrize("codec", CODECS)
def test_entries_that_no_row_uses(codec: str) -> None:
    unused = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0]), pa.array(["stays", "too", "erased"]))
    assert tokens(pa.table({"k": unused}), "string", compression=codec) == ["stays", "too", "erased"]


def test_columns_without_one() -> None:
    assert tokens(pa.table({"k": ["a", "b"]}), "string", use_dictionary=False) == []
    assert tokens(pa.table({"k": pa.array([], pa.string())}), "string") == []


def test_several_row_groups() -> None:
    assert tokens(pa.table({"k": ["a", "b", "c", "d"]}), "string", row_group_size=2) == ["a", "b", "c", "d"]
