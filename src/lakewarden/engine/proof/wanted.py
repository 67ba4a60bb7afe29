"""What a proof of erasure searches for: the values of key columns, in every form in which they may be stored.

A value is compared as a token of its type: an integer for whole numbers, days and decimals, a text, or a UUID's bytes.
Not every trace is certain: a truncated bound or a bucket number may come from a remaining row. Such a trace has a
doubt: what a remaining row would have to yield. `survivors.py` looks for such a row. Nothing here logs or raises a
value.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote_plus, unquote_plus
from uuid import UUID

from lakewarden.engine.rows.keys import as_arrow, iceberg_type

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.table.metadata import TableMetadata

    from lakewarden.records.erasure import HiddenKey

Token = int | str | bytes
_CUT = 16  # characters that Iceberg truncates bounds to by default
_DIFFERENT = 6  # distinct bytes of a UUID: one of nearly all zeros occurs by chance
_EPOCH = date(1970, 1, 1)
_SURROGATES = range(0xD800, 0xE000)


@dataclass(frozen=True, slots=True)
class Prefix:
    """Doubtful: a remaining row's value may begin with this text."""

    field_id: int
    text: str


@dataclass(frozen=True, slots=True)
class Image:
    """Doubtful: a remaining row's value may have the same transform result."""

    field_id: int
    transform: str
    token: Token


@dataclass(frozen=True, slots=True)
class Around:
    """Doubtful: the match may be part of a remaining row's longer value."""

    needle: bytes
    before: bytes
    after: bytes


Doubt = Prefix | Image | Around


@dataclass(frozen=True, slots=True)
class Trace:
    """Something that contains a value: where in its object, and what else would explain it."""

    where: str
    doubt: Doubt | None = None


@dataclass(frozen=True)
class WantedKey:
    """A key column and its values that must not occur anywhere."""

    field_id: int
    kind: str
    path: str
    names: frozenset[str]
    texts: frozenset[str] = field(repr=False)
    cuts: frozenset[int] = frozenset({_CUT})

    @cached_property
    def arrow(self) -> pa.Array:
        return as_arrow(self.kind, sorted(self.texts))

    @cached_property
    def tokens(self) -> frozenset[Token]:
        return frozenset(self.token(value) for value in self.arrow.to_pylist())

    @cached_property
    def in_order(self) -> list[str]:
        return sorted(self.texts)

    @property
    def is_text(self) -> bool:
        return self.kind == "string"

    @property
    def scale(self) -> int:
        return int(re.findall(r"\d+", self.kind)[1])

    def token(self, value: Any) -> Token:
        """A value from any library, in the form that is compared."""
        if isinstance(value, date):
            return (value - _EPOCH).days
        if isinstance(value, Decimal):
            return int(value.scaleb(self.scale))
        if isinstance(value, UUID):
            return value.bytes
        if isinstance(value, int | str):
            return value
        return bytes(value).decode(errors="replace") if self.is_text else bytes(value)

    def decoded(self, raw: bytes) -> Token | None:
        """A value from Iceberg's single-value encoding; None if the bytes are of another type."""
        if self.is_text:
            return raw.decode(errors="replace")
        if self.kind == "uuid":
            return raw
        order: Literal["big", "little"] = "big" if self.kind.startswith("decimal") else "little"
        return int.from_bytes(raw, order, signed=True) if 0 < len(raw) <= 16 else None

    def begins(self, prefix: str) -> bool:
        """Whether one of the values begins with this text."""
        place = bisect_left(self.in_order, prefix)
        return place < len(self.in_order) and self.in_order[place].startswith(prefix)

    def lower(self, bound: Token, where: str) -> Iterator[Trace]:
        """Traces in a lower bound, which may be truncated."""
        yield from self._bound(bound, bound, where)

    def upper(self, bound: Token, where: str) -> Iterator[Trace]:
        """Traces in an upper bound: a truncated one has its last character incremented."""
        yield from self._bound(bound, _lowered(bound) if isinstance(bound, str) else bound, where)

    def _bound(self, bound: Token, stem: Token, where: str) -> Iterator[Trace]:
        is_one = bound in self.tokens
        if not isinstance(stem, str) or not stem:
            if is_one:
                yield Trace(where)
        elif len(stem) in self.cuts:
            if is_one or self.begins(stem):
                yield Trace(where, Prefix(self.field_id, stem))
        elif is_one:
            yield Trace(where)
        elif len(stem) > _CUT and self.begins(stem):
            yield Trace(where, Prefix(self.field_id, stem))

    def partition(self, transform: str, value: Any, where: str) -> Iterator[Trace]:
        """Traces in a partition value, by its transform."""
        if value is None or transform == "void":
            return
        token = self.token(value)
        if transform == "identity":
            if token in self.tokens:
                yield Trace(where)
        elif token in self.images(transform):
            yield Trace(where, Image(self.field_id, transform, token))

    def partition_text(self, transform: str, text: str, where: str) -> Iterator[Trace]:
        """The same for a value in a path."""
        if transform == "identity":
            if text in self.texts and text != "null":
                yield Trace(where)
        else:
            for token in self._spelled(transform).get(text, ()):
                yield Trace(where, Image(self.field_id, transform, token))

    def images(self, transform: str) -> dict[Token, str]:
        """The transform results of the values, and how paths spell them."""
        if transform not in self._images:
            self._images[transform] = transformed(self, transform, self.arrow.to_pylist())
        return self._images[transform]

    @cached_property
    def _images(self) -> dict[str, dict[Token, str]]:
        return {}

    @cached_property
    def _spellings(self) -> dict[str, dict[str, list[Token]]]:
        return {}

    def _spelled(self, transform: str) -> dict[str, list[Token]]:
        if transform not in self._spellings:
            spelled: dict[str, list[Token]] = {}
            for token, text in self.images(transform).items():
                spelled.setdefault(text, []).append(token)
            self._spellings[transform] = spelled
        return self._spellings[transform]


