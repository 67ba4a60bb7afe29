"""Searches paths, texts and bytes of a table's objects for key values.

In a path, a partition folder contains the value of one field, which is judged by its transform; the rest is searched as
bytes. A value that equals a word of the table's schema or names cannot be distinguished from it, and is searched only
where values occur. Short numbers cannot be distinguished from counts and parts of file names: they match only a whole
text or a whole path component.
"""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING
from urllib.parse import unquote_plus

from lakewarden.engine.base.locations import same_place
from lakewarden.engine.files.reachable import own_places
from lakewarden.engine.proof.byte_search import Hit, Needles
from lakewarden.engine.proof.wanted import Around, Trace, WantedKey, needles_of

if TYPE_CHECKING:
    from pyiceberg.table import Table

SHORTEST = 6  # bytes; shorter ones occur by chance
_LIKE_NUMBERS = re.compile(rb"[0-9A-Fa-f]{1,9}")  # common in file names, counts and ids
_PILE = 1 << 20
_CHANCE = 0.01  # acceptable number of chance matches in everything searched
_FORMAT_WORDS = (
    "append overwrite replace delete parquet identity bucket truncate string binary decimal struct required optional "
    "manifest metadata snapshot snapshots partition partitions statistics summary operation schema schemas schema-id "
    "spark pyiceberg iceberg lakewarden quarantine existing deleted record fields element values default created "
    "deflate snappy uncompressed avro.codec avro.schema iceberg.schema parquet-mr parquet-cpp-arrow"
)

_KNOWN_PROPERTIES = ("commit.", "format", "gc.", "history.", "read.", "schema.", "write.")  # others may contain a value


class Texts:
    """What to search for in the texts and bytes of one table's objects."""

    def __init__(self, table: Table, keys: Sequence[WantedKey], total_bytes: int) -> None:
        metadata = table.metadata
        self._places = sorted((same_place(place) for place in own_places(table)), key=len, reverse=True)
        self._fields: dict[str, list[tuple[WantedKey, str]]] = {}
        for spec in metadata.partition_specs:
            for field in spec.fields:
                for key in keys:
                    if field.source_id == key.field_id:
                        self._fields.setdefault(field.name, []).append((key, str(field.transform)))
        values = sum(len(key.texts) for key in keys)
        self.shortest = max(SHORTEST, math.ceil(math.log(max(total_bytes * values, 1) / _CHANCE, 256)))
        every = set(needles_of(keys))
        long = {needle for needle in every if len(needle) >= self.shortest}
        distinctive = {needle for needle in long if not _LIKE_NUMBERS.fullmatch(needle)}
        needles = Needles(distinctive)
        vocabulary = _vocabulary(table, self._places)
        names = {hit.needle for hit in needles.within(vocabulary)}
        numbers = {needle for needle in every if len(needle) >= SHORTEST and _LIKE_NUMBERS.fullmatch(needle)}
        self.like_numbers = len(numbers)
        self.too_short = len(every - long - numbers)
        numbers -= set(vocabulary.split(b"\0"))
        self._numbers = frozenset(number.decode() for number in numbers)
        self._parts_are_numbers = metadata.properties.get("write.object-storage.enabled", "").lower() == "true"
        self.ambiguous = len(names)
        self.needles = needles.without(names) if names else needles
        self._not_shown = Needles((long | numbers) - names) if numbers else self.needles

    def fields(self, path: str, where: str) -> tuple[list[Trace], str]:
        """Traces in the partition folders of a path, and the rest of the path below the table's folders."""
        if not self._fields:
            return [], self._below(path)
        traces: list[Trace] = []
        rest = []
        for part in self._below(path).split("/"):
            name, is_field, value = part.partition("=")
            fields = self._fields.get(unquote_plus(name), ()) if is_field else ()
            for key, transform in fields:
                traces += key.partition_text(transform, unquote_plus(value), where)
            if not fields:
                rest.append(part)
        return traces, "/".join(rest)

    def redacted(self, text: str) -> str:
        """A text with all values redacted."""
        content = text.encode("utf-8", "surrogatepass")
        for needle in {hit.needle for hit in self._not_shown.within(content, embedded=True)}:
            content = content.replace(needle, b"*")
        return content.decode("utf-8", "replace")

    def content(self, content: bytes, where: str) -> Iterator[Trace]:
        """Traces in some bytes."""
        yield from (in_doubt(hit, where) for hit in self.needles.within(content))

    def whole(self, text: str, where: str) -> Iterator[Trace]:
        """Traces of short numbers in a text by itself."""
        if text in self._numbers:
            yield Trace(where)

    def whole_parts(self, path: str, where: str) -> Iterator[Trace]:
        """The same for the components of a path; only the last one if the table uses numbered folders."""
        if self._numbers and "/" in path:
            *folders, name = path.split("/")
            parts = {name, name.partition(".")[0], *(() if self._parts_are_numbers else folders)}
            yield from (Trace(where) for _ in parts & self._numbers)

    def _below(self, path: str) -> str:
        spelled = same_place(path)
        return next((spelled[len(place) :] for place in self._places if spelled.startswith(f"{place}/")), path)


class Pile:
    """Many small texts, searched together: one by one would take far longer."""

    def __init__(self, texts: Texts) -> None:
        self._texts = texts
        self._pieces: list[bytes] = []
        self._wheres: list[str] = []
        self._starts: list[int] = []
        self._size = 0

    def path(self, path: str, where: str) -> Iterator[Trace]:
        """Add a path, or a text that may be one."""
        traces, rest = self._texts.fields(path, where)
        yield from traces
        yield from self._texts.whole_parts(rest, where)
        yield from self.text(rest, where)

    def whole(self, text: str, where: str) -> Iterator[Trace]:
        """A text that is not a count, by itself."""
        return self._texts.whole(text, where)

    def text(self, text: str, where: str) -> Iterator[Trace]:
        """Add a text, both as is and URL-decoded."""
        yield from self.add(text.encode("utf-8", "surrogatepass"), where)
        if "%" in text or "+" in text:
            yield from self.add(unquote_plus(text).encode("utf-8", "surrogatepass"), where)

    def add(self, piece: bytes, where: str) -> Iterator[Trace]:
        if not self._texts.needles or len(piece) < SHORTEST:
            return
        self._pieces.append(piece)
        self._wheres.append(where)
        self._starts.append(self._size)
        self._size += len(piece) + 1
        if self._size >= _PILE:
            yield from self.end()

    def end(self) -> Iterator[Trace]:
        """Traces in everything that was added."""
        for hit in self._texts.needles.within(b"\0".join(self._pieces)):
            yield in_doubt(hit, self._wheres[bisect_right(self._starts, hit.offset) - 1])
        self._pieces, self._wheres, self._starts, self._size = [], [], [], 0


def in_doubt(hit: Hit, where: str) -> Trace:
    return Trace(where, Around(hit.needle, hit.before, hit.after))


def _vocabulary(table: Table, places: Sequence[str]) -> bytes:
    """The words in a table's schemas, specs and names, which cannot be distinguished from values."""
    metadata = table.metadata
    words = [*_FORMAT_WORDS.split(), *places, *table.name()]
    words += [name for name in metadata.properties if name.startswith(_KNOWN_PROPERTIES)]
    words += [name for schema in metadata.schemas for name in schema.column_names]
    words += [part for schema in metadata.schemas for name in schema.column_names for part in name.split(".")]
    words += [field.name for spec in metadata.partition_specs for field in spec.fields]
    words += [part for place in places for part in place.split("/")]
    return "\0".join([*words, *(json.dumps(word)[1:-1] for word in words)]).encode("utf-8", "surrogatepass")
