"""Searches a table's documents for key values: metadata files, quarantine records, and statistics in Puffin files.

Each text and each field name of a JSON document is searched separately, as a path if it can be one.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from lakewarden.engine.proof.sketches import THETA, holds_one_of
from lakewarden.engine.proof.texts import Pile, Texts
from lakewarden.engine.proof.wanted import Trace, WantedKey

_PARTITIONS = "partitions."
_PARTS = {
    "properties": "table property",
    "refs": "name of a branch or tag",
    "snapshots": "snapshots",
    "schemas": "schemas",
    "metadata-log": "log of metadata files",
    "statistics": "list of statistics",
    "partition-statistics": "list of statistics",
    "location": "location",
    "files": "list of files",
    "blobs": "description of statistics",
}
_COUNTS = re.compile(  # what writers count and measure, in summaries and properties
    r"^(added|changed|deleted|kept|removed|replaced|total)-"
    r"|(^|[-_.])(bytes|checkpoint-id|count|files|limit|ms|records|rows|seconds|size)$"
)
_PUFFIN = b"PFA1"
_BLOCK = 1 << 20


def look_at_json(content: bytes, texts: Texts) -> Iterator[Trace] | None:
    """Traces in a JSON document; None if it is not one."""
    try:
        document = json.loads(content)
    except ValueError:
        return None
    return _document(document, texts)


def look_at_puffin(source: Any, size: int, texts: Texts, keys: Sequence[WantedKey]) -> Iterator[Trace]:
    """Traces in statistics: in the footer, and in each blob, which may be compressed."""
    source.seek(size - 12)
    end = bytes(source.read(12))
    if end[8:] != _PUFFIN:
        raise ValueError("truncated Puffin file")
    length, is_packed = int.from_bytes(end[:4], "little", signed=True), end[4] & 1
    source.seek(size - 12 - length)
    packed = bytes(source.read(length))
    footer = json.loads(_decompressed(packed, "lz4") if is_packed else packed)
    yield from _document(footer, texts)
    for blob in footer.get("blobs", ()):
        source.seek(int(blob["offset"]))
        content = bytes(source.read(int(blob["length"])))
        codec = blob.get("compression-codec")
        plain = _decompressed(content, codec) if codec else content
        yield from texts.content(plain, "blob of statistics")
        for key in keys:
            if blob.get("type") == THETA and key.field_id in blob.get("fields", ()) and holds_one_of(plain, key):
                yield Trace(f"sketch of column {key.path}")


def _document(document: Any, texts: Texts) -> Iterator[Trace]:
    pile = Pile(texts)
    yield from _texts_in(document, pile, ())
    yield from pile.end()


def _texts_in(value: Any, pile: Pile, above: tuple[str, ...]) -> Iterator[Trace]:
    where = _where(above)
    if isinstance(value, str):
        if not (above and _COUNTS.search(above[-1])):
            yield from pile.whole(value, where)
        yield from pile.path(value, where)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts_in(inner, pile, above)
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from pile.whole(name, where)
            yield from pile.path(name.removeprefix(_PARTITIONS), where)
            yield from _texts_in(inner, pile, (*above, name))


def _where(above: tuple[str, ...]) -> str:
    """The part of a document that a text is in; shows only names that reveal nothing."""
    if above[:2] == ("snapshots", "summary"):
        return "snapshot summary"
    return _PARTS.get(above[0], "document") if above else "document"


def _decompressed(content: bytes, codec: str) -> bytes:
    import pyarrow as pa

    with pa.CompressedInputStream(pa.BufferReader(content), codec) as stream:
        found = io.BytesIO()
        while block := stream.read(_BLOCK):
            found.write(block)
    return found.getvalue()
