"""Says where under a folder any of some values still is, in whatever file, and in whatever place of it.

Every file is taken apart by what it is: Parquet (columns, pages, dictionaries, statistics, indexes), Avro (each value
of each record, the bounds and partition values of manifests by type), JSON, Puffin (its blobs, decompressed), gzip, and
any other as bytes; names of files and folders too. It is what decides whether an erasure holds, so it uses nothing of
Lakewarden or PyIceberg.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus
from uuid import UUID

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from tests.features.erasure import independent_pages as pages

_GZIP = b"\x1f\x8b"
_EPOCH = date(1970, 1, 1)
_SHORTEST = 6  # a shorter run of bytes is somewhere by chance


@dataclass(frozen=True)
class Trace:
    """A place where a value is left."""

    path: str
    where: str


@dataclass(frozen=True)
class Erased:
    """Values of one column that must be nowhere, and those that stay: a shortened value may be one of theirs."""

    field_id: int
    values: frozenset[Any]
    stay: frozenset[Any] = frozenset()

    @cached_property
    def needles(self) -> tuple[bytes, ...]:
        """Each value in every spelling that it can have among bytes, where it is long enough to be known by them."""
        return tuple({form for value in self.values for form in _spellings(value) if len(form) >= _SHORTEST})

    @cached_property
    def encoded(self) -> frozenset[bytes]:
        """Each value as Parquet's dictionaries and statistics, and Iceberg's bounds, spell it."""
        return frozenset(form for value in self.values for form in _encodings(value))

    def in_bytes(self, content: bytes) -> bool:
        return any(needle in content for needle in self.needles)

    def is_bound(self, bound: bytes) -> bool:
        """Whether a bound is one of the values; or the beginning of one, and of none that stays."""
        return bound in self.encoded or self._begins(bound)

    def partitions(self, transform: str) -> set[Any]:
        """What a transform makes of the values, and of none that stays; a bucket is nobody's."""
        if transform.startswith(("bucket", "void")):
            return set()
        if transform == "identity":
            return set(self.values)
        width = int(transform.partition("[")[2].rstrip("]"))
        return {_truncated(each, width) for each in self.values} - {_truncated(each, width) for each in self.stay}

    def _begins(self, bound: bytes) -> bool:
        texts = [value for value in self.values if isinstance(value, str)]
        try:
            told = bound.decode()
        except UnicodeDecodeError:
            return False
        if not texts or len(told) < 2 or told in self.stay:
            return False
        last = told[:-1] + chr(max(ord(told[-1]) - 1, 0))  # an upper bound is cut, and then made larger by one
        return any(
            any(text.startswith(begin) for text in texts) and not any(str(s).startswith(begin) for s in self.stay)
            for begin in (told, last)
        )


def traces(folder: Path, erased: Iterable[Erased]) -> list[Trace]:
    """Every place below a folder that holds one of the values."""
    wanted = list(erased)
    found = []
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        found += [Trace(name, "its name") for each in wanted if each.in_bytes(path.name.encode())]
        if path.is_file():
            content = path.read_bytes()
            for each in wanted:
                found += [Trace(name, where) for where in dict.fromkeys(_in_file(path, content, each))]
    return found


def physical(folder: Path, field_id: int) -> set[Any]:
    """All values of a column in whatever data file lies below a folder, seen by a reader or not."""
    found = set()
    for path in folder.rglob("*.parquet"):
        for _, id, values in _decoded(path):
            found |= values if id == field_id else set()
    return found - {None}


def _in_file(path: Path, content: bytes, erased: Erased) -> Iterator[str]:
    if erased.in_bytes(content):
        yield "bytes"
    if content[:4] == pages.MAGIC:
        yield from _in_parquet(path, erased)
    elif content[:4] == b"Obj\x01":
        yield from _in_avro(path, erased)
    elif content[:4] == b"PFA1":
        yield from _in_puffin(content, erased)
    elif content[:2] == _GZIP:
        yield from _in_text(gzip.decompress(content), erased)
    elif path.name.endswith(".json"):
        yield from _in_text(content, erased)


