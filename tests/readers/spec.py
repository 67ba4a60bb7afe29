"""A table's metadata against the Iceberg spec: refs, logs, snapshots and their summaries, manifests, and every file.

Read with json, fastavro and pyarrow only. What is wrong is answered as sentences, none if all is well.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import fastavro
import pyarrow.parquet as pq

from tests.features.erasure.independent_rows import _vector, local, read_metadata
from tests.readers.spec_files import DELETE_KINDS, LINEAGE, PATH_ID, POSITION_ID, DataFile
from tests.readers.spec_values import (
    FLOATING,
    decoded,
    is_nan,
    lowest_and_highest,
    order,
    plain,
    result_kind,
    signed_halves,
)

_ADDED, _DELETED = 1, 2
_DATA, _POSITIONS = 0, 1


def faults(metadata_location: str, is_checked: Callable[[str], bool] = bool) -> list[str]:
    """Everything about a table that is not as the spec says; files are looked into if `is_checked` says so."""
    return list(_Table(read_metadata(metadata_location), is_checked).faults())


@dataclass(frozen=True)
class _Live:
    """A live entry of a snapshot, with what it inherits from its manifest."""

    file: dict[str, Any]
    status: int
    snapshot_id: int
    sequence: int
    file_sequence: int
    spec_id: int

    @property
    def content(self) -> int:
        return int(self.file.get("content") or 0)


class _Table:
    def __init__(self, document: dict[str, Any], is_checked: Callable[[str], bool]) -> None:
        self.document, self.is_checked = document, is_checked
        self.version: int = document["format-version"]
        self.snapshots = {snapshot["snapshot-id"]: snapshot for snapshot in document["snapshots"]}
        self.specs = {spec["spec-id"]: spec for spec in document["partition-specs"]}
        newest_last = sorted(
            document["schemas"], key=lambda schema: schema["schema-id"] == document["current-schema-id"]
        )
        self.kinds = LINEAGE | {id: kind for schema in newest_last for id, kind in _primitives(schema["fields"])}
        self.seen: set[str] = set()  # manifests and files: they are the same wherever they are named

    def faults(self) -> Iterator[str]:
        yield from self._document()
        for snapshot in self.document["snapshots"]:
            yield from (f"snapshot {snapshot['snapshot-id']}: {fault}" for fault in self._snapshot(snapshot))

    # --- the metadata file -------------------------------------------------------------------------------------------

    def _document(self) -> Iterator[str]:
        document = self.document
        main = document["refs"].get("main", {}).get("snapshot-id")
        yield from _unlike("current-snapshot-id", document.get("current-snapshot-id"), main)
        for name, ref in document["refs"].items():
            yield from _unless(ref["snapshot-id"] in self.snapshots, f"ref {name} points to no snapshot")
        yield from self._logs()
        last = document.get("last-sequence-number", 0)
        newest = max((snapshot.get("sequence-number", 0) for snapshot in self.snapshots.values()), default=0)
        yield from _unless(last >= newest, f"last-sequence-number {last} is below {newest}")
        for names, ids, current in (
            ("schemas", "schema-id", "current-schema-id"),
            ("partition-specs", "spec-id", "default-spec-id"),
            ("sort-orders", "order-id", "default-sort-order-id"),
        ):
            found = [one[ids] for one in document[names]]
            yield from _unless(len(set(found)) == len(found) and document[current] in found, f"{names} {found}")
        yield from _unless(
            document["last-column-id"] >= max(set(self.kinds) - set(LINEAGE)), "last-column-id is too low"
        )
        fields = [field["field-id"] for spec in self.specs.values() for field in spec["fields"]]
        yield from _unless(document["last-partition-id"] >= max(fields, default=999), "last-partition-id is too low")
        for name in ("statistics", "partition-statistics"):
            for one in document.get(name, []):
                yield from _unless(one["snapshot-id"] in self.snapshots, f"{name} of a snapshot that is gone")
                yield from _unless(local(one["statistics-path"]).is_file(), f"{name}: no {one['statistics-path']}")
        if self.version == 1:
            yield from _unless("schema" in document and "partition-spec" in document, "v1 requires both of them")
        if self.version == 3:
            for id, snapshot in self.snapshots.items():
                rows = snapshot.get("first-row-id", 0) + snapshot.get("added-rows", 0)
                yield from _unless(rows <= document["next-row-id"], f"next-row-id is below those of snapshot {id}")

    def _logs(self) -> Iterator[str]:
        document = self.document
        log = document.get("snapshot-log", [])
        gone = [entry["snapshot-id"] for entry in log if entry["snapshot-id"] not in self.snapshots]
        yield from _unless(not gone, f"snapshot-log names {gone}, which are gone")
        if log:
            yield from _unlike("the end of snapshot-log", log[-1]["snapshot-id"], document.get("current-snapshot-id"))
        for name in ("snapshot-log", "metadata-log"):
            times = [entry["timestamp-ms"] for entry in document.get(name, [])]
            yield from _unless(times == sorted(times), f"{name} is not in order")
        dead = [e["metadata-file"] for e in document.get("metadata-log", []) if not local(e["metadata-file"]).is_file()]
        yield from _unless(not dead, f"metadata-log names {len(dead)} files that are not there, as {dead[:1]}")
        newest = max((snapshot["timestamp-ms"] for snapshot in self.snapshots.values()), default=0)
        yield from _unless(document["last-updated-ms"] >= newest - 60_000, "last-updated-ms is before a snapshot")

    # --- snapshots ---------------------------------------------------------------------------------------------------

    def _snapshot(self, snapshot: dict[str, Any]) -> Iterator[str]:
        known = [schema["schema-id"] for schema in self.document["schemas"]]
        yield from _unless(
            snapshot.get("schema-id", known[0]) in known, f"schema {snapshot.get('schema-id')} is unknown"
        )
        live: list[_Live] = []
        changes: Counter[str] = Counter()
        for listed in _avro(snapshot["manifest-list"])[1]:
            number = listed.get("sequence_number") or 0
            yield from _unless(number <= snapshot.get("sequence-number", 0), "a manifest is newer than its snapshot")
            entries = list(self._entries(listed))
            live += [entry for entry in entries if entry.status != _DELETED]
            if listed["added_snapshot_id"] == snapshot["snapshot-id"]:
                changes.update(_changes(entries, snapshot["snapshot-id"]))
            name = listed["manifest_path"].rpartition("/")[2]
            if name not in self.seen:
                self.seen.add(name)
                yield from (f"manifest {name}: {fault}" for fault in self._manifest(listed, entries))
        paths = Counter(entry.file["file_path"] for entry in live if entry.file["file_format"].upper() != "PUFFIN")
        yield from _unless(max(paths.values(), default=1) == 1, "a file is live twice")
        yield from self._summary(snapshot["summary"], live, changes)
        yield from self._files(live)

    def _summary(self, summary: dict[str, str], live: list[_Live], changes: Counter[str]) -> Iterator[str]:
        totals: Counter[str] = Counter()
        for entry in live:
            for name, number in _counted(entry).items():
                totals[f"total-{name}"] += number
        for name in _TOTALS:
            if f"total-{name}" in summary:
                yield from _unlike(f"total-{name}", int(summary[f"total-{name}"]), totals[f"total-{name}"])
        if "total-records" not in summary:
            yield "the summary has no total-records"
        for name in _CHANGES:
            yield from _unlike(f"summary {name}", int(summary.get(name, 0)), changes[name])

    # --- manifests ---------------------------------------------------------------------------------------------------

    def _entries(self, listed: dict[str, Any]) -> Iterator[_Live]:
        for entry in _avro(listed["manifest_path"])[1]:
            sequence, file_sequence = entry.get("sequence_number"), entry.get("file_sequence_number")
            inherited = listed.get("sequence_number") or 0
            yield _Live(
                entry["data_file"],
                entry["status"],
                listed["added_snapshot_id"] if entry.get("snapshot_id") is None else entry["snapshot_id"],
                inherited if sequence is None else sequence,
                inherited if file_sequence is None else file_sequence,
                listed["partition_spec_id"],
            )

    def _manifest(self, listed: dict[str, Any], entries: list[_Live]) -> Iterator[str]:
        header, raw = _avro(listed["manifest_path"])
        size = local(listed["manifest_path"]).stat().st_size
        yield from _unlike("manifest_length", listed["manifest_length"], size)
        yield from _unlike("its partition-spec-id", int(header["partition-spec-id"]), listed["partition_spec_id"])
        spec = self.specs[listed["partition_spec_id"]]
        told = [(f["source-id"], f["transform"], f["name"]) for f in json.loads(header["partition-spec"])]
        known = [(f["source-id"], f["transform"], f["name"]) for f in spec["fields"]]
        yield from _unlike("its partition-spec", told, known)
        schema = {id for id, _ in _primitives(json.loads(header["schema"])["fields"])}
        sources = {field["source-id"] for field in spec["fields"] if field["transform"] != "void"}
        yield from _unless(sources <= schema, "its schema lacks a column that partitions are made of")
        content = "deletes" if listed.get("content") else "data"
        if header.get("format-version", "1") != "1":
            yield from _unlike("its content", header.get("content"), content)
        for status, name in enumerate(("existing", "added", "deleted")):
            of_it = [entry for entry in entries if entry.status == status]
            files = listed.get(f"{name}_files_count", listed.get(f"{name}_data_files_count"))
            yield from _unlike(f"{name}_files_count", files, len(of_it))
            rows = sum(entry.file["record_count"] for entry in of_it)
            yield from _unlike(f"{name}_rows_count", listed[f"{name}_rows_count"], rows)
        live = [entry.sequence for entry in entries if entry.status != _DELETED]
        if self.version > 1 and live:
            lowest = listed["min_sequence_number"]
            yield from _unless(lowest <= min(live), f"min_sequence_number {lowest} is above {min(live)}")
        for entry, stored in zip(entries, raw, strict=True):
            yield from self._entry(listed, entry, stored)
        yield from self._partitions(listed, spec, entries)

    def _entry(self, listed: dict[str, Any], entry: _Live, stored: dict[str, Any]) -> Iterator[str]:
        name = entry.file["file_path"].rpartition("/")[2]
        inherited = listed.get("sequence_number") or 0
        if entry.status == _ADDED:
            yield from _unlike(f"{name}: snapshot_id", entry.snapshot_id, listed["added_snapshot_id"])
            yield from _unlike(f"{name}: file_sequence_number", entry.file_sequence, inherited)
        elif self.version > 1 and inherited:
            both = (stored.get("sequence_number"), stored.get("file_sequence_number"))
            yield from _unless(None not in both, f"{name}: an old entry without sequence numbers")
        yield from _unless(entry.sequence <= entry.file_sequence, f"{name}: its rows are newer than itself")
        is_delete = entry.content != _DATA
        yield from _unlike(f"{name}: is in a manifest of deletes", bool(listed.get("content")), is_delete)
        orders = [order["order-id"] for order in self.document["sort-orders"]]
        yield from _unless((entry.file.get("sort_order_id") or 0) in orders, f"{name}: unknown sort order")

    def _partitions(self, listed: dict[str, Any], spec: dict[str, Any], entries: list[_Live]) -> Iterator[str]:
        summaries = listed.get("partitions") or []
        if not summaries and self._has_different_uuids(spec, entries):
            return
        yield from _unlike("partition summaries", len(summaries), len(spec["fields"]))
        for field, told in zip(spec["fields"], summaries, strict=False):
            kind = result_kind(field["transform"], self.kinds[field["source-id"]])
            values = [plain(entry.file["partition"][field["name"]], kind) for entry in entries]
            about = f"summary of {field['name']}"
            yield from _unlike(f"{about}: contains_null", told["contains_null"], None in values)
            if kind in FLOATING:
                yield from _unlike(f"{about}: contains_nan", told["contains_nan"], any(map(is_nan, values)))
            else:
                yield from _unless(not told.get("contains_nan"), f"{about}: {kind} contains NaN")
            ends, bounds = lowest_and_highest(values), (told["lower_bound"], told["upper_bound"])
            if ends is None or None in bounds:
                yield from _unlike(f"{about}: bounds", bounds, (None, None) if ends is None else ends)
                continue
            lower, upper = (decoded(bound, kind) for bound in bounds)
            if kind == "uuid" and (lower, upper) == lowest_and_highest(values, signed_halves):
                continue  # Java's writers
            if order(lower) > order(ends[0]) or order(upper) < order(ends[1]) or (lower, upper) != ends:
                yield f"{about}: bounds are {lower!r} and {upper!r} for {ends}"

    def _has_different_uuids(self, spec: dict[str, Any], entries: list[_Live]) -> bool:
        """Whether partitions are by different UUIDs, which Java may order otherwise: then bounds may be left out."""
        for field in spec["fields"]:
            if result_kind(field["transform"], self.kinds[field["source-id"]]) == "uuid":
                values = [plain(entry.file["partition"][field["name"]], "uuid") for entry in entries]
                if len(set(values)) > 1:
                    return True
        return False

    # --- files -------------------------------------------------------------------------------------------------------

    def _files(self, live: list[_Live]) -> Iterator[str]:
        data = {entry.file["file_path"]: entry for entry in live if entry.content == _DATA}
        for entry in live:
            path = entry.file["file_path"]
            name = path.rpartition("/")[2]
            if not local(path).is_file():
                yield f"{name}: is not there"
                continue
            if not self.is_checked(path):
                continue
            if entry.file["file_format"].upper() == "PUFFIN":
                yield from _unlike(f"{name}: deletes", len(set(_vector(entry.file))), entry.file["record_count"])
            elif entry.content == _POSITIONS:
                yield from (f"{name}: {fault}" for fault in self._deletes(entry, data))
            if entry.content == _DATA and path not in self.seen:
                self.seen.add(path)
                file = DataFile(entry.file, self.kinds)
                yield from (f"{name}: {fault}" for fault in file.faults())
                yield from (f"{name}: {fault}" for fault in file.partition_faults(self.specs[entry.spec_id]))

    def _deletes(self, entry: _Live, data: dict[str, _Live]) -> Iterator[str]:
        """Deletes in order, of rows that are there, in the partition that their data file is in."""
        if entry.file["file_path"] not in self.seen:
            self.seen.add(entry.file["file_path"])
            yield from DataFile(entry.file, DELETE_KINDS).delete_faults()
        table = pq.ParquetFile(local(entry.file["file_path"])).read()
        by_id = {int(field.metadata[b"PARQUET:field_id"]): table[field.name].to_pylist() for field in table.schema}
        pairs = list(zip(by_id[PATH_ID], by_id[POSITION_ID], strict=True))
        yield from _unless(pairs == sorted(pairs) and len(set(pairs)) == len(pairs), "deletes are not in order")
        referenced = entry.file.get("referenced_data_file")
        yield from _unless(referenced is None or {path for path, _ in pairs} == {referenced}, "references another file")
        for path in {path for path, _ in pairs if path in data}:
            target = data[path]
            yield from _unlike("partition", _place(entry), _place(target))
            most = max(position for other, position in pairs if other == path)
            yield from _unless(most < target.file["record_count"], f"deletes row {most} of {path}, which has fewer")
            yield from _unless(entry.sequence >= target.sequence, f"is older than {path}")
        yield from _unless(any(path in data for path, _ in pairs), "is for no data file of this snapshot")


_TOTALS = ("data-files", "delete-files", "records", "files-size", "position-deletes", "equality-deletes")
_CHANGES = (
    "added-data-files", "deleted-data-files", "added-records", "deleted-records", "added-files-size",
    "removed-files-size", "added-delete-files", "removed-delete-files", "added-position-deletes",
    "removed-position-deletes", "added-equality-deletes", "removed-equality-deletes",
)  # fmt: skip
_NAMES = {"deleted": {"data-files": "deleted-data-files", "records": "deleted-records"}, "added": {}}


def _counted(entry: _Live) -> dict[str, int]:
    rows, size = entry.file["record_count"], entry.file["file_size_in_bytes"]
    if entry.file.get("content_size_in_bytes") is not None:
        size = entry.file["content_size_in_bytes"]
    if entry.content == _DATA:
        return {"data-files": 1, "records": rows, "files-size": size}
    kind = "position-deletes" if entry.content == _POSITIONS else "equality-deletes"
    return {"delete-files": 1, kind: rows, "files-size": size}


def _changes(entries: list[_Live], snapshot_id: int) -> Counter[str]:
    """What one manifest adds and takes away, as a summary names it."""
    found: Counter[str] = Counter()
    for entry in entries:
        if entry.snapshot_id == snapshot_id and entry.status in (_ADDED, _DELETED):
            for name, number in _counted(entry).items():
                is_data = name in ("data-files", "records")
                way = "added" if entry.status == _ADDED else "deleted" if is_data else "removed"
                found[f"{way}-{name}"] += number
    return found


def _place(entry: _Live) -> str:
    return repr((entry.spec_id, entry.file["partition"]))


def _primitives(fields: list[dict[str, Any]]) -> Iterator[tuple[int, str]]:
    for field in fields:
        yield from _primitives_of(field["id"], field["type"])


def _primitives_of(id: int, kind: Any) -> Iterator[tuple[int, str]]:
    if isinstance(kind, str):
        yield id, kind
    elif kind["type"] == "struct":
        yield from _primitives(kind["fields"])
    elif kind["type"] == "list":
        yield from _primitives_of(kind["element-id"], kind["element"])
    else:
        yield from _primitives_of(kind["key-id"], kind["key"])
        yield from _primitives_of(kind["value-id"], kind["value"])


def _avro(location: str) -> tuple[dict[str, str], list[dict[str, Any]]]:
    """An Avro file's own metadata, and its records."""
    with local(location).open("rb") as file:
        reader: Any = fastavro.reader(file)
        return dict(reader.metadata), list(reader)


def _unlike(name: str, found: Any, expected: Any) -> Iterator[str]:
    if found != expected:
        yield f"{name} is {found!r}, not {expected!r}"


def _unless(is_so: bool, otherwise: str) -> Iterator[str]:
    if not is_so:
        yield otherwise
