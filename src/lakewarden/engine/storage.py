"""Files and objects of a lake, whatever they are stored on."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from lakewarden.config import LakeSettings
from lakewarden.engine.catalogs import pyiceberg_properties

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem


class Storage:
    """One lake's storage, through Arrow's filesystems."""

    def __init__(self, settings: LakeSettings) -> None:
        self._settings = settings

    def write(self, location: str, content: bytes) -> None:
        filesystem, path = self._at(location)
        with filesystem.open_output_stream(path) as stream:
            stream.write(content)

    def read(self, location: str) -> bytes:
        filesystem, path = self._at(location)
        with filesystem.open_input_stream(path) as stream:
            return bytes(stream.read())

    def list(self, location: str) -> list[str]:
        """The names right below a place."""
        from pyarrow.fs import FileSelector

        filesystem, path = self._at(location)
        return [info.base_name for info in filesystem.get_file_info(FileSelector(path))]

    def delete(self, location: str) -> None:
        filesystem, path = self._at(location)
        filesystem.delete_file(path)

    def make_folder(self, location: str) -> None:
        """Needed on local disks only; object stores have no folders."""
        filesystem, path = self._at(location)
        if self._settings.is_local:
            filesystem.create_dir(path, recursive=True)

    def _at(self, location: str) -> tuple[FileSystem, str]:
        from pyiceberg.io.pyarrow import PyArrowFileIO

        io = PyArrowFileIO(pyiceberg_properties(self._settings))
        scheme, host, path = io.parse_location(location)
        return io.fs_by_scheme(scheme or "file", host or urlsplit(location).netloc), path
