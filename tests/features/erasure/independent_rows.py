"""The rows of a branch or tag, read by hand: metadata file, manifest list, manifests, data files, less what is deleted.

JSON, fastavro and pyarrow only, so that a defect of Lakewarden or PyIceberg cannot hide itself. Columns are found by
their ids, whatever they were called when a file was written.
"""

from __future__ import annotations

import gzip
import io
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from uuid import UUID

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

_DATA, _POSITIONS, _EQUALITY = 0, 1, 2
_DELETED = 2
_MARK = "_lakewarden/erasure.json"
_STATISTICS = ("statistics", "partition-statistics")
_PATH_ID, _POSITION_ID = 2147483546, 2147483545
_ROARING, _ROARING_WITH_RUNS = 12346, 12347


def local(location: str) -> Path:
    """The path of a file: address; whatever is quoted in it is quoted on disk as well."""
    return Path("/" + location.removeprefix("file:").lstrip("/"))


@dataclass(frozen=True)
class Entry:
    """A live file of a version, with the sequence number that its rows or deletes count from."""

    file: dict[str, Any]
    sequence: int
    spec: int

    @property
    def path(self) -> str:
        return str(self.file["file_path"])

    @property
    def partition(self) -> str:
        return repr((self.spec, self.file["partition"]))


class Version:
    """One version of a table, as its snapshot's own schema shows it."""

    def __init__(self, metadata: dict[str, Any], snapshot_id: int) -> None:
        (self.snapshot,) = [s for s in metadata["snapshots"] if s["snapshot-id"] == snapshot_id]
        wanted = self.snapshot.get("schema-id", metadata["current-schema-id"])
        (self.schema,) = [schema for schema in metadata["schemas"] if schema["schema-id"] == wanted]
        self._specs = {spec["spec-id"]: spec for spec in metadata["partition-specs"]}

    @cached_property
    def entries(self) -> list[Entry]:
        found = []
        for manifest in _avro(self.snapshot["manifest-list"]):
            for entry in _avro(manifest["manifest_path"]):
                if entry["status"] != _DELETED:
                    given = entry.get("sequence_number")
                    sequence = manifest.get("sequence_number", 0) if given is None else given
                    found.append(Entry(entry["data_file"], sequence or 0, manifest["partition_spec_id"]))
        return found

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """Every row that a reader sees, in no particular order."""
        return [_project(row, self.schema["fields"]) for row in self._live]

    def values(self, field_id: int) -> set[Any]:
        """The values of one column."""
        return {_find(row, field_id) for row in self._live}

    def without(self, field_id: int, values: Iterable[Any], schema: Mapping[str, Any] | None = None) -> list[str]:
        """All rows but those that have one of these values in a column, in an order that can be compared.

        They are shown as another schema shows them, where one is given.
        """
        gone, fields = set(map(_plain, values)), (schema or self.schema)["fields"]
        return sorted(repr(_project(row, fields)) for row in self._live if _find(row, field_id) not in gone)

    def told(self) -> list[str]:
        """All rows, in an order that can be compared."""
        return self.without(0, ())

    @cached_property
    def _masked(self) -> dict[str, list[tuple[int, int]]]:
        """For each data file the deleted positions, each with the sequence number of its delete."""
        found: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for entry in self.entries:
            if entry.file.get("content") != _POSITIONS:
                continue
            if entry.file["file_format"].upper() == "PUFFIN":
                target = entry.file["referenced_data_file"]
                found[target] += [(position, entry.sequence) for position in _vector(entry.file)]
                continue
            for row in _rows_by_id(entry.path):
                found[row[_PATH_ID]].append((row[_POSITION_ID], entry.sequence))
        return found

    @cached_property
    def _equal(self) -> list[tuple[Entry, list[int], set[tuple[Any, ...]]]]:
        found = []
        for entry in self.entries:
            if entry.file.get("content") == _EQUALITY:
                ids = list(entry.file["equality_ids"])
                keys = {tuple(_find(row, id) for id in ids) for row in _rows_by_id(entry.path)}
                found.append((entry, ids, keys))
        return found

    @cached_property
    def _live(self) -> list[dict[int, Any]]:
        """What was read stays known, also when the files are gone."""
        return list(self._read())

    def _read(self) -> Iterator[dict[int, Any]]:
        for entry in self.entries:
            if entry.file.get("content", _DATA) != _DATA:
                continue
            masked = {position for position, sequence in self._masked[entry.path] if sequence >= entry.sequence}
            deletes = [
                (ids, keys)
                for delete, ids, keys in self._equal
                if delete.sequence > entry.sequence
                and (not self._specs[delete.spec]["fields"] or delete.partition == entry.partition)
            ]
            for position, row in enumerate(_rows_by_id(entry.path)):
                if position not in masked and not any(
                    tuple(_find(row, id) for id in ids) in keys for ids, keys in deletes
                ):
                    yield row


def read_metadata(location: str | Path) -> dict[str, Any]:
    content = local(str(location)).read_bytes()
    document: dict[str, Any] = json.loads(gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content)
    return document


def versions(metadata_location: str) -> dict[str, Version]:
    """What every branch and tag of a table points to."""
    metadata = read_metadata(metadata_location)
    return {name: Version(metadata, ref["snapshot-id"]) for name, ref in metadata["refs"].items()}


