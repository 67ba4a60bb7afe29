"""Checksums of rows that a database and a lake compute alike: a count, and for each column a 64-bit sum.

Each value counts with the first half of the MD5 of its text and its row's position. So the order of rows does not
matter, and a changed value, a lost or doubled row, or values exchanged between rows all change a sum.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from lakewarden.engine.base.quoting import identifier
from lakewarden.features.sequence.columns import Column, as_texts
from lakewarden.features.sequence.connection import Reading
from lakewarden.features.sequence.pieces import pieces

if TYPE_CHECKING:
    import pyarrow as pa

_MODULUS = 2**64
_FIRST_ROWS = 10_000
_SECONDS = 0.2
"""About how long the database computes at a time, so that `maintain` of the same table gets its turn."""


@dataclass(frozen=True)
class Checksums:
    rows: int = 0
    sums: dict[str, int] = field(default_factory=dict)
    """By column."""

    def __add__(self, other: Checksums) -> Checksums:
        """Of the rows here and there."""
        sums = {name: (sum + other.sums[name]) % _MODULUS for name, sum in self.sums.items()}
        return Checksums(self.rows + other.rows, sums)

    def __sub__(self, other: Checksums) -> Checksums:
        """Of the rows that are here and not there, if those there are all here."""
        sums = {name: (sum - other.sums.get(name, 0)) % _MODULUS for name, sum in self.sums.items()}
        return Checksums(self.rows - other.rows, sums)

    def agrees(self, other: Checksums) -> bool:
        """Whether nothing differs in the columns that both have."""
        return self.rows == other.rows and all(
            self.sums[name] == other.sums[name] for name in self.sums.keys() & other.sums.keys()
        )

    def differences(self, other: Checksums) -> str:
        """What differs, as a phrase; empty if nothing does."""
        if self.rows != other.rows:
            return f"{self.rows:,} rows against {other.rows:,}"
        names = [name for name in {**self.sums, **other.sums} if self.sums.get(name) != other.sums.get(name)]
        return f"values of {', '.join(names)}" if names else ""


def in_database(connection: Reading, rows: str, position: Sequence[str], columns: Sequence[Column]) -> Checksums:
    """Have the database compute the checksums, piece by piece; `rows` is what follows FROM."""
    keyed = _found(position, columns)
    key, at = ", ' ', ".join(column.text for column in keyed), keyed[0].name
    sums = ", ".join(f"{_sum(key, column)} AS {identifier(f's{place}')}" for place, column in enumerate(columns))
    total = Checksums(0, {column.name: 0 for column in columns})
    for piece in pieces(connection, rows, at, _FIRST_ROWS, _SECONDS):
        where = piece.condition(identifier(at))
        (found,) = connection.rows(f"SELECT COUNT(*) AS counted, {sums} FROM {rows} WHERE {where}")  # noqa: S608
        by_place = {column.name: int(found[f"s{place}"] or 0) for place, column in enumerate(columns)}
        total += Checksums(int(found["counted"] or 0), by_place)
    return total


def in_lake(batches: Iterable[pa.RecordBatch], position: Sequence[str], columns: Sequence[Column]) -> Checksums:
    """The same of rows that were read from the archive."""
    rows, sums = 0, dict.fromkeys((column.name for column in columns), 0)
    keyed, md5 = _found(position, columns), partial(hashlib.md5, usedforsecurity=False)
    for batch in batches:
        rows += batch.num_rows
        positions = [as_texts(batch[column.name], column.type) for column in keyed]
        keys = [" ".join(map(str, key)) for key in zip(*positions, strict=True)]
        for column in columns:
            texts = zip(keys, as_texts(batch[column.name], column.type), strict=True)
            values = [f"{key} n" if text is None else f"{key} v{text}" for key, text in texts]
            sums[column.name] += sum([int.from_bytes(md5(value.encode()).digest()[:8]) for value in values])
    return Checksums(rows, {name: sum % _MODULUS for name, sum in sums.items()})


def _found(position: Sequence[str], columns: Sequence[Column]) -> list[Column]:
    """The columns of a position, which a table may spell in capitals where it is partitioned."""
    named = {column.name.lower(): column for column in columns}
    return [named[name.lower()] for name in position]


def _sum(key: str, column: Column) -> str:
    value = f"IF({column.is_null}, ' n', CONCAT(' v', {column.text}))"
    hashed = f"CAST(CONV(LEFT(MD5(CONCAT({key}, {value})), 16), 16, 10) AS UNSIGNED)"
    return f"MOD(SUM({hashed}), {_MODULUS})"
