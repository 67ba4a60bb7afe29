"""Finds the files and versions of a table that hold rows with key values, without Spark and with few reads.

Each manifest and file is read once, however many versions share it. Files that metadata rules out are not opened; of
the rest only key columns are read. No error message contains a value.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Literal, TypeVar

from lakewarden.engine.base.faults import translating
from lakewarden.engine.base.kept import Kept
from lakewarden.engine.catalog.snapshot_removal import BACKFILL, checkpoint_values
from lakewarden.engine.catalog.snapshots import notes_of
from lakewarden.engine.files.manifests import manifests_of, read_entries
from lakewarden.engine.rows.key_columns import Looked, look_into
from lakewarden.engine.rows.key_values import KeyValues
from lakewarden.engine.rows.pruning import Image, Mention, Sieve
from lakewarden.engine.rows.redaction import Redaction
from lakewarden.errors import BrokenTable

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile, ManifestEntry, ManifestFile
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from lakewarden.engine.files.live_files import Files
    from lakewarden.engine.storage.storage import StoredFiles
    from lakewarden.records.erasure import HiddenKey

Progress = Callable[[int, int], None]
Item = TypeVar("Item")
Result = TypeVar("Result")
_READERS = 8
_AT_A_TIME = 1_000
_SHARES = 64  # parts of a batch, for even load
_KEPT = 2  # searches whose results are cached: a plan and its purge search the same files
_FILES_KEPT = 100_000


@dataclass(frozen=True)
class Match:
    """A file that holds matching rows, whether or not deletes mask them."""

    path: str
    bytes: int
    rows: int
    matching: int
    content: Literal["data", "equality-deletes"]
    file: DataFile = field(repr=False, compare=False)


@dataclass(frozen=True)
class Searched:
    """The result of a search, and how much was read."""

    matches: Mapping[str, Match]
    snapshots: Mapping[int, int]
    """Every snapshot with a match, and the number of matching rows in its live data files, masked or not."""
    tainted: frozenset[int]
    """Snapshots whose own metadata reveals a value: entries of removed files, names of partitions."""
    listed: int
    pruned: int
    read: int
    bytes_read: int
    leaving: Mapping[str, int] = field(default_factory=dict)
    """Sizes of files without a match that only snapshots with a match or a mention reference, and no ref."""


@dataclass(frozen=True)
class _Suspect:
    file: DataFile = field(repr=False)
    keys: tuple[KeyValues, ...]
    by_partition: frozenset[int]


@dataclass(frozen=True)
class _Listing:
    """What one manifest lists, as far as it matters here."""

    live: Mapping[str, int]
    """Data files and equality deletes, with their sizes."""
    suspects: tuple[_Suspect, ...]
    images: Mapping[str, tuple[int, frozenset[Image]]]
    """Live files with their row counts and partition transform results."""
    removed: Mapping[str, Mention]
    """Removed files, with what their entries reveal."""


def search(
    table: Table,
    keys: Sequence[HiddenKey],
    files: Files,
    storage: StoredFiles,
    *,
    only: Collection[int] | None = None,
    progress: Progress | None = None,
) -> Searched:
    """Find the rows with key values in all snapshots of a table, or in some."""
    with Redaction.of(table.metadata, [key.field_id for key in keys]).of_errors():
        return _Search(table, [KeyValues(key) for key in keys if key.values], files, storage).run(only, progress)


class _Search:
    def __init__(self, table: Table, keys: Sequence[KeyValues], files: Files, storage: StoredFiles) -> None:
        from pyiceberg.table import TableProperties

        self._table, self._keys, self._storage = table, keys, storage
        self._reader = files.reader
        self._about = f"table {'.'.join(table.name())}"
        self._is_mapped = TableProperties.DEFAULT_NAME_MAPPING in table.metadata.properties
        self._sieve = Sieve(table.metadata, keys)
        self._texts = frozenset(text for key in keys for text in key.texts)
        self._known = _memory.get(" ".join([str(table.metadata.table_uuid), *(key.fingerprint for key in keys)]), dict)

    def run(self, only: Collection[int] | None, progress: Progress | None) -> Searched:
        snapshots = [one for one in self._table.metadata.snapshots if only is None or one.snapshot_id in only]
        by_path: dict[str, ManifestFile] = {}
        lists: dict[int, tuple[str, ...]] = {}
        with translating(self._about):
            found = _in_threads(lambda snapshot: manifests_of(self._table.io, snapshot), snapshots)
            for snapshot, manifests in zip(snapshots, found, strict=True):
                by_path |= {manifest.manifest_path: manifest for manifest in manifests}
                lists[snapshot.snapshot_id] = tuple(manifest.manifest_path for manifest in manifests)
            listings = dict(zip(by_path, _in_threads(self._listing, by_path.values()), strict=True))
        suspects = {one.file.file_path: one for listing in listings.values() for one in listing.suspects}
        looked = self._looked(suspects.values(), progress)
        matches = {path: _match(suspects[path].file, seen) for path, seen in looked.items() if seen.matching}
        live: set[str] = set().union(*(listing.live for listing in listings.values()))
        rows, tainted = _rows(lists, listings, matches), self._tainted(snapshots, lists, listings, matches, live)
        heads = {ref.snapshot_id for ref in self._table.metadata.refs.values()}
        return Searched(
            matches=matches,
            snapshots=rows,
            tainted=tainted,
            leaving=_leaving(lists, listings, {*rows, *tainted} - heads, matches),
            listed=len(live),
            pruned=len(live) - sum(seen.was_read for seen in looked.values()),
            read=sum(seen.was_read for seen in looked.values()),
            bytes_read=sum(seen.bytes_read for seen in looked.values()),
        )

    def _listing(self, manifest: ManifestFile) -> _Listing:
        from pyiceberg.manifest import DataFileContent, ManifestEntryStatus

        live: list[DataFile] = []
        removed: list[DataFile] = []
        for entry in self._entries(manifest):
            if entry.status == ManifestEntryStatus.DELETED:
                removed.append(entry.data_file)
            elif entry.data_file.content != DataFileContent.POSITION_DELETES:
                live.append(entry.data_file)
        sieve = self._sieve
        suspects = (_Suspect(file, sieve.may_hold(file), sieve.holds_by_partition(file)) for file in live)
        return _Listing(
            live={file.file_path: file.file_size_in_bytes for file in live},
            suspects=tuple(suspect for suspect in suspects if suspect.keys),
            images={file.file_path: (file.record_count, found) for file in live if (found := sieve.images(file))},
            removed={file.file_path: mention for file in removed if (mention := sieve.mentioned_by(file))},
        )

    def _entries(self, manifest: ManifestFile) -> Iterable[ManifestEntry]:
        """All entries of a manifest. The cached ones do not include removed files."""
        if manifest.deleted_files_count == 0:
            return self._reader.entries(self._table.io, manifest)
        return read_entries(self._table.io, manifest, live=False)

    def _tainted(
        self,
        snapshots: Sequence[Snapshot],
        lists: Mapping[int, Sequence[str]],
        listings: Mapping[str, _Listing],
        matches: Mapping[str, Match],
        live: Set[str],
    ) -> frozenset[int]:
        """Snapshots that mention a value which no live file holds and no remaining row explains."""
        surviving: set[Image] = set()
        for listing in listings.values():
            for path, (rows, images) in listing.images.items():
                if path not in matches or rows > matches[path].matching:
                    surviving |= images
        revealing = {
            manifest
            for manifest, listing in listings.items()
            if any(path not in live and mention.is_trace(surviving) for path, mention in listing.removed.items())
        }
        return frozenset(
            snapshot.snapshot_id
            for snapshot in snapshots
            if revealing.intersection(lists[snapshot.snapshot_id])
            or self._sieve.mentioned_by_summary(notes_of(snapshot)).is_trace(surviving)
            or self._is_stamped(snapshot)
        )

    def _is_stamped(self, snapshot: Snapshot) -> bool:
        """Whether the stamp of a backfill's batch has a value."""
        stamps = [text for name, text in notes_of(snapshot).items() if name.startswith(BACKFILL)]
        return any(str(value) in self._texts for text in stamps for _, value in checkpoint_values(text))

    def _looked(self, suspects: Collection[_Suspect], progress: Progress | None) -> dict[str, Looked]:
        """Search files that were not searched for the same values before: files never change."""
        looked = {path: self._known[path] for one in suspects if (path := one.file.file_path) in self._known}
        new = [suspect for suspect in suspects if suspect.file.file_path not in looked]
        for suspect, seen in zip(new, _in_threads(self._look, new), strict=True):
            looked[suspect.file.file_path] = seen
            if len(self._known) < _FILES_KEPT:
                self._known[suspect.file.file_path] = seen
            if progress:
                progress(len(looked), len(suspects))
        return looked

    def _look(self, suspect: _Suspect) -> Looked:
        from pyiceberg.manifest import FileFormat

        path = suspect.file.file_path
        if suspect.file.file_format != FileFormat.PARQUET:
            raise BrokenTable(
                f"{self._about}: the file {path} is {suspect.file.file_format.value}, from which rows cannot be erased",
                "Only Parquet is supported. Rewrite the other files, and expire the versions that have them.",
            )
        size = suspect.file.file_size_in_bytes
        return look_into(self._storage, path, suspect.keys, suspect.by_partition, self._about, self._is_mapped, size)


