"""Reads compressed objects for a proof of erasure: gzip is decompressed, other formats are only recognised.

Only what is decompressed to its end proves anything: a stream that is truncated, or continues with something else, is
an error. It is read in chunks, however large its content.
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
_NAMES = (".br", ".deflate", ".lz4", ".lzma", ".lzo", ".snappy")  # Hadoop writes some of them without a magic number


class NotLookedInto(Exception):
    """An intact object of a format that cannot be searched. The message contains nothing of its content."""


def packed_form(beginning: bytes, path: str = "") -> str | None:
    """The compression format of an object, by its first bytes, else by its name."""
    for magic, form in _PACKED.items():
        if beginning.startswith(magic):
            return form
    if beginning.startswith(b"BZh") and beginning[4:8] in _BZIP2:
        return "bzip2"
    return next((name[1:] for name in _NAMES if path.lower().endswith(name)), None)


def unpacked(source: Source, count_read: Callable[[int], None]) -> io.BufferedReader:
    """The content of a gzip file with all its members; `count_read` receives the number of compressed bytes read."""
    return io.BufferedReader(_Unpacked(source, count_read), _BUFFER)


class Joined:
    """Bytes that were read already, followed by the rest of a stream."""

    def __init__(self, first: bytes, rest: Source) -> None:
        self._first: Source = io.BytesIO(first)
        self._rest = rest

    def read(self, size: int, /) -> bytes:
        return self._first.read(size) or self._rest.read(size)


class _Unpacked(io.RawIOBase):
    """The concatenated members of a gzip file."""

    def __init__(self, source: Source, count_read: Callable[[int], None]) -> None:
        super().__init__()
        self._source = source
        self._count_read = count_read
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
        """Whether there is more to decompress; within a member there must be."""
        while True:
            if self._member is None:
                self._waiting = self._waiting.lstrip(b"\0")  # members may be padded
            if not self._waiting:
                self._waiting = self._source.read(_BLOCK)
                self._count_read(len(self._waiting))
                if not self._waiting and self._member is not None:
                    raise EOFError("truncated gzip file")
                if not self._waiting:
                    return False
            elif self._member is None:
                self._member = zlib.decompressobj(_GZIP)
            else:
                return True
