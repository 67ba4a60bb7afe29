"""Why Lakewarden does not touch a table: what is in it could not be read or rewritten without loss.

Everything that reads or changes files of a table asks here, at the latest for its route to be changed.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lakewarden.errors import UnsupportedTable

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table

_KEY = "encryption.key-id"
_FORMATS = ("avro", "orc", "parquet")
_NOT_TOUCHED = "Lakewarden does not maintain it. Use the engine that wrote it; skip: true excludes it from patterns."
_ONLY_SPARK = "Only Spark reads them: warden.dataframe(TABLE) in Python, or lakewarden query --engine spark."
_VERSION = re.compile(r"Input tag '(\d+)' found using 'format_version'|Unknown format version: (\d+)")
_FILE_FORMAT = re.compile(r"'([^']*)' is not a valid FileFormat|Unsupported file format: FileFormat\.(\w+)")


def refuse_unsupported(table: Table, name: object) -> None:
    """Refuse an encrypted table. Other reasons are found when its metadata and its manifests are read."""
    if table.metadata.properties.get(_KEY):
        raise UnsupportedTable(f"{name} is encrypted ({_KEY})", _NOT_TOUCHED)


def unsupported_version(error: Exception, about: str) -> UnsupportedTable | None:
    """The error for metadata of a format version that PyIceberg does not know."""
    found = _VERSION.search(str(error))
    return UnsupportedTable(f"{about} is in format v{found[1] or found[2]}", _NOT_TOUCHED) if found else None


def unsupported_format(error: Exception, about: str) -> UnsupportedTable | None:
    """The error for a table or a manifest that lists a file in a format that PyIceberg does not know, or not read."""
    found = _FILE_FORMAT.search(str(error))
    return _in_format(found[1] or found[2], about) if found else None


def refuse_unsupported_file(file: DataFile, manifest: str) -> None:
    """Refuse a data file whose rows no reader of Lakewarden knows. Deletion vectors are in Puffin files."""
    if not file.content and file.file_format.value.lower() not in _FORMATS:
        raise _in_format(file.file_format.value, f"the manifest {manifest}")


def _in_format(format: str, about: str) -> UnsupportedTable:
    hint = _ONLY_SPARK if format.lower() in _FORMATS else _NOT_TOUCHED
    return UnsupportedTable(f"{about} lists data files in the format {format.lower()}", hint)
