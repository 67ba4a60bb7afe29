"""Sketches of the number of distinct values: a small one keeps a hash of each value, and so reveals it.

Supports the format that Iceberg's engines store, compact theta sketches of Apache DataSketches. Its hashes are compared
with those of the wanted values. A large sketch keeps only some hashes: a missing hash proves nothing, a present one is
a trace.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakewarden.engine.proof.wanted import Token, WantedKey

THETA = "apache-datasketches-theta-v1"
_SEED = 9001
_COMPACT = (3, 3)  # version and family of the supported format
_EMPTY = 4  # a flag
_UNSIGNED = (1 << 64) - 1


def holds_one_of(sketch: bytes, key: WantedKey) -> bool:
    """Whether a sketch of a key's column contains the hash of one of its values."""
    import mmh3

    kept = set(_hashes(sketch))
    if not kept:
        return False
    written = (raw for token in key.tokens for raw in _written(token, key))
    return any((mmh3.hash64(raw, _SEED)[0] & _UNSIGNED) >> 1 in kept for raw in written)


def _hashes(sketch: bytes) -> Iterator[int]:
    longs, version, family, flags = sketch[0] & 63, sketch[1], sketch[2], sketch[5]
    if (version, family) != _COMPACT or longs not in (1, 2, 3):
        raise ValueError("unknown sketch format")
    if longs == 1:
        if not flags & _EMPTY:
            yield struct.unpack_from("<Q", sketch, 8)[0]
        return
    (count,) = struct.unpack_from("<i", sketch, 8)
    yield from struct.unpack_from(f"<{count}Q", sketch, 8 * longs)


def _written(token: Token, key: WantedKey) -> Iterator[bytes]:
    """A value in Iceberg's single-value encoding; if the column can be widened, in both widths."""
    if isinstance(token, str):
        yield token.encode("utf-8", "surrogatepass")
    elif isinstance(token, bytes):
        yield token
    elif key.kind.startswith("decimal"):
        yield token.to_bytes((token if token >= 0 else ~token).bit_length() // 8 + 1, "big", signed=True)
    else:
        if key.kind in ("int", "long"):
            yield token.to_bytes(8, "little", signed=True)
        if -(1 << 31) <= token < 1 << 31:
            yield token.to_bytes(4, "little", signed=True)
