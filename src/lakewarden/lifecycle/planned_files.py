"""The files of an action: a list with a count and a digest, and its form in the journal.

There may be very many, so a plan has only their number, size and digest, and the journal stores them separately.
"""

from __future__ import annotations

import hashlib
import json
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from operator import attrgetter

from lakewarden.quantities import Bytes

_AT_ONCE = 1000  # files encoded together


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """A file of an action; files that are processed together have the same group."""

    path: str
    bytes: Bytes
    kind: str
    group: int = 0


@dataclass(frozen=True)
class FileList:
    """The files of an action: number, size, and a digest that makes lists equal even if items are not loaded."""

    count: int = 0
    bytes: Bytes = 0
    digest: str = ""
    items: tuple[PlannedFile, ...] = field(default=(), repr=False, compare=False)

    @staticmethod
    def of(files: Iterable[PlannedFile]) -> FileList:
        """The list of these files, in any order."""
        items = tuple(sorted(files, key=attrgetter("group", "path", "kind", "bytes")))
        return _listed(items, _encoded(items)) if items else FileList()

    def groups(self) -> dict[int, list[str]]:
        """The paths of each group of files."""
        found: dict[int, list[str]] = {}
        for file in self.items:
            found.setdefault(file.group, []).append(file.path)
        return found


def pack_files(files: FileList) -> bytes:
    """Compress a list for the journal."""
    packer = zlib.compressobj(level=1)
    return b"".join([*map(packer.compress, _encoded(files.items)), packer.flush()])


def unpack_files(packed: bytes) -> FileList:
    """Decompress a list. Its digest is recomputed, to detect damage; a redacted list keeps its original one."""
    encoded = zlib.decompress(packed)
    columns = json.loads(encoded)
    kinds = map(sys.intern, columns["kind"])  # few words, many files
    items = map(PlannedFile, columns["path"], columns["bytes"], kinds, columns["group"])
    listed = _listed(tuple(items), [encoded])
    return replace(listed, digest=columns["redacted"]) if "redacted" in columns else listed


def redact_files(packed: bytes, redact: Callable[[str], str]) -> bytes:
    """Redact the paths in a packed list, such as those with an erased value."""
    columns = json.loads(zlib.decompress(packed))
    paths = [redact(path) for path in columns["path"]]
    if paths == columns["path"]:
        return packed
    redacted = {**columns, "path": paths, "redacted": unpack_files(packed).digest}
    return zlib.compress(json.dumps(redacted, separators=(",", ":")).encode(), level=1)


def _listed(items: tuple[PlannedFile, ...], encoded: Iterable[bytes]) -> FileList:
    digest = hashlib.sha256()
    for piece in encoded:
        digest.update(piece)
    return FileList(len(items), sum(file.bytes for file in items), digest.hexdigest()[:32], items)


def _encoded(items: Sequence[PlannedFile]) -> Iterator[bytes]:
    """JSON column by column, in chunks: faster than a million small objects, and with less memory."""
    for place, name in enumerate(("path", "bytes", "kind", "group")):
        yield f'{"]," if place else "{"}"{name}":['.encode()
        values, comma = map(attrgetter(name), items), ""
        while some := list(islice(values, _AT_ONCE)):
            yield (comma + json.dumps(some, separators=(",", ":"))[1:-1]).encode()
            comma = ","
    yield b"]}"
