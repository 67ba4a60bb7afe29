"""Reads deletion vectors: the positions of deleted rows, as Puffin files of format v3 tables hold them.

Only the formats of the spec are read: a Puffin footer that is not compressed, and 64-bit Roaring bitmaps in their
portable serialization. Tasks on Spark's executors read vectors with this, where there is no other reader.
"""

from __future__ import annotations

import json
import zlib
from typing import Any

import numpy as np

MAGIC = b"PFA1"
_VECTOR_MAGIC = b"\xd1\xd3\x39\x64"
_NO_RUNS, _WITH_RUNS = 12346, 12347
_ARRAY_LIMIT = 4096
_OFFSETS_FROM = 4


def vector_positions(source: Any, size: int, data_file: str) -> Any | None:
    """The positions that a Puffin file deletes of one data file, rising; None if it has no vector for it."""
    for blob in _blobs(source, size):
        is_vector = blob.get("type") == "deletion-vector-v1"
        if is_vector and blob.get("properties", {}).get("referenced-data-file") == data_file:
            source.seek(blob["offset"])
            return _positions(bytes(source.read(blob["length"])))
    return None


def _blobs(source: Any, size: int) -> list[dict[str, Any]]:
    source.seek(size - 12)
    end = bytes(source.read(12))
    if end[8:] != MAGIC:
        raise ValueError("is not a complete Puffin file")
    if end[4] & 1:
        raise ValueError("has a compressed footer, which no writer of deletion vectors uses")
    length = int.from_bytes(end[:4], "little")
    source.seek(size - 12 - length)
    found: list[dict[str, Any]] = json.loads(bytes(source.read(length)))["blobs"]
    return found


def _positions(blob: bytes) -> Any:
    length = int.from_bytes(blob[:4], "big")
    content, checksum = blob[4 : 4 + length], blob[4 + length : 8 + length]
    if content[:4] != _VECTOR_MAGIC or zlib.crc32(content) != int.from_bytes(checksum, "big"):
        raise ValueError("has a damaged deletion vector")
    bitmaps = int.from_bytes(content[4:12], "little")
    at, found = 12, []
    for _ in range(bitmaps):
        high = int.from_bytes(content[at : at + 4], "little")
        low, at = _bitmap(content, at + 4)
        found.append(low.astype(np.int64) + (high << 32))
    return np.concatenate(found) if found else np.zeros(0, dtype=np.int64)


def _bitmap(content: bytes, at: int) -> tuple[Any, int]:
    """One 32-bit Roaring bitmap, and where it ends."""
    cookie = int.from_bytes(content[at : at + 4], "little")
    runs = np.zeros(0, dtype=np.uint8)
    if cookie & 0xFFFF == _WITH_RUNS:
        count = (cookie >> 16) + 1
        flags = (count + 7) // 8
        runs = np.unpackbits(np.frombuffer(content, np.uint8, flags, at + 4), bitorder="little")
        at += 4 + flags
        has_offsets = count >= _OFFSETS_FROM
    elif cookie == _NO_RUNS:
        count = int.from_bytes(content[at + 4 : at + 8], "little")
        at += 8
        has_offsets = True
    else:
        raise ValueError("has a deletion vector in an unknown format")
    heads = np.frombuffer(content, "<u2", 2 * count, at).reshape(count, 2).astype(np.int64)
    at += 4 * count + (4 * count if has_offsets else 0)
    found = []
    for place, (key, cardinality) in enumerate(heads):
        values, at = _container(content, at, int(cardinality) + 1, is_runs=bool(len(runs) and runs[place]))
        found.append(values + (int(key) << 16))
    return np.concatenate(found) if found else np.zeros(0, dtype=np.int64), at


def _container(content: bytes, at: int, cardinality: int, is_runs: bool) -> tuple[Any, int]:
    if is_runs:
        count = int.from_bytes(content[at : at + 2], "little")
        pairs = np.frombuffer(content, "<u2", 2 * count, at + 2).reshape(count, 2).astype(np.int64)
        values = [np.arange(start, start + length + 1) for start, length in pairs]
        return np.concatenate(values) if values else np.zeros(0, dtype=np.int64), at + 2 + 4 * count
    if cardinality <= _ARRAY_LIMIT:
        return np.frombuffer(content, "<u2", cardinality, at).astype(np.int64), at + 2 * cardinality
    bits = np.unpackbits(np.frombuffer(content, np.uint8, 8192, at), bitorder="little")
    return np.flatnonzero(bits).astype(np.int64), at + 8192
