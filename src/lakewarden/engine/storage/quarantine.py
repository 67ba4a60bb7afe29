"""Where files go before they are deleted: a batch of them is kept under its table's own location for a while.

    {table location}/_lakewarden/quarantine/{batch id}/batch.json
    {table location}/_lakewarden/quarantine/{batch id}/files/000001-{name}

The record is written before the first file is moved and taken away after the last, so that a process killed
anywhere leaves every file either at its place or here, and all that must be known to go on is in the lake itself.
Clients of Iceberg do not look into folders whose names begin with `_`. Which files may go is for others to say.
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
_LONGEST_NAME = 200  # bytes; most disks take 255


@dataclass(frozen=True, slots=True)
class QuarantinedFile:
    """A file of a batch: where it was, and what it is called here."""

    path: str
    bytes: Bytes
    kind: str
    name: str = ""


@dataclass(frozen=True)
class Batch:
    """Files that left a table together, why, and until when they can come back."""

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
    """Take files away into a batch; what an earlier try took away already is among what is answered.

    Files that the batch has not got yet are added to it. Called again after it stopped anywhere, it goes on.
    """
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
    """The batches that are kept under a table's location, oldest first."""
    found = (find(storage, location, name) for name in storage.list(_quarantine(location)) if _NAMEABLE.fullmatch(name))
    return sorted((batch for batch in found if batch is not None), key=lambda batch: (batch.made_at, batch.id))


def find(storage: StoredFiles, location: str, id: str) -> Batch | None:
    """One batch by its id; nothing where its record is not there."""
    if not _NAMEABLE.fullmatch(id):
        raise BadValue(f"{id!r} cannot name a batch in quarantine", "lakewarden orphan list shows them.")
    record = f"{_quarantine(location)}/{id}/batch.json"
    if storage.sizes([record])[record] is None:
        return None
    try:
        batch = _BATCH.validate_json(storage.read(record))
        if not all(_FILE_NAME.fullmatch(file.name) for file in batch.files):
            raise ValueError("a file's name leads elsewhere")
    except ValueError as error:  # pydantic's are, too
        raise BrokenTable(
            f"{record} cannot be read: it is not a record of quarantined files",
            "Restore the file from a backup, or look at the files beside it by hand.",
        ) from error
    if batch.version > _VERSION:
        raise BrokenTable(f"{record} was written by a newer Lakewarden", "Use that version, or a newer one.")
    return replace(batch, location=location, id=id)


def existing(storage: StoredFiles, location: str, id: str) -> Batch:
    """A batch that must be there."""
    batch = find(storage, location, id)
    if batch is None:
        raise NotFound(f"no batch {id} in quarantine at {location}", "lakewarden orphan list shows what is there.")
    return batch


def restore(storage: Storage, batch: Batch, progress: Progress | None = None) -> Moved:
    """Bring every file of a batch back to its place, and end the batch. Called again, it goes on.

    Refuses where another file has taken a place meanwhile: nothing is brought back then.
    """
    _refuse_if_taken(storage, batch)
    moved = storage.move_all([(batch.place(file), file.path) for file in batch.files], progress)
    if moved.failed:
        place, why = moved.failed[0]
        raise StorageUnavailable(
            f"{len(moved.failed)} of {len(batch.files)} files of batch {batch.id} could not be brought back, "
            f"as {place}: {why}",
            "The others are back. Try again when that is mended; the batch stays until then.",
        )
    if moved.missing:
        raise BrokenTable(
            f"{len(moved.missing)} of {len(batch.files)} files of batch {batch.id} are neither in quarantine nor at "
            f"their place, as {moved.missing[0]}",
            "The others are back. Were these removed by hand?",
        )
    _end(storage, batch)
    return moved


def discard(storage: Storage, batch: Batch, progress: Progress | None = None) -> Removed:
    """Delete every file of a batch for good, and then the batch, unless some could not be. Called again, it goes on."""
    removed = storage.delete_all([batch.place(file) for file in batch.files], progress)
    if not removed.failed:
        _end(storage, batch)
    return removed


def forget(storage: Storage, batch: Batch, names: Collection[str]) -> None:
    """Write a batch's record without some files, which were erased; where none is left, the batch ends.

    Earlier versions of the record go too, where the storage keeps them: it tells where each file had been.
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
    """The batch as it is to be: what it has got keeps its names, what is new gets the next ones."""
    if known is not None and (known.uuid, known.reason) != (batch.uuid, batch.reason):
        raise AlreadyExists(f"there is another batch {batch.id} in quarantine, of {known.table}", "Choose another id.")
    if not _NAMEABLE.fullmatch(batch.id):
        raise BadValue(f"{batch.id!r} cannot name a batch in quarantine", "Use letters, digits, dots and dashes.")
    base = known or replace(batch, files=())
    there = {same_place(file.path) for file in base.files}
    new = [file for file in batch.files if same_place(file.path) not in there]
    named = [replace(f, name=_name(number, f.path)) for number, f in enumerate(new, start=len(base.files) + 1)]
    return replace(base, files=(*base.files, *named))


def _name(number: int, path: str) -> str:
    """A name of its own for every file: two folders may hold files that are called the same."""
    kept = file_name(path).encode()[-_LONGEST_NAME:].decode(errors="ignore")
    return f"{number:06}-{kept}"


def _refuse_if_taken(storage: Storage, batch: Batch) -> None:
    """A file that is at its place and here as well may be the same one, by a move that stopped halfway."""
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
            f"{len(taken)} of {len(batch.files)} files of batch {batch.id} cannot come back: "
            f"another file is at {taken[0]} now",
            "Nothing was brought back. Put that file away first.",
        )


def _end(storage: Storage, batch: Batch) -> None:
    """Take away the record, and the folders where nothing else is in them."""
    removed = storage.delete_all([batch.record])
    if removed.failed:
        raise StorageUnavailable(
            f"{batch.record} cannot be deleted: {removed.failed[0][1]}", "Look at its permissions."
        )
    reach("quarantine.ended")
    above = _quarantine(batch.location)
    for folder in (f"{batch.folder}/files", batch.folder, above, above.rpartition("/")[0]):
        storage.remove_empty_folder(folder)


def _quarantine(location: str) -> str:
    return f"{location.rstrip('/')}/{OWN_FOLDER}/quarantine"


_BATCH = TypeAdapter(Batch)