def unreferenced_copies(metadata_location: str) -> set[str]:
    """Files in a table's folder that its metadata does not reference; what it references must be there.

    Earlier metadata files may be gone, and the mark that requests leave is no file of the table's.
    """
    metadata = read_metadata(metadata_location)
    told = [entry["statistics-path"] for key in _STATISTICS for entry in metadata.get(key, [])]
    reached = {metadata_location, *told}
    for snapshot in metadata["snapshots"]:
        version = Version(metadata, snapshot["snapshot-id"])
        manifests = {manifest["manifest_path"] for manifest in _avro(snapshot["manifest-list"])}
        reached |= {snapshot["manifest-list"], *manifests, *(entry.path for entry in version.entries)}
    paths = {local(location) for location in reached}
    assert [path for path in paths if not path.is_file()] == []
    folder = local(metadata["location"])
    paths |= {local(entry["metadata-file"]) for entry in metadata.get("metadata-log", [])}
    there = {path for path in folder.rglob("*") if path.is_file() and not path.name.endswith(".crc")}
    return {str(path.relative_to(folder)) for path in there - paths} - {_MARK}


def _avro(location: str) -> list[dict[str, Any]]:
    with local(location).open("rb") as file:
        return list(fastavro.reader(file))  # type: ignore[arg-type]


# --- columns by their ids --------------------------------------------------------------------------------------------


def _rows_by_id(location: str) -> list[dict[int, Any]]:
    table = pq.ParquetFile(local(location)).read()
    columns = [(_id(column), [_by_id(value, column.type) for value in table[column.name].to_pylist()])
               for column in table.schema]  # fmt: skip
    return [{id: values[place] for id, values in columns} for place in range(table.num_rows)]


def _id(column: Any) -> int:
    return int(column.metadata[b"PARQUET:field_id"])


def _by_id(value: Any, kind: Any) -> Any:
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {
            _id(kind.field(i)): _by_id(value[kind.field(i).name], kind.field(i).type) for i in range(kind.num_fields)
        }
    if pa.types.is_map(kind):
        return [(_by_id(key, kind.key_type), _by_id(item, kind.item_type)) for key, item in value]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [_by_id(item, kind.value_type) for item in value]
    return _plain(value)


def _plain(value: Any) -> Any:
    return UUID(bytes=value) if isinstance(value, bytes) and len(value) == 16 else value


def _find(row: dict[int, Any], field_id: int) -> Any:
    """A column's value, however deep within structs."""
    if field_id in row:
        return row[field_id]
    for value in row.values():
        if isinstance(value, dict) and (found := _find(value, field_id)) is not None:
            return found
    return None


def _project(row: dict[int, Any], fields: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        field["name"]: _shown(row.get(field["id"], field.get("initial-default")), field["type"]) for field in fields
    }


def _shown(value: Any, kind: Any) -> Any:
    if value is None or isinstance(kind, str):
        return value
    if kind["type"] == "struct":
        return _project(value, kind["fields"])
    if kind["type"] == "list":
        return [_shown(item, kind["element"]) for item in value]
    return sorted((repr(_shown(key, kind["key"])), _shown(item, kind["value"])) for key, item in value)


# --- deletion vectors ------------------------------------------------------------------------------------------------


def _vector(file: dict[str, Any]) -> Iterator[int]:
    """The positions of a deletion vector: a length, a magic number, and Roaring bitmaps by the upper half."""
    content = local(file["file_path"]).read_bytes()
    start = file["content_offset"]
    blob = io.BytesIO(content[start + 8 : start + file["content_size_in_bytes"] - 4])
    assert content[start + 4 : start + 8] == b"\xd1\xd3\x39\x64"
    for _ in range(_number(blob, 8)):
        upper = _number(blob, 4) << 32
        for position in _bitmap(blob):
            yield upper | position


def _bitmap(blob: io.BytesIO) -> Iterator[int]:
    """One Roaring bitmap of 32 bits in its portable form."""
    cookie = _number(blob, 4)
    runs = 0
    if cookie & 0xFFFF == _ROARING_WITH_RUNS:
        count = (cookie >> 16) + 1
        runs = int.from_bytes(blob.read((count + 7) // 8), "little")
        offsets = count >= 4
    else:
        assert cookie == _ROARING
        count, offsets = _number(blob, 4), True
    heads = [(_number(blob, 2), _number(blob, 2) + 1) for _ in range(count)]
    if offsets:
        blob.read(4 * count)
    for place, (upper, size) in enumerate(heads):
        for lower in _container(blob, size, bool(runs >> place & 1)):
            yield upper << 16 | lower


def _container(blob: io.BytesIO, size: int, is_runs: bool) -> Iterator[int]:
    if is_runs:
        for _ in range(_number(blob, 2)):
            first, more = _number(blob, 2), _number(blob, 2)
            yield from range(first, first + more + 1)
    elif size <= 4096:
        for _ in range(size):
            yield _number(blob, 2)
    else:
        bits = int.from_bytes(blob.read(8192), "little")
        yield from (place for place in range(65536) if bits >> place & 1)


def _number(blob: io.BytesIO, size: int) -> int:
    return int.from_bytes(blob.read(size), "little")