def _in_parquet(path: Path, erased: Erased) -> Iterator[str]:
    for column in pages.columns(path):
        if any(erased.in_bytes(page) for page in column.pages):
            yield f"pages of {column.name}"
        if column.field_id == erased.field_id:
            if column.dictionary & erased.encoded:
                yield f"dictionary of {column.name}"
            if any(erased.is_bound(bound) for bound in column.bounds):
                yield f"statistics of {column.name}"
    for name, id, values in _decoded(path):
        here = values & erased.values
        if here and (id == erased.field_id or any(_is_telling(value) for value in here)):
            yield f"values of {name}"


def _decoded(path: Path) -> Iterator[tuple[str, int, set[Any]]]:
    """Every leaf of a file with all its values; text also by its dictionaries, as pyarrow reads them."""
    file = pq.ParquetFile(path)
    texts = [c.path for c in map(file.schema.column, range(len(file.schema))) if c.physical_type == "BYTE_ARRAY"]
    for read in (file, pq.ParquetFile(path, read_dictionary=texts)):
        table = read.read()
        for field, column in zip(table.schema, table.columns, strict=True):
            for chunk in column.chunks:
                yield from _leaves(field, chunk)


def _leaves(field: Any, array: Any) -> Iterator[tuple[str, int, set[Any]]]:
    kind = array.type
    if isinstance(kind, pa.ExtensionType):
        yield from _leaves(field, array.storage)
    elif pa.types.is_struct(kind):
        for place in range(kind.num_fields):
            yield from _leaves(kind.field(place), array.field(place))
    elif pa.types.is_map(kind):
        yield from _leaves(kind.key_field, array.keys)
        yield from _leaves(kind.item_field, array.items)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        yield from _leaves(kind.value_field, array.values)
    else:
        values = array.dictionary if pa.types.is_dictionary(kind) else array
        id = int((field.metadata or {}).get(b"PARQUET:field_id", -1))
        yield field.name, id, {_plain(value) for value in values.to_pylist()}


def _in_avro(path: Path, erased: Erased) -> Iterator[str]:
    with path.open("rb") as file:
        reader = fastavro.reader(file)
        head = {key: str(value) for key, value in reader.metadata.items()}
        records: list[Any] = list(reader)
    if any(erased.in_bytes(value.encode()) for value in head.values()):
        yield "header"
    for record in records:
        if any(_tells(value, erased) for value in _walk(record)):
            yield "a record"
        if "data_file" in record:
            yield from _in_entry(record["data_file"], json.loads(head["partition-spec"]), erased)
        elif "manifest_path" in record:
            yield from _in_summaries(record, _specs(path), erased)


def _in_entry(file: dict[str, Any], spec: list[dict[str, Any]], erased: Erased) -> Iterator[str]:
    for kind in ("lower_bounds", "upper_bounds"):
        for bound in file.get(kind) or []:
            if bound["key"] == erased.field_id and erased.is_bound(bound["value"]):
                yield f"{kind} of {Path(file['file_path']).name}"
    for field, value in zip(spec, file["partition"].values(), strict=True):
        if field["source-id"] == erased.field_id and _plain(value) in erased.partitions(field["transform"]):
            yield f"partition of {Path(file['file_path']).name}"


def _in_summaries(record: dict[str, Any], specs: dict[int, list[dict[str, Any]]], erased: Erased) -> Iterator[str]:
    """The bounds of partition values in a manifest list."""
    for field, told in zip(specs[record["partition_spec_id"]], record.get("partitions") or [], strict=True):
        if field["source-id"] == erased.field_id:
            telling = {form for value in erased.partitions(field["transform"]) for form in _encodings(value)}
            if telling & {told["lower_bound"], told["upper_bound"]}:
                yield f"partition bounds of {Path(record['manifest_path']).name}"


