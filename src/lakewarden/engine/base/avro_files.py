"""Decodes a table's Avro metadata files with PyIceberg, with one decoder per schema.

PyIceberg builds a decoder for every file it opens, which takes longer than reading a small manifest; all manifests of a
table share a few schemas.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyiceberg.avro.decoder import BinaryDecoder
    from pyiceberg.avro.reader import Reader
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestEntry, ManifestFile
    from pyiceberg.schema import Schema

_SCHEMA = "avro.schema"
_ENTRIES, _FACTS, _LIST, _LIST_V3 = "entries", "facts", "list", "list-v3"
_STATUS, _DATA_FILE = 0, 2
_FACT_IDS = (100, 102, 103, 104, 125, 128)  # path, partition, rows, bytes, lower and upper bounds
_FIRST_ROW_ID = 15  # index of the field in a manifest list entry of format v3


def entries_at(io: FileIO, path: str) -> Iterator[ManifestEntry]:
    """The entries of a manifest as written, without inherited values."""
    return _records(io, path, _ENTRIES)


def facts_at(io: FileIO, path: str) -> Iterator[tuple[Any, ...]]:
    """For each entry of a manifest its status, and its file's path, partition, rows, bytes, lower and upper bounds."""
    return _records(io, path, _FACTS)


def manifests_at(io: FileIO, path: str) -> Iterator[ManifestFile]:
    """The manifests that a manifest list references."""
    return _records(io, path, _LIST)


def header_at(io: FileIO, path: str) -> dict[str, str]:
    """What the header of an Avro file says of it, such as the schema of the table that a manifest was written for."""
    from pyiceberg.avro.decoder import new_decoder

    with io.new_input(path).open() as stream:
        found: dict[str, str] = dict(_header().read(new_decoder(stream.read())).meta)
        return found


def first_row_ids_at(io: FileIO, path: str) -> dict[str, int | None]:
    """The row ids that the manifests of a manifest list begin with; None for those without row lineage."""
    return {manifest.manifest_path: manifest._data[_FIRST_ROW_ID] for manifest in _records(io, path, _LIST_V3)}


def _records(io: FileIO, path: str, kind: str) -> Iterator[Any]:
    from pyiceberg.avro.decoder import new_decoder
    from pyiceberg.avro.file import AvroFile

    file = AvroFile[Any](io.new_input(path))
    with file.input_file.open() as stream:
        file.decoder = new_decoder(stream.read())
    file.header = _header().read(file.decoder)
    if _SCHEMA not in file.header.meta:
        raise ValueError("it has no Avro schema")
    file.reader = _reader(file.header.meta[_SCHEMA], kind)
    yield from file


@cache
def _header() -> Reader:
    from pyiceberg.avro.file import META_SCHEMA, AvroFileHeader
    from pyiceberg.avro.resolver import construct_reader

    return construct_reader(META_SCHEMA, {-1: AvroFileHeader})


@lru_cache(maxsize=256)
def _reader(schema: str, kind: str) -> Any:
    """The decoder for records of a schema, as manifests or as manifest entries. It is stateless."""
    from pyiceberg.avro.resolver import resolve_reader
    from pyiceberg.manifest import (
        DEFAULT_READ_VERSION,
        MANIFEST_ENTRY_SCHEMAS,
        MANIFEST_LIST_FILE_SCHEMAS,
        DataFile,
        DataFileContent,
        FileFormat,
        ManifestContent,
        ManifestEntry,
        ManifestEntryStatus,
        ManifestFile,
        PartitionFieldSummary,
    )
    from pyiceberg.utils.schema_conversion import AvroSchemaConversion

    written = AvroSchemaConversion().avro_to_iceberg(json.loads(schema))
    if kind in (_LIST, _LIST_V3):
        types: Any = {-1: ManifestFile, 508: PartitionFieldSummary}
        version = DEFAULT_READ_VERSION if kind == _LIST else 3
        return resolve_reader(written, MANIFEST_LIST_FILE_SCHEMAS[version], types, {517: ManifestContent})
    if kind == _FACTS:
        return _FactReader(written)
    types = {-1: ManifestEntry, 2: DataFile}
    enums: Any = {0: ManifestEntryStatus, 101: FileFormat, 134: DataFileContent}
    return resolve_reader(written, MANIFEST_ENTRY_SCHEMAS[3], types, enums)


class _FactReader:
    """Decodes a few fields of manifest entries: without records and enums, in half the time."""

    def __init__(self, written: Schema) -> None:
        from pyiceberg.avro.resolver import construct_reader
        from pyiceberg.types import StructType

        file = written.find_type(_DATA_FILE)
        assert isinstance(file, StructType)
        entries, files = (
            {field.field_id: place for place, field in enumerate(fields)} for fields in (written.fields, file.fields)
        )
        self._entry = _flat(construct_reader(written))
        self._status, self._file = entries[_STATUS], entries[_DATA_FILE]
        self._places = [files.get(field_id) for field_id in _FACT_IDS]

    def read(self, decoder: BinaryDecoder) -> tuple[Any, ...]:
        entry = self._entry(decoder)
        file = entry[self._file]
        return entry[self._status], *(None if place is None else file[place] for place in self._places)


def _flat(reader: Any) -> Callable[[Any], Any]:
    """What decodes a value; a struct becomes a list of its fields as they are written."""
    from pyiceberg.avro.decoder import new_decoder
    from pyiceberg.avro.reader import IntegerReader, OptionReader, StringReader, StructReader

    decoder: Any = type(new_decoder(b""))
    if isinstance(reader, IntegerReader):
        return decoder.read_int  # type: ignore[no-any-return]
    if isinstance(reader, StringReader):
        return decoder.read_utf8  # type: ignore[no-any-return]
    if isinstance(reader, OptionReader):
        is_there, inner = decoder.read_int, _flat(reader.option)
        return lambda at: inner(at) if is_there(at) > 0 else None
    if isinstance(reader, StructReader):
        parts = [_flat(each) for _, each in reader.field_readers]
        return lambda at: [part(at) for part in parts]
    return reader.read  # type: ignore[no-any-return]
