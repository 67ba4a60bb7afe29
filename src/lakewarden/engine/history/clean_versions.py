"""Builds new snapshots in place of dirty ones: the same files, except for the replaced ones, with the same schema.

A manifest is rewritten once for all snapshots that share it, and lists no removed files. All its files existed before
and keep their sequence numbers, so that the same deletes apply and readers do not treat them as new. Deletes for
partitions without data in any new snapshot are left out: partition values may reveal a person, and compaction often
leaves such deletes behind. A new snapshot has no parent, because the old one's parent expires. `summary_carryover.py`
builds its summary, `replace_files.py` publishes it.
"""

from __future__ import annotations

import uuid
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakewarden.engine.catalog.snapshot_removal import lineage_of
from lakewarden.engine.commit.new_snapshot import COUNTED, count, delete_leftovers, metadata_folder
from lakewarden.engine.files.manifests import Manifests, has_live_files, referenced_data_file, write_entries
from lakewarden.engine.history.manifest_index import Survey, is_for_all, partition_of, place_of
from lakewarden.engine.history.summary_carryover import Summaries

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile, ManifestEntry, ManifestFile
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from lakewarden.engine.history.carried_deletes import CarriedDeletes
    from lakewarden.engine.history.replacement import Cleansing
    from lakewarden.lifecycle.basics import Stamp


@dataclass(frozen=True)
class _Written:
    """A rewritten manifest; None if no file is left in it."""

    manifest: ManifestFile | None
    counts: Counter[str]
    places: array[int]


