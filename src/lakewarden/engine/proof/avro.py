"""Searches Avro files for key values: manifests, manifest lists, and data files.

They are read by fastavro with each file's own schema, independently of how Lakewarden or PyIceberg would read them.
Every manifest entry is examined, including those of removed files: bounds and partition values by type, paths part by
part, everything else as bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakewarden.engine.proof.parquet import PATHS_OF_DELETES
from lakewarden.engine.proof.texts import Pile, Texts
from lakewarden.engine.proof.wanted import Token, Trace, WantedKey

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata

_DELETED = 2
_BLOB = 1 << 20  # bytes of small fields that are searched together
_PATHS = ("file_path", "referenced_data_file", "manifest_path")


@dataclass(frozen=True)
class AvroFile:
    """An open Avro file: its header and its records."""

    schema: Any
    head: Mapping[str, str]
    records: Iterator[Any]

    @property
    def kind(self) -> str:
        names = {field["name"] for field in _fields(self.schema)}
        if "manifest_path" in names:
            return "manifest-list"
        return "manifest" if {"status", "data_file"} <= names else "data"


@dataclass(frozen=True)
class ListedFile:
    """A file in a manifest, with what its entry contains of the keys."""

    path: str
    content: int
    is_live: bool
    bounds: Mapping[int, tuple[Token | None, Token | None]]
    partition: Mapping[tuple[int, str], Token]
    """Partition values derived from a key, by field id and transform."""


def opened(source: Any) -> AvroFile:
    import fastavro

    reader = fastavro.reader(source)
    return AvroFile(reader.writer_schema, dict(reader.metadata), iter(reader))


def listed_manifests(file: AvroFile) -> Iterator[str]:
    """The manifests in a manifest list."""
    return (str(record["manifest_path"]) for record in file.records)


def listed_files(file: AvroFile, keys: Sequence[WantedKey], metadata: TableMetadata) -> Iterator[ListedFile]:
    """The files in a manifest."""
    by_id = {key.field_id: key for key in keys}
    fields = list(_partition_keys(file, by_id, metadata))
    for record in file.records:
        entry = record["data_file"]
        lower, upper = (dict(_pairs(entry.get(name))) for name in ("lower_bounds", "upper_bounds"))
        values = list((entry.get("partition") or {}).values())
        yield ListedFile(
            str(entry["file_path"]),
            int(entry.get("content") or 0),
            record["status"] != _DELETED,
            {n: (_decoded(key, lower.get(n)), _decoded(key, upper.get(n))) for n, key in by_id.items()},
            {
                (key.field_id, transform): key.token(values[place])
                for place, key, transform in fields
                if place < len(values) and values[place] is not None
            },
        )


def look(file: AvroFile, keys: Sequence[WantedKey], texts: Texts, metadata: TableMetadata) -> Iterator[Trace]:
    """Traces of the keys in an Avro file."""
    for value in file.head.values():
        yield from texts.content(value.encode("utf-8", "surrogateescape"), "head of the file")
    if file.kind == "manifest":
        yield from _Manifest(file, keys, texts, metadata).traces()
    elif file.kind == "manifest-list":
        yield from _manifest_list(file, keys, texts, metadata)
    else:
        yield from _data(file, keys, texts)


class _Manifest:
    """Reads one manifest, with the partition spec in its header."""

    def __init__(self, file: AvroFile, keys: Sequence[WantedKey], texts: Texts, metadata: TableMetadata) -> None:
        self._records = file.records
        self._pile = Pile(texts)
        self._keys = {key.field_id: key for key in keys}
        self._partition = list(_partition_keys(file, self._keys, metadata))

    def traces(self) -> Iterator[Trace]:
        for record in self._records:
            entry = record["data_file"]
            for name in _PATHS:
                if path := entry.get(name):
                    yield from self._pile.path(path, "path of a file")
            yield from self._bounds(entry)
            values = list((entry.get("partition") or {}).values())
            for place, key, transform in self._partition:
                if place < len(values):
                    yield from key.partition(transform, values[place], "partition value")
            for piece in self._others(entry, values):
                yield from self._pile.add(piece, "bytes of an entry")
        yield from self._pile.end()

    def _bounds(self, entry: Mapping[str, Any]) -> Iterator[Trace]:
        for name, side in (("lower_bounds", "lower"), ("upper_bounds", "upper")):
            for number, raw in _pairs(entry.get(name)):
                if number == PATHS_OF_DELETES:
                    yield from self._pile.path(raw.decode(errors="replace"), f"{side} bound of paths")
                elif (key := self._keys.get(number)) is not None and (bound := key.decoded(raw)) is not None:
                    where = f"{side} bound of column {key.path}"
                    yield from key.lower(bound, where) if side == "lower" else key.upper(bound, where)

    def _others(self, entry: Mapping[str, Any], partition: Sequence[Any]) -> Iterator[bytes]:
        ours = {place for place, _, _ in self._partition}
        for place, value in enumerate(partition):
            if place not in ours:
                yield from _as_bytes(value)
        for name, value in entry.items():
            if name in ("lower_bounds", "upper_bounds"):
                known = self._keys.keys() | {PATHS_OF_DELETES}
                yield from (raw for number, raw in _pairs(value) if number not in known)
            elif name not in _PATHS and name != "partition":
                yield from _as_bytes(value)


def _partition_keys(
    file: AvroFile, keys: Mapping[int, WantedKey], metadata: TableMetadata
) -> Iterator[tuple[int, WantedKey, str]]:
    """The partition fields of a manifest that are derived from a key: their positions, keys and transforms."""
    try:
        spec = json.loads(file.head["partition-spec"])
    except (KeyError, ValueError):
        number = int(file.head.get("partition-spec-id", "0"))
        known = [spec for spec in metadata.partition_specs if spec.spec_id == number]
        spec = [{"source-id": f.source_id, "transform": str(f.transform)} for s in known for f in s.fields]
    for place, field in enumerate(spec):
        for source in field.get("source-ids") or [field.get("source-id")]:
            if source in keys:
                yield place, keys[source], str(field["transform"])


def _decoded(key: WantedKey, raw: bytes | None) -> Token | None:
    return None if raw is None else key.decoded(raw)


def _manifest_list(file: AvroFile, keys: Sequence[WantedKey], texts: Texts, metadata: TableMetadata) -> Iterator[Trace]:
    by_id = {key.field_id: key for key in keys}
    specs = {spec.spec_id: spec for spec in metadata.partition_specs}
    pile = Pile(texts)
    for record in file.records:
        yield from pile.path(record["manifest_path"], "path of a manifest")
        spec = specs.get(record.get("partition_spec_id"))
        for place, summary in enumerate(record.get("partitions") or ()):
            field = spec.fields[place] if spec and place < len(spec.fields) else None
            key = by_id.get(field.source_id) if field else None
            for side in ("lower_bound", "upper_bound"):
                raw = summary.get(side)
                if raw is None:
                    continue
                if key is None or field is None:
                    yield from pile.add(raw, "partition summary")
                else:
                    yield from _summary(raw, str(field.transform), key, f"partition summary, {side.replace('_', ' ')}")
        for piece in _as_bytes(record.get("key_metadata")):
            yield from pile.add(piece, "bytes of an entry")
    yield from pile.end()


def _summary(raw: bytes, transform: str, key: WantedKey, where: str) -> Iterator[Trace]:
    """The bound of a partition field: of the key's type for some transforms, an integer for the others."""
    if transform == "identity" or transform.startswith("truncate"):
        value: Any = key.decoded(raw)
    else:
        value = int.from_bytes(raw, "little", signed=True)
    if value is not None:
        yield from key.partition(transform, value, where)