def transformed(key: WantedKey, transform: str, values: Iterable[Any]) -> dict[Token, str]:
    """The transform results of values, by token, and how paths spell them."""
    from pyiceberg.transforms import parse_transform

    kind: Any = iceberg_type(key.kind)
    rule = parse_transform(transform)
    if not rule.can_transform(kind):
        return {}
    apply, made_of = rule.transform(kind), rule.result_type(kind)
    found: dict[Token, str] = {}
    for value in values:
        if value is not None and (result := apply(_days(value))) is not None:
            token = key.token(result)
            if token not in found:
                found[token] = str(rule.to_human_string(made_of, result))
    return found


def wanted_keys(metadata: TableMetadata, keys: Sequence[HiddenKey]) -> list[WantedKey]:
    """The keys of a table, with every name that each of them ever had."""
    properties = " ".join(str(value) for value in metadata.properties.values())
    cuts = frozenset({_CUT, *(int(length) for length in re.findall(r"truncate\((\d{1,6})\)", properties))})
    by_id: dict[int, list[HiddenKey]] = {}
    for key in keys:
        by_id.setdefault(key.field_id, []).append(key)
    found = []
    for field_id, same in by_id.items():
        names = [schema.find_column_name(field_id) for schema in (*metadata.schemas, metadata.schema())]
        known = [name for name in names if name]
        every = {name.lower() for name in known} | set(_mapped(metadata, field_id))
        kind = max((key.kind for key in same), key=_width)  # requested before and after the column was widened
        texts = frozenset(text for key in same for text in key.values)
        path = known[-1] if known else f"{field_id}"
        found.append(WantedKey(field_id, kind, path, frozenset(every), texts, cuts))
    return found


def needles_of(keys: Iterable[WantedKey]) -> Iterator[bytes]:
    """Texts and UUIDs as bytes: plain, URL-encoded, and as in JSON."""
    for key in keys:
        if key.kind == "uuid":
            for text in key.texts:
                yield text.encode()
                if len(set(raw := UUID(text).bytes)) >= _DIFFERENT:
                    yield raw
        elif key.is_text:
            for text in key.texts:
                yield from _spellings(text)


def text_of(needle: bytes, key: WantedKey) -> str | None:
    """The value of a needle, if it is one of the key's."""
    try:
        text = needle.decode()
        spelled = (text, unquote_plus(text), json.loads(f'"{text}"') if "\\" in text else text)
    except ValueError:
        return None
    return next((one for one in spelled if one in key.texts), None)


def _width(kind: str) -> int:
    return 1 if kind == "long" else int((re.findall(r"\d+", kind) or ["0"])[0])


def _spellings(text: str) -> set[bytes]:
    plain = text.encode("utf-8", "surrogatepass")
    return {plain, quote_plus(plain).encode(), json.dumps(text)[1:-1].encode()}


def _mapped(metadata: TableMetadata, field_id: int) -> Iterator[str]:
    """A column's names in the table's name mapping, for files without field ids."""

    def names(fields: Any, above: str) -> Iterator[str]:
        for mapped in fields:
            for name in mapped.get("names", ()):
                if mapped.get("field-id") == field_id:
                    yield f"{above}{name}".lower()
                yield from names(mapped.get("fields", ()), f"{above}{name}.")

    try:
        yield from names(json.loads(metadata.properties.get("schema.name-mapping.default", "[]")), "")
    except (ValueError, AttributeError, TypeError):
        return


def _lowered(bound: str) -> str:
    """A bound before its last character was incremented."""
    if not bound or ord(bound[-1]) == 0:
        return bound
    before = ord(bound[-1]) - 1
    return bound[:-1] + chr(_SURROGATES.start - 1 if before in _SURROGATES else before)


def _days(value: Any) -> Any:
    return (value - _EPOCH).days if isinstance(value, date) else value
