"""Which files are orphans: no version references them, they are old enough, and no writer may still commit them."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Literal

from lakewarden.engine.base.locations import apart, file_name
from lakewarden.engine.base.support import refuse_unsupported
from lakewarden.errors import DeletionForbidden
from lakewarden.features.orphan.neighbours import is_metadata

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from lakewarden.engine.base.table_name import TableName
    from lakewarden.engine.files.reachable import ReachableSet
    from lakewarden.engine.storage.storage import StoredFile
    from lakewarden.features.orphan.unfinished import Unfinished

Verdict = Literal["needed", "recent", "unknown age", "in use", "orphan"]
_HINT = "version-hint.text"  # names the current metadata for file-system catalogs; nothing references it


def refuse_forbidden(name: TableName, table: Table) -> None:
    """Refuse a table with gc.enabled=false, or one that Lakewarden does not touch."""
    refuse_unsupported(table, name)
    if table.metadata.properties.get("gc.enabled", "true").lower() == "false":
        raise DeletionForbidden(
            f"{name}: gc.enabled=false forbids deleting its files",
            "Another table may share them. If none does, set gc.enabled to true first.",
        )


class Judge:
    """Decides which files of one table are orphans."""

    def __init__(self, name: TableName, needed: ReachableSet, before: datetime, unfinished: Unfinished) -> None:
        self._name = name
        self._needed = needed
        self._before = before
        self._unfinished = unfinished

    def verdict(self, file: StoredFile) -> Verdict:
        if self.is_needed(file.path):
            return "needed"
        if file.modified_at is None:
            return "unknown age"
        if file.modified_at > self._before:
            return "recent"
        return "in use" if self._unfinished.owns(file.path, file.modified_at) else "orphan"

    def is_needed(self, path: str) -> bool:
        """Whether metadata references a file, however it spells the path."""
        subject = checked_file(path)
        if subject.endswith(f"/{_HINT}"):
            return True
        if subject not in self._needed:
            return False
        if apart(path)[0] not in self._needed.authorities:
            known = ", ".join(sorted(self._needed.authorities))
            raise DeletionForbidden(
                f"{self._name}: {path} is stored, and the table's metadata references the same path in {known}",
                "If both names mean the same storage, change the table's location to the name that its metadata uses.",
            )
        return True


def checked_file(path: str) -> str:
    """The file that a Hadoop checksum file belongs to: `a.parquet` for `.a.parquet.crc`."""
    if not path.endswith(".crc"):
        return path
    folder, slash, name = path.rpartition("/")
    return f"{folder}{slash}{name[1:-4]}" if name.startswith(".") else path


def is_hidden(below: str) -> bool:
    """Whether Iceberg clients ignore a path relative to the table's location. Partition folders are never hidden."""
    if "/." not in below and "/_" not in below and not below.startswith((".", "_")):
        return False
    *folders, name = below.split("/")
    if any(folder.startswith((".", "_")) and "=" not in folder for folder in folders):
        return True
    return name.startswith((".", "_")) and checked_file(below) == below


def kind_of(path: str) -> str:
    """The kind of a file, from its name."""
    name = file_name(checked_file(path))
    if is_metadata(name):
        return "metadata"
    if name.endswith((".stats", ".puffin")):
        return "statistics" if "/metadata/" in path else "deletes"
    if name.endswith(".avro") and "/metadata/" in path:
        return "manifest-list" if name.startswith("snap-") else "manifest"
    return "data"
