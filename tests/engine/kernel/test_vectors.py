"""Deletion vectors are read as pyroaring writes them, in every kind of container."""

from __future__ import annotations

import io
import json
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from lakewarden.engine.kernel.vectors import vector_positions


def puffin(vectors: dict[str, list[int]], runs: bool) -> bytes:
    content, blobs = b"PFA1", []
    for name, positions in vectors.items():
        by_key: dict[int, list[int]] = {}
        for position in positions:
            by_key.setdefault(position >> 32, []).append(position & 0xFFFFFFFF)
        body = b"\xd1\xd3\x39\x64" + len(by_key).to_bytes(8, "little")
        for key in sorted(by_key):
            bitmap = BitMap(by_key[key])
            if runs:
                bitmap.run_optimize()
            body += key.to_bytes(4, "little") + bitmap.serialize()
        blob = len(body).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")
        place = {"offset": len(content), "length": len(blob), "properties": {"referenced-data-file": name}}
        blobs.append({"type": "deletion-vector-v1", **place})
        content += blob
    footer = json.dumps({"blobs": blobs}).encode()
    return content + b"PFA1" + footer + len(footer).to_bytes(4, "little") + b"\0\0\0\0PFA1"


def read(content: bytes, name: str) -> list[int] | None:
    found = vector_positions(io.BytesIO(content), len(content), name)
    return None if found is None else list(found.tolist())


@given(
    positions=st.lists(st.sets(st.integers(0, 1 << 34), max_size=50), max_size=3),
    start=st.integers(0, 200_000),
    length=st.integers(0, 70_000),
    step=st.integers(1, 3),
    runs=st.booleans(),
)
def test_any_positions(positions: list[set[int]], start: int, length: int, step: int, runs: bool) -> None:
    vectors = {f"file-{number}": sorted(each) for number, each in enumerate(positions)}
    vectors["range"] = list(range(start, start + length, step))
    content = puffin(vectors, runs)
    for name, expected in vectors.items():
        assert read(content, name) == expected
    assert read(content, "another") is None


def test_damage_is_noticed() -> None:
    content = puffin({"a": [1, 2, 3]}, runs=False)
    broken = content[:30] + bytes([content[30] ^ 1]) + content[31:]
    with pytest.raises(ValueError, match="damaged"):
        read(broken, "a")
    with pytest.raises(ValueError, match="complete"):
        read(content[:-1], "a")
