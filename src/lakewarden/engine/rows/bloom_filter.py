"""Parquet's Bloom filters: whether a column chunk can hold one of some values, without reading its pages.

pyarrow writes them and knows their offsets, but does not query them. Only few values are looked up at a time, so
hashing in Python is fast enough: with many values a filter nearly always matches.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

MOST_VALUES = 200
_MOST_BYTES = 32 << 20
_HEADER_BYTES = 64  # a header has about twenty
_SPLIT_BLOCKS_XXHASH_PLAIN = bytes.fromhex("1c1c0000" * 3 + "00")  # the only kind that exists, in Thrift encoding
_BLOCK = 32
_SALTS = (0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31)
_P1, _P2, _P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_P4, _P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
_ALL = 0xFFFFFFFFFFFFFFFF


def may_hold(source: Any, chunk: Any, length: int, values: Iterable[int | bytes]) -> bool:
    """Whether a chunk's filter matches one of the values; True if there is no readable filter.

    Values are as stored in files; `length` is the column's fixed length, if it has one.
    """
    blocks = _blocks(source, getattr(chunk, "bloom_filter_offset", None))
    if blocks is None:
        return True
    for value in values:
        if isinstance(value, int) and chunk.physical_type == "BYTE_ARRAY":
            return True  # writers choose the number of bytes
        with suppress(OverflowError):
            if _is_in(blocks, xxhash64(_plain(value, chunk.physical_type, length))):
                return True
    return False


def xxhash64(data: bytes) -> int:
    """The hash function of the filters, with seed 0."""
    size, place = len(data), 0
    if size >= 32:
        lanes = [(_P1 + _P2) & _ALL, _P2, 0, -_P1 & _ALL]
        while place + 32 <= size:
            words = struct.unpack_from("<4Q", data, place)
            lanes = [_round(lane, word) for lane, word in zip(lanes, words, strict=True)]
            place += 32
        result = sum(_turned(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True)) & _ALL
        for lane in lanes:
            result = ((result ^ _round(0, lane)) * _P1 + _P4) & _ALL
    else:
        result = _P5
    result = (result + size) & _ALL
    while place + 8 <= size:
        result = (_turned(result ^ _round(0, struct.unpack_from("<Q", data, place)[0]), 27) * _P1 + _P4) & _ALL
        place += 8
    if place + 4 <= size:
        word = struct.unpack_from("<I", data, place)[0]
        result = (_turned(result ^ (word * _P1 & _ALL), 23) * _P2 + _P3) & _ALL
        place += 4
    for byte in data[place:]:
        result = _turned(result ^ (byte * _P5 & _ALL), 11) * _P1 & _ALL
    result = (result ^ result >> 33) * _P2 & _ALL
    result = (result ^ result >> 29) * _P3 & _ALL
    return result ^ result >> 32


def _round(lane: int, word: int) -> int:
    return _turned((lane + word * _P2) & _ALL, 31) * _P1 & _ALL


def _turned(word: int, by: int) -> int:
    return (word << by | word >> (64 - by)) & _ALL


def _blocks(source: Any, offset: int | None) -> bytes | None:
    if offset is None:
        return None
    head = source.read_at(_HEADER_BYTES, offset)
    size, place = 0, 1
    while place < len(head) and place < 6:  # a zigzag varint of up to 32 bits
        size |= (head[place] & 0x7F) << 7 * (place - 1)
        place += 1
        if not head[place - 1] & 0x80:
            break
    size //= 2
    rest = head[place : place + len(_SPLIT_BLOCKS_XXHASH_PLAIN)]
    if head[:1] != b"\x15" or rest != _SPLIT_BLOCKS_XXHASH_PLAIN or size % _BLOCK or not 0 < size <= _MOST_BYTES:
        return None
    bits: bytes = source.read_at(size, offset + place + len(rest))
    return bits if len(bits) == size else None


def _is_in(blocks: bytes, hashed: int) -> bool:
    block = (hashed >> 32) * (len(blocks) // _BLOCK) >> 32
    words = struct.unpack_from("<8I", blocks, block * _BLOCK)
    low = hashed & 0xFFFFFFFF
    return all(word >> ((low * salt & 0xFFFFFFFF) >> 27) & 1 for word, salt in zip(words, _SALTS, strict=True))


def _plain(value: int | bytes, physical: str, length: int) -> bytes:
    """A value in Parquet's plain encoding, which is what was hashed; OverflowError if the column cannot hold it."""
    if isinstance(value, bytes):
        return value
    if physical in ("INT32", "INT64"):
        return value.to_bytes(4 if physical == "INT32" else 8, "little", signed=True)
    return value.to_bytes(length, "big", signed=True)