def _data(file: AvroFile, keys: Sequence[WantedKey], texts: Texts) -> Iterator[Trace]:
    columns = [(key, names) for key in keys for names in _columns(file.schema, key)]
    rows = dict.fromkeys(range(len(columns)), 0)
    pile = Pile(texts)
    for record in file.records:
        for place, (key, names) in enumerate(columns):
            value = record
            for name in names:
                value = value.get(name) if isinstance(value, dict) else None
            rows[place] += value is not None and key.token(value) in key.tokens
        for piece in _as_bytes(record):
            yield from pile.add(piece, "bytes of a row")
    for place, (_, names) in enumerate(columns):
        if rows[place]:
            yield Trace(f"column {'.'.join(names)}, {rows[place]} {'row' if rows[place] == 1 else 'rows'}")
    yield from pile.end()


def _columns(schema: Any, key: WantedKey) -> Iterator[tuple[str, ...]]:
    def walk(record: Any, above: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        for field in _fields(record):
            names = (*above, field["name"])
            dotted = ".".join(names).lower().removeprefix("row.")
            if field.get("field-id") == key.field_id or ("field-id" not in field and dotted in key.names):
                yield names
            yield from walk(field["type"], names)

    return walk(schema, ())


def _fields(schema: Any) -> Sequence[Any]:
    """The fields of a record, also of a nullable one."""
    if isinstance(schema, list):
        return [field for one in schema for field in _fields(one)]
    return schema.get("fields", ()) if isinstance(schema, dict) and schema.get("type") == "record" else ()


def _pairs(bounds: Any) -> Iterator[tuple[int, bytes]]:
    """A map with integer keys, which Avro encodes as a list."""
    for pair in bounds or ():
        yield int(pair["key"]), pair["value"]


def _as_bytes(value: Any) -> Iterator[bytes]:
    if isinstance(value, str):
        yield value.encode("utf-8", "surrogatepass")
    elif isinstance(value, bytes):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _as_bytes(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _as_bytes(inner)
