"""Builds a new snapshot: what it keeps of the head, what it removes, what it adds.

It is written on top of a head and published by `publish.py`, which discards it if another writer was faster. Files that
replace others keep their partition and an explicit data sequence number, so that concurrent deletes apply to them as
before. Files with new rows have none: readers use that of the commit.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Self

from lakewarden.engine.catalog.positions import stamp_properties
from lakewarden.engine.catalog.snapshots import MAIN, notes_of
from lakewarden.engine.commit.publish import Attempt, at_refs, by_client, ref_update
from lakewarden.engine.files.manifests import Manifests, has_live_files, partition_key, write_entries
from lakewarden.lifecycle.basics import Stamp

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import DataFile, ManifestEntry, ManifestFile
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.table.update import TableUpdate

    from lakewarden.engine.files.live_files import DeleteFile, LiveFile
    from lakewarden.engine.files.written_files import AddedFile

_LARGE, _SMALL = 8 << 20, 1 << 20  # bytes below which manifests of data files, and of delete files, are absorbed
_MANY = 8
COUNTED = ("data-files", "delete-files", "records", "files-size", "position-deletes", "equality-deletes")
_NOTHING = {f"total-{what}": "0" for what in COUNTED}


@dataclass
class _Tally:
    added: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTED, 0))
    removed: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTED, 0))

    def count(self, file: DataFile, added: bool) -> None:
        count(self.added if added else self.removed, file)

    def summary(self, before: Mapping[str, str]) -> dict[str, str]:
        """The changes, and the head's totals updated."""
        names = {"data-files": "deleted-data-files", "records": "deleted-records"}
        facts = {f"added-{what}": str(n) for what, n in self.added.items() if n}
        facts |= {names.get(what, f"removed-{what}"): str(n) for what, n in self.removed.items() if n}
        for what in COUNTED:
            total = before.get(f"total-{what}", "")
            if total.isascii() and total.isdigit():
                facts[f"total-{what}"] = str(max(int(total) + self.added[what] - self.removed[what], 0))
        return facts


def count(counts: MutableMapping[str, int], file: DataFile) -> None:
    """Count a file as snapshot summaries do."""
    from pyiceberg.manifest import DataFileContent

    counts["files-size"] += file.file_size_in_bytes
    if file.content == DataFileContent.DATA:
        counts["data-files"] += 1
        counts["records"] += file.record_count
    else:
        by_position = file.content == DataFileContent.POSITION_DELETES
        counts["delete-files"] += 1
        counts["position-deletes" if by_position else "equality-deletes"] += file.record_count


