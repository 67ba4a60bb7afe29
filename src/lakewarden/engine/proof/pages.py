"""Reads the dictionary page of a Parquet column as stored, including entries that no row uses.

Libraries decode rows, and return unused dictionary entries for texts only. This module parses only the page header, in
Thrift's compact protocol.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyarrow.parquet import ColumnChunkMetaData

    from lakewarden.engine.proof.wanted import Token, WantedKey

_DICTIONARY_PAGE = 2
_HEADER = 1 << 16  # larger than any header
_BOOLEANS, _STRUCT = (1, 2), 12


def dictionary_tokens(source: Any, chunk: ColumnChunkMetaData, key: WantedKey) -> Iterator[Token]:
    """All entries of a column chunk's dictionary; none if it has none."""
    if not chunk.num_values:
        return
    start = chunk.dictionary_page_offset or chunk.data_page_offset  # some writers omit its offset
    length = min(chunk.total_compressed_size, _HEADER)
    source.seek(start)
    head = bytes(source.read(length))
    fields, header = _Thrift(head).struct()
    if fields.get(1) != _DICTIONARY_PAGE:
        return
    source.seek(start + header)
    page = bytes(source.read(fields[3]))
    yield from _decoded(_plain(page, chunk.compression, fields[2]), chunk.physical_type, fields[7][1], key)


def _plain(page: bytes, codec: str, size: int) -> bytes:
    import pyarrow as pa

    if codec == "UNCOMPRESSED":
        return page
    if codec != "LZ4":
        return bytes(pa.decompress(page, size, codec.lower(), asbytes=True))
    try:
        return bytes(pa.decompress(page, size, "lz4_raw", asbytes=True))
    except (OSError, ValueError):  # Hadoop's framing: preceded by both sizes
        return bytes(pa.decompress(page[8:], size, "lz4_raw", asbytes=True))


def _decoded(page: bytes, physical: str, count: int, key: WantedKey) -> Iterator[Token]:
    """Plain-encoded entries, as the key's tokens."""
    if physical in ("INT32", "INT64"):
        import numpy as np

        yield from np.frombuffer(page, "<i4" if physical == "INT32" else "<i8", count).tolist()
    elif physical == "FIXED_LEN_BYTE_ARRAY":
        width = len(page) // max(count, 1)
        yield from (_token(page[at : at + width], key) for at in range(0, width * count, width))
    elif physical == "BYTE_ARRAY":
        at = 0
        for _ in range(count):
            length = int.from_bytes(page[at : at + 4], "little")
            yield _token(page[at + 4 : at + 4 + length], key)
            at += 4 + length


def _token(raw: bytes, key: WantedKey) -> Token:
    if key.kind.startswith("decimal"):
        return int.from_bytes(raw, "big", signed=True)
    return raw.decode(errors="replace") if key.is_text else raw


class _Thrift:
    """Thrift's compact protocol, as far as a page header needs it: numbers and structs by field number."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    def struct(self) -> tuple[dict[int, Any], int]:
        """A struct's fields, and the number of bytes read so far."""
        fields: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            step, kind = head >> 4, head & 15
            number = number + step if step else self._number()
            fields[number] = self._value(kind)
        return fields, self._at

    def _value(self, kind: int) -> Any:
        if kind in _BOOLEANS:
            return kind == 1
        if kind == 3:
            return self._byte()
        if kind in (4, 5, 6):
            return self._number()
        if kind == 8:
            length = self._varint()
            self._at += length
            return None
        if kind == _STRUCT:
            return self.struct()[0]
        raise ValueError("a page's header cannot be read")

    def _byte(self) -> int:
        self._at += 1
        return self._content[self._at - 1]

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7

    def _number(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)
