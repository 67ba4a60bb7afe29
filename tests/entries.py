"""What a manifest says about a file, beyond what a live file keeps of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.io.pyarrow import PyArrowFileIO

from lakewarden.engine.files.manifests import entries_at

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile, ManifestEntry

    from lakewarden.engine.files.live_files import DeleteFile, LiveFile


def entry_of(file: LiveFile | DeleteFile) -> ManifestEntry:
    """The entry of a file on local disk, as it is written in its manifest."""
    entries = entries_at(PyArrowFileIO(), file.manifest)
    (found,) = [entry for entry in entries if entry.data_file.file_path == file.path]
    return found


def listed(file: LiveFile | DeleteFile) -> DataFile:
    """A file as its manifest lists it, with counts and bounds."""
    return entry_of(file).data_file