class Draft:
    """A snapshot on top of a head, or the first one. Leaving it by an exception deletes its metadata files."""

    def __init__(self, table: Table, head: Snapshot | None, stamp: Stamp, reader: Manifests) -> None:
        self.table = table
        self.head = head
        self.snapshot_id = table.metadata.new_snapshot_id()
        self.written: list[str] = []
        self._stamp = stamp
        self._reader = reader
        self._tally = _Tally()
        self._token = uuid.uuid4().hex[:8]
        self._manifests = [m for m in head.manifests(table.io) if has_live_files(m)] if head else []

    def remove(self, paths_by_manifest: Mapping[str, set[str]]) -> None:
        """Remove files: manifests that list some are rewritten with the rest unchanged.

        Removed files are listed in one manifest per spec, which the next snapshot leaves out.
        """
        kept: list[ManifestFile] = []
        removed: dict[tuple[int, bool], list[ManifestEntry]] = {}
        for manifest in self._manifests:
            gone = paths_by_manifest.get(manifest.manifest_path)
            if not gone:
                kept.append(manifest)
                continue
            spec_id, deletes = manifest.partition_spec_id, bool(manifest.content)
            entries = self._reader.entries(self.table.io, manifest)
            removed.setdefault((spec_id, deletes), []).extend(e for e in entries if e.data_file.file_path in gone)
            existing = [entry for entry in entries if entry.data_file.file_path not in gone]
            if existing:
                kept.append(self._write(spec_id, deletes, existing=existing))
        for (spec_id, deletes), entries_gone in removed.items():
            for entry in entries_gone:
                self._tally.count(entry.data_file, added=False)
            kept.append(self._write(spec_id, deletes, removed=entries_gone))
        self._manifests = kept

    def add(self, files: Sequence[AddedFile], deletes: bool = False, merges: bool = True) -> None:
        """Add data files, or delete files, in one manifest per partition spec.

        It also replaces small manifests of earlier commits, unless `merges` is false: then they are left for later.
        """
        from pyiceberg.manifest import ManifestEntry, ManifestEntryStatus

        with_sequences = self.table.metadata.format_version > 1
        for spec_id in sorted({added.spec_id for added in files}):
            entries = []
            for added in files:
                if added.spec_id == spec_id:
                    self._tally.count(added.file, added=True)
                    entries.append(
                        ManifestEntry.from_args(
                            status=ManifestEntryStatus.ADDED,
                            snapshot_id=self.snapshot_id,
                            sequence_number=added.sequence if with_sequences else None,
                            data_file=added.file,
                        )
                    )
            existing = self._absorbed(spec_id, deletes) if merges else []
            self._manifests.insert(0, self._write(spec_id, deletes, added=entries, existing=existing))

    def _absorbed(self, spec_id: int, deletes: bool) -> list[ManifestEntry]:
        """The entries of Lakewarden's own small manifests, which the new manifest replaces so that they do not pile up.

        Of data files, those of earlier commits of the same operation; of delete files, all of them once there are many.
        """
        prefix, limit = ("/lw-", _SMALL) if deletes else (f"/lw-{self._stamp.operation}-", _LARGE)
        own = [
            manifest
            for manifest in self._manifests
            if prefix in manifest.manifest_path
            and manifest.partition_spec_id == spec_id
            and bool(manifest.content) == deletes
            and manifest.manifest_length < limit
            and has_live_files(manifest)
            and manifest.manifest_path not in self.written
        ]
        if deletes and len(own) < _MANY:
            return []
        absorbed = {manifest.manifest_path for manifest in own}
        self._manifests = [manifest for manifest in self._manifests if manifest.manifest_path not in absorbed]
        return [entry for manifest in own for entry in self._reader.entries(self.table.io, manifest)]

    def merge(self, manifests: Sequence[ManifestFile]) -> None:
        """Merge data manifests of one spec into one, sorted by partition."""
        names = {manifest.manifest_path for manifest in manifests}
        entries = [entry for manifest in manifests for entry in self._reader.entries(self.table.io, manifest)]
        entries.sort(key=lambda entry: tuple(map(str, partition_key(entry.data_file))))
        merged = self._write(manifests[0].partition_spec_id, False, existing=entries)
        self._manifests = [*(m for m in self._manifests if m.manifest_path not in names), merged]

    def attempt(
        self,
        uuid: str,
        branch: str,
        facts: Mapping[str, str],
        operation: str = "replace",
        refs: Mapping[str, int] = MappingProxyType({}),
        more: Sequence[TableUpdate] = (),
    ) -> Attempt:
        """Commit this snapshot to a branch that has not moved, along with `more` updates, which require these refs."""
        expected = {branch: self.head.snapshot_id if self.head else None, **refs}
        if by_client(self.table) and not self.table.metadata.snapshots and branch != MAIN:
            del expected[branch]  # PyIceberg refuses to assert it; the whole metadata is compared anyway
        updates = (*self.updates(branch, facts, operation), *more)
        return Attempt(at_refs(uuid, expected), updates, self.discard, self.snapshot_id)

    def updates(self, branch: str, facts: Mapping[str, str], operation: str = "replace") -> tuple[TableUpdate, ...]:
        """Write the manifest list; returns the updates for the catalog. The operation `replace` changes no rows."""
        from pyiceberg.manifest import write_manifest_list
        from pyiceberg.table.snapshots import Operation, Snapshot, Summary
        from pyiceberg.table.update import AddSnapshotUpdate, SetPropertiesUpdate

        metadata, path = self.table.metadata, self._path("snap")
        parent = self.head.snapshot_id if self.head else None
        sequence = getattr(metadata, "last_sequence_number", -1) + 1  # format v1 has none: 0
        self.written.append(path)
        with write_manifest_list(
            metadata.format_version,
            self.table.io.new_output(path),
            self.snapshot_id,
            parent,
            sequence,
            "deflate",
        ) as listing:
            listing.add_manifests(self._manifests)
        before = notes_of(self.head) if self.head else _NOTHING
        summary = {**self._tally.summary(before), **facts, **self._stamp.properties()}
        snapshot = Snapshot.model_validate(
            {
                "snapshot-id": self.snapshot_id,
                "parent-snapshot-id": parent,
                "manifest-list": path,
                "sequence-number": sequence,
                "timestamp-ms": max(int(time.time() * 1000), metadata.last_updated_ms),
                "schema-id": metadata.current_schema_id,
                "summary": Summary(Operation(operation), **summary),
            }
        )
        stamps = stamp_properties(self.table, snapshot, facts) if branch == MAIN else {}
        kept = (SetPropertiesUpdate(updates=stamps),) if stamps else ()
        return AddSnapshotUpdate(snapshot=snapshot), self.moved(branch), *kept

    def moved(self, branch: str) -> TableUpdate:
        """Point a branch at this snapshot."""
        return ref_update(branch, "branch", self.snapshot_id, self.table.metadata.refs.get(branch))

    def discard(self) -> None:
        """Delete the files written for it: it was not committed."""
        delete_leftovers(self.table.io, self.written)
        self.written.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.discard()

    def _write(
        self,
        spec_id: int,
        deletes: bool,
        *,
        added: Iterable[ManifestEntry] = (),
        existing: Iterable[ManifestEntry] = (),
        removed: Iterable[ManifestEntry] = (),
    ) -> ManifestFile:
        path = self._path(f"m{len(self.written)}")
        self.written.append(path)
        return write_entries(
            self.table.metadata,
            self.table.io,
            path,
            spec_id,
            self.snapshot_id,
            deletes,
            added=added,
            existing=existing,
            removed=removed,
        )

    def _path(self, what: str) -> str:
        return f"{metadata_folder(self.table)}/{self._stamp.file_prefix}-{self._token}-{what}.avro"


def by_manifest(files: Iterable[LiveFile | DeleteFile]) -> dict[str, set[str]]:
    """The paths of files by the manifest that lists them."""
    found: dict[str, set[str]] = {}
    for file in files:
        found.setdefault(file.manifest, set()).add(file.path)
    return found


def metadata_folder(table: Table) -> str:
    """Where a table's metadata files are written."""
    own = table.metadata.properties.get("write.metadata.path")
    return (own or f"{table.metadata.location.rstrip('/')}/metadata").rstrip("/")


def delete_leftovers(io: FileIO, paths: Iterable[str]) -> None:
    """Delete files that no snapshot references. One that cannot be deleted is an orphan, and found as such."""
    for path in paths:
        with suppress(OSError):
            io.delete(path)
