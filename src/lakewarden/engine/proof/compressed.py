"""Reads objects that are compressed as a whole, for a proof of erasure: gzip is unpacked, other forms are only known.

Nothing can be said of what is not unpacked to its very end: a stream that was cut short, or goes on with something
else, is an error. It is read in pieces, however much comes out of it.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable
from typing import Any

from lakewarden.engine.proof.byte_search import Source

_GZIP = 31
_BLOCK = 256 << 10
_BUFFER = 1 << 20
_PACKED = {
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\x04\x22\x4d\x18": "lz4",
    b"\xff\x06\x00\x00sN": "snappy",
    b"\xfd7zXZ\x00": "xz",
    b"7z\xbc\xaf\x27\x1c": "7z",
    b"Rar!\x1a\x07": "rar",
    b"\x89LZO": "lzo",
    b"\x1f\x9d": "compress",
    b"PK\x03\x04": "zip",
    b"PK\x05\x06": "zip",
}
_BZIP2 = (b"1AY&", b"\x17\x72\x45\x38")  # a block, or the end of an empty file, after BZh and a digit
_NAMES = (".br", ".deflate", ".lz4", ".lzma", ".lzo", ".snappy")  # Hadoop writes some of them without any mark


class NotLookedInto(Exception):
    """An object that is whole, but of a form that cannot be looked into. It says why, and nothing of the content."""


def packed_form(beginning: bytes, path: str = "") -> str | None:
    """How an object is compressed, by its first bytes; where these tell nothing, by its name."""
    for magic, form in _PACKED.items():
        if beginning.startswith(magic):
            return form
    if beginning.startswith(b"BZh") and beginning[4:8] in _BZIP2:
        return "bzip2"
    return next((name[1:] for name in _NAMES if path.lower().endswith(name)), None)


def unpacked(source: Source, mind: Callable[[int], None]) -> io.BufferedReader:
    """What a gzip file holds, all of its members; `mind` is told how many bytes of the file were read."""
    return io.BufferedReader(_Unpacked(source, mind), _BUFFER)


class Joined:
    """Some bytes that were read already, and what comes after them."""

    def __init__(self, first: bytes, rest: Source) -> None:
        self._first: Source = io.BytesIO(first)
        self._rest = rest

    def read(self, size: int, /) -> bytes:
        return self._first.read(size) or self._rest.read(size)


class _Unpacked(io.RawIOBase):
    """The members of a gzip file, one after the other."""

    def __init__(self, source: Source, mind: Callable[[int], None]) -> None:
        super().__init__()
        self._source = source
        self._mind = mind
        self._waiting = b""
        self._member: Any = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        filled = 0
        while filled < len(buffer) and self._has_more():
            some = self._member.decompress(self._waiting, len(buffer) - filled)
            self._waiting = self._member.unconsumed_tail
            buffer[filled : filled + len(some)] = some
            filled += len(some)
            if self._member.eof:
                self._waiting, self._member = self._member.unused_data, None
        return filled

    def _has_more(self) -> bool:
        """Whether there is something to unpack: within a member there must be."""
        while True:
            if self._member is None:
                self._waiting = self._waiting.lstrip(b"\0")  # members may be padded
            if not self._waiting:
                self._waiting = self._source.read(_BLOCK)
                self._mind(len(self._waiting))
                if not self._waiting and self._member is not None:
                    raise EOFError("a gzip file was cut short")
                if not self._waiting:
                    return False
            elif self._member is None:
                self._member = zlib.decompressobj(_GZIP)
            else:
                return True