class CleanVersions:
    """New snapshots, and the metadata files written for them."""

    def __init__(
        self,
        table: Table,
        change: Cleansing,
        survey: Survey,
        carried: CarriedDeletes,
        reader: Manifests,
        stamp: Stamp,
        purged: Mapping[str, bool],
    ) -> None:
        """Call `expect` for all new snapshots before the first `make`; for `purged`, see `purged_partitions.py`."""
        self.table, self._change, self._survey, self._carried = table, change, survey, carried
        self._reader, self._stamp = reader, stamp
        self._token = uuid.uuid4().hex[:8]
        metadata = table.metadata
        self._summaries = Summaries(metadata.snapshots, lineage_of(metadata.properties), change.reveals, purged)
        self._rewritten: dict[str, _Written] = {}
        self._kept: dict[str, ManifestFile] = {}
        self._inhabited: set[int] = set()
        self._data_places: set[int] = set()
        self.written: list[str] = []
        self.made: dict[int, Snapshot] = {}
        """The new version for each old one."""

    @property
    def manifests_rewritten(self) -> int:
        return len(self._rewritten)

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last new snapshot; 0 in format v1, which has none."""
        if self.table.metadata.format_version == 1:
            return 0
        return int(self.table.metadata.last_sequence_number) + len(self.made)

    def expect(self, manifests: Sequence[ManifestFile]) -> None:
        """Note the partitions and data files of a snapshot to come."""
        for manifest in manifests:
            if not manifest.content:
                self._inhabited |= self._survey[manifest].partitions
                self._data_places.update(self._survey[manifest].places)

    def make(self, old: Snapshot, manifests: Sequence[ManifestFile]) -> Snapshot:
        """Write the new snapshot for an old one, including its manifest list."""
        from pyiceberg.manifest import write_manifest_list

        metadata, path = self.table.metadata, self._path(f"snap{len(self.made)}")
        new_id = self._new_id()
        sequence = self.last_sequence + 1 if metadata.format_version > 1 else 0
        listed, totals = self._listed(manifests, new_id, sequence)
        self.written.append(path)
        with write_manifest_list(
            metadata.format_version, self.table.io.new_output(path), new_id, None, sequence, "deflate"
        ) as listing:
            listing.add_manifests(listed)
        self.made[old.snapshot_id] = self._snapshot(old, new_id, sequence, path, totals)
        return self.made[old.snapshot_id]

    def places(self) -> Iterator[int]:
        """Digests of the locations of all files in the new snapshots."""
        for written in self._rewritten.values():
            yield from written.places
        for manifest in self._kept.values():
            yield from self._survey[manifest].places

    def manifest_paths(self) -> set[str]:
        """Manifests of old snapshots that the new ones reuse."""
        return set(self._kept)

    def discard(self) -> None:
        """Delete the files written so far: they were not committed."""
        delete_leftovers(self.table.io, self.written)
        self.written.clear()

    def _listed(
        self, manifests: Sequence[ManifestFile], new_id: int, sequence: int
    ) -> tuple[list[ManifestFile], Counter[str]]:
        listed, totals = [], Counter[str]()
        for manifest in manifests:
            known = self._survey[manifest]
            is_dangling = bool(manifest.content) and not known.partitions <= self._inhabited
            if not known.is_dirty and not known.has_removed and not is_dangling:
                if has_live_files(manifest):
                    self._kept[manifest.manifest_path] = manifest
                    listed.append(manifest)
                    totals.update(known.counts)
                continue
            written = self._rewritten.get(manifest.manifest_path)
            if written is None:
                written = self._rewritten[manifest.manifest_path] = self._rewrite(manifest, new_id, sequence)
            if written.manifest is not None:
                listed.append(written.manifest)
                totals.update(written.counts)
        return listed, totals

    def _rewrite(self, manifest: ManifestFile, new_id: int, sequence: int) -> _Written:
        entries = [
            kept
            for entry in self._reader.entries(self.table.io, manifest)
            if (kept := self._cleaned(entry)) is not None
        ]
        counts, places = Counter[str](), array("q")
        for entry in entries:
            count(counts, entry.data_file)
            places.append(place_of(entry.data_file.file_path))
        if not entries:
            return _Written(None, counts, places)
        path = self._path(f"m{len(self._rewritten)}")
        self.written.append(path)
        made = write_entries(
            self.table.metadata,
            self.table.io,
            path,
            manifest.partition_spec_id,
            new_id,
            bool(manifest.content),
            existing=entries,
        )
        made.sequence_number = sequence  # explicit, because several snapshots list it
        return _Written(made, counts, places)

    def _cleaned(self, entry: ManifestEntry) -> ManifestEntry | None:
        """An entry for the new manifest; None for a removed file."""
        from pyiceberg.manifest import ManifestEntry, ManifestEntryStatus

        file = self._file(entry)
        if file is None:
            return None
        return ManifestEntry.from_args(
            status=ManifestEntryStatus.EXISTING,
            snapshot_id=entry.snapshot_id,
            sequence_number=entry.sequence_number or 0,
            file_sequence_number=entry.file_sequence_number or 0,
            data_file=file,
        )

    def _file(self, entry: ManifestEntry) -> DataFile | None:
        from pyiceberg.manifest import DataFileContent

        path, is_data = entry.data_file.file_path, entry.data_file.content == DataFileContent.DATA
        if not is_data and self._is_dangling(entry.data_file):
            return None
        if path in self._change.replacements:
            return self._change.replacements[path].file
        if self._carried.concerns(self.table.io, entry):
            return self._carried.carried(self.table, entry.data_file)
        return entry.data_file

    def _is_dangling(self, file: DataFile) -> bool:
        """Whether deletes are for a partition without data; those for one data file apply in any partition."""
        if is_for_all(file) or partition_of(file) in self._inhabited:
            return False
        only_for = referenced_data_file(file)
        return only_for is None or place_of(only_for) not in self._data_places

    def _snapshot(self, old: Snapshot, new_id: int, sequence: int, path: str, totals: Counter[str]) -> Snapshot:
        """Keeps the old snapshot's timestamp, so that time travel and the ages of refs work as before."""
        from pyiceberg.table.snapshots import Operation, Snapshot, Summary

        counts = {f"total-{what}": str(totals[what]) for what in COUNTED}
        summary = {**self._summaries.carried(old), **counts, **self._change.facts, **self._stamp.properties()}
        return Snapshot.model_validate(
            {
                "snapshot-id": new_id,
                "manifest-list": path,
                "sequence-number": sequence,
                "timestamp-ms": old.timestamp_ms,
                "schema-id": old.schema_id,
                "summary": Summary(Operation.OVERWRITE, **summary),
            }
        )

    def _new_id(self) -> int:
        taken = {snapshot.snapshot_id for snapshot in self.made.values()}
        while (found := self.table.metadata.new_snapshot_id()) in taken:
            continue
        return found

    def _path(self, what: str) -> str:
        return f"{metadata_folder(self.table)}/{self._stamp.file_prefix}-{self._token}-{what}.avro"