def _specs(manifest_list: Path) -> dict[int, list[dict[str, Any]]]:
    """The partition specs of the table that a manifest list belongs to, as its newest metadata file tells them."""
    for folder in manifest_list.parents:
        if files := list((folder / "metadata").glob("*.metadata.json")):
            content = max(files, key=lambda path: path.stat().st_mtime_ns).read_bytes()
            document = json.loads(gzip.decompress(content) if content[:2] == _GZIP else content)
            return {spec["spec-id"]: spec["fields"] for spec in document["partition-specs"]}
    raise AssertionError(f"{manifest_list} belongs to no table")


def _in_puffin(content: bytes, erased: Erased) -> Iterator[str]:
    size = int.from_bytes(content[-12:-8], "little")
    payload = content[-12 - size : -12]
    footer = json.loads(_uncompressed(payload, "lz4") if content[-8] & 1 else payload)
    if any(_tells(value, erased) for value in _walk(footer)):
        yield "footer"
    for blob in footer["blobs"]:
        body = content[blob["offset"] : blob["offset"] + blob["length"]]
        if erased.in_bytes(_uncompressed(body, blob.get("compression-codec"))):
            yield f"blob {blob['type']}"


def _uncompressed(content: bytes, codec: str | None) -> bytes:
    if codec is None:
        return content
    with pa.input_stream(pa.BufferReader(content), compression=codec) as stream:
        return bytes(stream.read())


def _in_text(content: bytes, erased: Erased) -> Iterator[str]:
    if erased.in_bytes(content):
        yield "text"
    if any(_tells(value, erased) for value in _walk(json.loads(content))):
        yield "json"


def _walk(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value
        for item in value.values():
            yield from _walk(item)
    elif isinstance(value, list):
        for item in value:
            yield from _walk(item)
    else:
        yield value


def _tells(value: Any, erased: Erased) -> bool:
    if isinstance(value, bytes):
        return erased.in_bytes(value)
    if isinstance(value, str):
        return erased.in_bytes(value.encode())
    return _is_telling(value) and value in erased.values


def _is_telling(value: Any) -> bool:
    """Whether a value is known wherever it stands, and not only in its own column."""
    return any(len(form) >= _SHORTEST for form in _spellings(value))


def _spellings(value: Any) -> Iterator[bytes]:
    match value:
        case str():
            java = quote_plus(value).replace("~", "%7E").replace("%2A", "*")
            for form in (value, quote(value, safe=""), quote_plus(value), java, json.dumps(value)[1:-1]):
                yield form.encode()
        case UUID():
            yield from (value.bytes, str(value).encode(), value.hex.encode())
        case bool() | None:
            return
        case int():
            yield str(value).encode()
            if abs(value) >= 2**40:
                yield value.to_bytes(8, "little", signed=True)
        case date() | Decimal():
            yield str(value).encode()


def _encodings(value: Any) -> Iterator[bytes]:
    match value:
        case str():
            yield value.encode()
        case UUID():
            yield value.bytes
        case date():
            yield (value - _EPOCH).days.to_bytes(4, "little", signed=True)
        case Decimal():
            exponent = value.as_tuple().exponent
            assert isinstance(exponent, int)
            number = int(value.scaleb(-exponent))
            for size in range((number.bit_length() // 8) + 1, 17):
                yield number.to_bytes(size, "big", signed=True)
            for size in (4, 8):
                if number.bit_length() < size * 8:
                    yield number.to_bytes(size, "little", signed=True)
        case int():
            for size in (4, 8):
                if value.bit_length() < size * 8:
                    yield value.to_bytes(size, "little", signed=True)


def _truncated(value: Any, width: int) -> Any:
    if isinstance(value, Decimal):
        exponent = value.as_tuple().exponent
        assert isinstance(exponent, int)
        number = int(value.scaleb(-exponent))
        return Decimal(number - number % width).scaleb(exponent)
    return value[:width] if isinstance(value, str) else value - value % width


def _plain(value: Any) -> Any:
    return UUID(bytes=value) if isinstance(value, bytes) and len(value) == 16 else value
