"""The files that an action concerns: a list that is counted and has a digest, and how a journal keeps it.

They may be very many, so a plan holds only their number, size and digest, and the journal keeps the files beside it.
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

_AT_ONCE = 1000  # files that are encoded together


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """One file that an action concerns; files that are worked on together have the same group."""

    path: str
    bytes: Bytes
    kind: str
    group: int = 0


@dataclass(frozen=True)
class FileList:
    """The files that an action concerns: how many, how large, and a digest that stands for every one of them.

    Two lists with the same digest are the same list, whether or not their items are at hand.
    """

    count: int = 0
    bytes: Bytes = 0
    digest: str = ""
    items: tuple[PlannedFile, ...] = field(default=(), repr=False, compare=False)

    @staticmethod
    def of(files: Iterable[PlannedFile]) -> FileList:
        """The list of these files; in which order they are given makes no difference."""
        items = tuple(sorted(files, key=attrgetter("group", "path", "kind", "bytes")))
        return _listed(items, _encoded(items)) if items else FileList()

    def groups(self) -> dict[int, list[str]]:
        """The paths of the files that are worked on together, by their group."""
        found: dict[int, list[str]] = {}
        for file in self.items:
            found.setdefault(file.group, []).append(file.path)
        return found


def pack_files(files: FileList) -> bytes:
    """All files of a list in a few bytes each, as a journal keeps them."""
    packer = zlib.compressobj(level=1)
    return b"".join([*map(packer.compress, _encoded(files.items)), packer.flush()])


def unpack_files(packed: bytes) -> FileList:
    """The list that was packed. Its digest is of what was read, so a damaged list is not the planned one; one that
    was veiled passes for what it was."""
    encoded = zlib.decompress(packed)
    columns = json.loads(encoded)
    kinds = map(sys.intern, columns["kind"])  # few words, many files
    items = map(PlannedFile, columns["path"], columns["bytes"], kinds, columns["group"])
    listed = _listed(tuple(items), [encoded])
    return replace(listed, digest=columns["veiled"]) if "veiled" in columns else listed


def veil_files(packed: bytes, told: Callable[[str], str]) -> bytes:
    """A packed list whose paths are told otherwise, as where they tell of somebody who was erased."""
    columns = json.loads(zlib.decompress(packed))
    paths = [told(path) for path in columns["path"]]
    if paths == columns["path"]:
        return packed
    veiled = {**columns, "path": paths, "veiled": unpack_files(packed).digest}
    return zlib.compress(json.dumps(veiled, separators=(",", ":")).encode(), level=1)


def _listed(items: tuple[PlannedFile, ...], encoded: Iterable[bytes]) -> FileList:
    digest = hashlib.sha256()
    for piece in encoded:
        digest.update(piece)
    return FileList(len(items), sum(file.bytes for file in items), digest.hexdigest()[:32], items)


def _encoded(items: Sequence[PlannedFile]) -> Iterator[bytes]:
    """JSON column by column, which is quicker to write and to read than a million small objects; in pieces.

    The whole of it would take as much memory as the files themselves.
    """
    for place, name in enumerate(("path", "bytes", "kind", "group")):
        yield f'{"]," if place else "{"}"{name}":['.encode()
        values, comma = map(attrgetter(name), items), ""
        while some := list(islice(values, _AT_ONCE)):
            yield (comma + json.dumps(some, separators=(",", ":"))[1:-1]).encode()
            comma = ","
    yield b"]}"
