r"""Quarantine: files are kept in a batch under their table's location for a while before they are deleted.

    {table location}/_lakewarden/quarantine/{batch id}/batch.json
    {table location}/_lakewarden/quarantine/{batch id}/files/000001-{name}

The record is written before the first file is moved and deleted after the last, so that a killed process leaves every
file either in place or here, with all that is needed to continue. Iceberg clients ignore folders whose names begin with
`_`. Callers decide which files go to quarantine.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Literal

from pydantic import AwareDatetime, TypeAdapter

from lakewarden.engine.base.locations import file_name, same_place
from lakewarden.engine.storage.storage import Moved, Progress, Removed, Storage, StoredFiles
from lakewarden.errors import AlreadyExists, BadValue, BrokenTable, NotFound, StorageUnavailable
from lakewarden.lifecycle.failpoints import reach
from lakewarden.quantities import Bytes

OWN_FOLDER = "_lakewarden"
Reason = Literal["orphan", "expired"]
_VERSION = 1
_NAMEABLE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
_FILE_NAME = re.compile(r"\d{6,}-[^/]*", re.DOTALL)
_LONGEST_NAME = 200  # bytes; most filesystems allow 255


@dataclass(frozen=True, slots=True)
class QuarantinedFile:
    """A file of a batch: its original path, and its name in quarantine."""

    path: str
    bytes: Bytes
    kind: str
    name: str = ""


@dataclass(frozen=True)
class Batch:
    """Files that were moved to quarantine together, why, and until when they can be restored."""

    id: str
    location: str
    table: str
    uuid: str
    operation: str
    reason: Reason
    made_at: AwareDatetime
    delete_after: AwareDatetime
    files: tuple[QuarantinedFile, ...] = ()
    version: int = _VERSION

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)

    @property
    def folder(self) -> str:
        return f"{_quarantine(self.location)}/{self.id}"

    @property
    def record(self) -> str:
        return f"{self.folder}/batch.json"

    def place(self, file: QuarantinedFile) -> str:
        """Where a file of this batch is kept."""
        return f"{self.folder}/files/{file.name}"


def stash(storage: Storage, batch: Batch, progress: Progress | None = None) -> Moved:
    """Move files into a new or existing batch, or continue after a failure; the result includes earlier moves."""
    known = find(storage, batch.location, batch.id)
    whole = _joined(batch, known)
    if not whole.files:
        return Moved()
    if known is None or whole.files != known.files:
        storage.make_folder(f"{whole.folder}/files")
        storage.write(whole.record, _BATCH.dump_json(whole))
    reach("quarantine.recorded")
    asked = {same_place(file.path) for file in batch.files}
    now = [file for file in whole.files if same_place(file.path) in asked]
    moved = storage.move_all([(file.path, whole.place(file)) for file in now], progress)
    sizes = storage.sizes(whole.place(file) for file in whole.files if same_place(file.path) not in asked)
    earlier = [size for size in sizes.values() if size is not None]
    return replace(moved, files=moved.files + len(earlier), bytes=moved.bytes + sum(earlier))


def batches(storage: StoredFiles, location: str) -> list[Batch]:
    """The batches under a table's location, oldest first."""
    found = (find(storage, location, name) for name in storage.list(_quarantine(location)) if _NAMEABLE.fullmatch(name))
    return sorted((batch for batch in found if batch is not None), key=lambda batch: (batch.made_at, batch.id))


def find(storage: StoredFiles, location: str, id: str) -> Batch | None:
    """A batch by id; None if it has no record."""
    if not _NAMEABLE.fullmatch(id):
        raise BadValue(f"{id!r} is not a valid batch id", "lakewarden orphan list shows them.")
    record = f"{_quarantine(location)}/{id}/batch.json"
    if storage.sizes([record])[record] is None:
        return None
    try:
        batch = _BATCH.validate_json(storage.read(record))
        if not all(_FILE_NAME.fullmatch(file.name) for file in batch.files):
            raise ValueError("invalid file name")
    except ValueError as error:  # includes pydantic's errors
        raise BrokenTable(
            f"{record} cannot be read: it is not a record of quarantined files",
            "Restore the file from a backup, or check the files beside it manually.",
        ) from error
    if batch.version > _VERSION:
        raise BrokenTable(f"{record} was written by a newer Lakewarden", "Use that version, or a newer one.")
    return replace(batch, location=location, id=id)


