"""Parquet files taken apart by hand: what every page, dictionary, statistic and index of a column holds.

A decoded column does not show a value that only a dictionary page or a statistic still has, so the footer and the page
headers are read here as what they are, structs in Thrift's compact protocol. No Lakewarden, no PyIceberg.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

MAGIC = b"PAR1"
_CODECS = {0: None, 1: "snappy", 2: "gzip", 4: "brotli", 6: "zstd", 7: "lz4_raw"}
_DICTIONARY_PAGE, _DATA_PAGE, _DATA_PAGE_V2 = 2, 0, 3
_TRUE, _FALSE, _BYTE, _SHORT, _INT, _LONG, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)
_PLAIN_WIDTH = {1: 4, 2: 8, 3: 12, 4: 4, 5: 8}  # of INT32, INT64, INT96, FLOAT, DOUBLE
BYTE_ARRAY = 6


@dataclass
class Column:
    """One column of a file: what its dictionaries, statistics and indexes tell, and its pages, decompressed."""

    name: str
    field_id: int | None
    physical: int
    dictionary: set[bytes] = field(default_factory=set)
    bounds: set[bytes] = field(default_factory=set)
    pages: list[bytes] = field(default_factory=list)


def columns(path: Path) -> list[Column]:
    """Every column of a file, all row groups together."""
    content = path.read_bytes()
    length = int.from_bytes(content[-8:-4], "little")
    footer = _Thrift(content, len(content) - 8 - length).struct()
    leaves = [element for element in footer[2] if not element.get(5)]
    found = [Column(e[4].decode(), e.get(9), e[1]) for e in leaves]
    for group in footer[4]:
        for column, element, chunk in zip(found, leaves, group[1], strict=True):
            _read_chunk(content, column, element.get(2, 0), chunk)
    return found


def _read_chunk(content: bytes, column: Column, width: int, chunk: dict[int, Any]) -> None:
    told = chunk[3]
    column.bounds |= _bounds(told.get(12, {}))
    if 6 in chunk:
        index = _Thrift(content, chunk[6]).struct()
        column.bounds |= {*index[2], *index[3]} - {b""}
    start = min(offset for offset in (told[9], told.get(11)) if offset)
    end = start + told[7]
    while start < end:
        reader = _Thrift(content, start)
        header = reader.struct()
        body = content[reader.at : reader.at + header[3]]
        start = reader.at + header[3]
        kind = header[1]
        page = _decompress(body, told[4], header)
        column.pages.append(page)
        if kind == _DICTIONARY_PAGE:
            column.dictionary |= set(_plain(page, column.physical, width))
        elif kind in (_DATA_PAGE, _DATA_PAGE_V2):
            column.bounds |= _bounds(header[5 if kind == _DATA_PAGE else 8].get(5 if kind == _DATA_PAGE else 8, {}))


def _bounds(statistics: dict[int, Any]) -> set[bytes]:
    return {statistics[number] for number in (1, 2, 5, 6) if number in statistics} - {b""}


def _decompress(body: bytes, codec: int, header: dict[int, Any]) -> bytes:
    name = _CODECS[codec]
    if name is None or not body:
        return body
    levels = 0
    if header[1] == _DATA_PAGE_V2:  # levels stand before the values, never compressed
        told = header[8]
        levels = told.get(5, 0) + told.get(6, 0)
        if not told.get(7, True):
            return body
    size = header[2] - levels
    return body[:levels] + pa.Codec(name).decompress(body[levels:], size, asbytes=True) if size else body[:levels]


def _plain(page: bytes, physical: int, width: int) -> Iterator[bytes]:
    """The values of a dictionary page, each as its bytes."""
    at = 0
    while at < len(page):
        size = _PLAIN_WIDTH.get(physical, width)
        if physical == BYTE_ARRAY:
            size = int.from_bytes(page[at : at + 4], "little")
            at += 4
        yield page[at : at + size]
        at += size


class _Thrift:
    """A reader of Thrift's compact protocol; a struct becomes a dictionary by field number."""

    def __init__(self, content: bytes, at: int) -> None:
        self._content, self.at = content, at

    def struct(self) -> dict[int, Any]:
        found: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._zigzag()
            kind = head & 15
            found[number] = kind == _TRUE if kind in (_TRUE, _FALSE) else self._value(kind)
        return found

    def _value(self, kind: int) -> Any:
        match kind:
            case 1 | 2:  # booleans within a list
                return self._byte() == _TRUE
            case 3:
                return self._byte()
            case 4 | 5 | 6:
                return self._zigzag()
            case 7:
                return struct.unpack("<d", self._take(8))[0]
            case 8:
                return self._take(self._varint())
            case 9 | 10:
                head = self._byte()
                count = self._varint() if head >> 4 == 15 else head >> 4
                return [self._value(head & 15) for _ in range(count)]
            case 12:
                return self.struct()
        raise AssertionError(f"no type {kind} is used by Parquet")

    def _byte(self) -> int:
        self.at += 1
        return self._content[self.at - 1]

    def _take(self, size: int) -> bytes:
        self.at += size
        return self._content[self.at - size : self.at]

    def _varint(self) -> int:
        number = shift = 0
        while True:
            byte = self._byte()
            number |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return number

    def _zigzag(self) -> int:
        number = self._varint()
        return (number >> 1) ^ -(number & 1)