_memory: Kept[dict[str, Looked]] = Kept(_KEPT, lambda _: 1)
"""What the last searches found in files, by table and by a digest of the values."""


def _match(file: DataFile, seen: Looked) -> Match:
    from pyiceberg.manifest import DataFileContent

    is_data = file.content == DataFileContent.DATA
    content: Literal["data", "equality-deletes"] = "data" if is_data else "equality-deletes"
    return Match(file.file_path, file.file_size_in_bytes, file.record_count, seen.matching, content, file)


def _rows(
    lists: Mapping[int, Sequence[str]], listings: Mapping[str, _Listing], matches: Mapping[str, Match]
) -> dict[int, int]:
    """The number of matching rows of each snapshot with a match; computed once per manifest."""
    dirty: dict[str, int] = {}
    for path, listing in listings.items():
        if held := [matches[file] for file in listing.live if file in matches]:
            dirty[path] = sum(match.matching for match in held if match.content == "data")
    return {
        snapshot: sum(dirty[path] for path in manifests if path in dirty)
        for snapshot, manifests in lists.items()
        if any(path in dirty for path in manifests)
    }


def _leaving(
    lists: Mapping[int, Sequence[str]],
    listings: Mapping[str, _Listing],
    going: Set[int],
    matches: Mapping[str, Match],
) -> dict[str, int]:
    """Files without a match that only expiring snapshots reference."""
    kept = {manifest for snapshot, manifests in lists.items() if snapshot not in going for manifest in manifests}
    needed = {path for manifest in kept for path in listings[manifest].live}
    only_theirs = {manifest for snapshot in going for manifest in lists[snapshot]} - kept
    return {
        path: size
        for manifest in only_theirs
        for path, size in listings[manifest].live.items()
        if path not in needed and path not in matches
    }


def _in_threads(work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """Results in order, a limited number of items at a time; the first failure cancels those not started.

    A thread takes several items at once: scheduling one by one would cost as much as reading a small file.
    """
    left = iter(items)
    with ThreadPoolExecutor(_READERS, thread_name_prefix="search") as threads:
        while some := list(islice(left, _AT_A_TIME)):
            each = max(len(some) // _SHARES, 1)
            parts = [some[start : start + each] for start in range(0, len(some), each)]
            for results in threads.map(lambda part: [work(item) for item in part], parts):
                yield from results
