"""Which versions of a table need a missing or damaged file, and which one does not.

Called only after a read failed, so it may read all metadata. It does not check whether other data files exist.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakewarden.engine.base.faults import translating
from lakewarden.engine.base.locations import same_place
from lakewarden.engine.catalog.snapshots import ancestors
from lakewarden.engine.files.manifests import manifests_of
from lakewarden.engine.files.reachable import manifest_and_files
from lakewarden.errors import LakewardenError

if TYPE_CHECKING:
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

_READERS = 8


@dataclass(frozen=True)
class Damage:
    """The versions that need a damaged file, newest first, and the newest version of main that does not."""

    needed_by: tuple[int, ...]
    current_needs_it: bool
    sound: int | None


def damage_of(table: Table, file: str) -> Damage:
    """The versions that need a file: a manifest list, manifest, data file or delete file."""
    metadata, wanted = table.metadata, same_place(file)
    newest_first = sorted(metadata.snapshots, key=lambda s: (s.timestamp_ms, s.sequence_number or 0), reverse=True)
    with ThreadPoolExecutor(_READERS, thread_name_prefix="damage") as readers:
        lists = dict(
            zip(
                (s.snapshot_id for s in newest_first),
                readers.map(lambda s: _listed(table, s), newest_first),
                strict=True,
            )
        )
        manifests = {m.manifest_path: m for listed in lists.values() for m in listed or ()}
        looks = readers.map(lambda manifest: _look(table, manifest, wanted), manifests.values())
        found = dict(zip(manifests, looks, strict=True))
    needing = {
        s.snapshot_id
        for s in newest_first
        if same_place(s.manifest_list) == wanted
        or any(found[m.manifest_path].needs for m in lists[s.snapshot_id] or ())
    }

    def is_sound(snapshot: int) -> bool:
        listed = lists[snapshot]
        readable = listed is not None and all(found[manifest.manifest_path].readable for manifest in listed)
        return readable and snapshot not in needing

    current = metadata.current_snapshot_id
    sound = next((id for id in ancestors(table, current) if is_sound(id)), None)
    return Damage(tuple(s.snapshot_id for s in newest_first if s.snapshot_id in needing), current in needing, sound)


@dataclass(frozen=True)
class _Look:
    readable: bool
    needs: bool


def _listed(table: Table, snapshot: Snapshot) -> list[ManifestFile] | None:
    """The manifests of a snapshot; None if its list cannot be read."""
    try:
        with translating("its metadata"):
            return manifests_of(table.io, snapshot)
    except LakewardenError:
        return None


def _look(table: Table, manifest: ManifestFile, wanted: str) -> _Look:
    """Whether a manifest can be read, and whether it is the file or lists it."""
    if same_place(manifest.manifest_path) == wanted:
        return _Look(False, True)
    try:
        with translating("its metadata"):
            return _Look(True, any(same_place(file.path) == wanted for file in manifest_and_files(table.io, manifest)))
    except LakewardenError:
        return _Look(False, False)