def existing(storage: StoredFiles, location: str, id: str) -> Batch:
    """A batch by id; raises if it does not exist."""
    batch = find(storage, location, id)
    if batch is None:
        raise NotFound(f"no batch {id} in quarantine at {location}", "lakewarden orphan list shows all batches.")
    return batch


def restore(storage: Storage, batch: Batch, progress: Progress | None = None) -> Moved:
    """Move every file of a batch back, unless another file is in place, and remove the batch. Can be repeated."""
    _refuse_if_taken(storage, batch)
    moved = storage.move_all([(batch.place(file), file.path) for file in batch.files], progress)
    if moved.failed:
        place, why = moved.failed[0]
        raise StorageUnavailable(
            f"{len(moved.failed)} of {len(batch.files)} files of batch {batch.id} could not be restored, "
            f"such as {place}: {why}",
            "The others were restored. Fix the cause and try again; the batch is kept until then.",
        )
    if moved.missing:
        raise BrokenTable(
            f"{len(moved.missing)} of {len(batch.files)} files of batch {batch.id} are neither in quarantine nor in "
            f"their original place, such as {moved.missing[0]}",
            "The others were restored. Were these deleted manually?",
        )
    _end(storage, batch)
    return moved


def discard(storage: Storage, batch: Batch, progress: Progress | None = None) -> Removed:
    """Permanently delete all files of a batch, then the batch unless a file could not be deleted. Can be repeated."""
    removed = storage.delete_all([batch.place(file) for file in batch.files], progress)
    if not removed.failed:
        _end(storage, batch)
    return removed


def forget(storage: Storage, batch: Batch, names: Collection[str]) -> None:
    """Remove erased files from a batch's record; without files left, the batch is removed.

    Old versions of the record are deleted too, if the storage keeps them: it lists the original paths.
    """
    left = tuple(file for file in batch.files if file.name not in names)
    if not left:
        storage.erase_all([batch.record])
        _end(storage, batch)
        return
    content = _BATCH.dump_json(replace(batch, files=left))
    if storage.keeps_versions(batch.record):
        storage.erase_all([batch.record])
    storage.write(batch.record, content)


def _joined(batch: Batch, known: Batch | None) -> Batch:
    """The batch with new files added: known files keep their names."""
    if known is not None and (known.uuid, known.reason) != (batch.uuid, batch.reason):
        raise AlreadyExists(f"a different batch {batch.id} is in quarantine, of {known.table}", "Choose another id.")
    if not _NAMEABLE.fullmatch(batch.id):
        raise BadValue(f"{batch.id!r} is not a valid batch id", "Use letters, digits, dots and dashes.")
    base = known or replace(batch, files=())
    there = {same_place(file.path) for file in base.files}
    new = [file for file in batch.files if same_place(file.path) not in there]
    named = [replace(f, name=_name(number, f.path)) for number, f in enumerate(new, start=len(base.files) + 1)]
    return replace(base, files=(*base.files, *named))


def _name(number: int, path: str) -> str:
    """A unique name for every file: two folders may contain files of the same name."""
    kept = file_name(path).encode()[-_LONGEST_NAME:].decode(errors="ignore")
    return f"{number:06}-{kept}"


def _refuse_if_taken(storage: Storage, batch: Batch) -> None:
    """A file that is both in place and in quarantine may be the same one, from an interrupted move."""
    at_place = storage.sizes(file.path for file in batch.files)
    here = storage.sizes(batch.place(file) for file in batch.files)

    def is_taken(file: QuarantinedFile) -> bool:
        there, kept = at_place[file.path], here[batch.place(file)]
        if there is None or kept is None:
            return there is not None and there != file.bytes
        return there != kept or not storage.same_content(file.path, batch.place(file))

    taken = [file.path for file in batch.files if is_taken(file)]
    if taken:
        raise AlreadyExists(
            f"{len(taken)} of {len(batch.files)} files of batch {batch.id} cannot be restored: "
            f"another file is at {taken[0]} now",
            "Nothing was restored. Move that file away first.",
        )


def _end(storage: Storage, batch: Batch) -> None:
    removed = storage.delete_all([batch.record])
    if removed.failed:
        raise StorageUnavailable(f"{batch.record} cannot be deleted: {removed.failed[0][1]}", "Check its permissions.")
    reach("quarantine.ended")
    above = _quarantine(batch.location)
    for folder in (f"{batch.folder}/files", batch.folder, above, above.rpartition("/")[0]):
        storage.remove_empty_folder(folder)


def _quarantine(location: str) -> str:
    return f"{location.rstrip('/')}/{OWN_FOLDER}/quarantine"


_BATCH = TypeAdapter(Batch)
