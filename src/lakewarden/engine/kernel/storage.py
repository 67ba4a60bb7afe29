"""The filesystems that a rewrite task reads from and writes to, chosen by the location's scheme.

Locations are used exactly as spelled: Iceberg does not percent-encode them.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from typing import Any

import pyarrow as pa
from pyarrow import fs

from lakewarden.engine.kernel.messages import Access, Kind, RewriteFault, first_line

_CHUNK = 1 << 22
_S3 = ("s3", "s3a", "s3n")


class TaskStorage:
    """The filesystems of one task, each opened once."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._filesystems: dict[tuple[str, str], Any] = {}

    def is_local(self, location: str) -> bool:
        return split(location)[0] == "file"

    def open(self, location: str) -> Any:
        filesystem, path = self.at(location)
        return filesystem.open_input_file(path)

    def create(self, location: str) -> Any:
        filesystem, path = self.at(location)
        if self.is_local(location):  # object stores have no folders
            filesystem.create_dir(path.rpartition("/")[0], recursive=True)
        return filesystem.open_output_stream(path)

    def fingerprint(self, location: str) -> str:
        """The SHA-256 of a file as stored."""
        digest = hashlib.sha256()
        filesystem, path = self.at(location)
        with filesystem.open_input_stream(path) as stream:
            while chunk := stream.read(_CHUNK):
                digest.update(chunk)
        return digest.hexdigest()

    def remove(self, location: str) -> None:
        """Delete a file, if storage allows."""
        with suppress(Exception):
            filesystem, path = self.at(location)
            filesystem.delete_file(path)

    def at(self, location: str) -> tuple[Any, str]:
        """The filesystem of a location, and the path in it."""
        scheme, host, path = split(location)
        kind = ("s3", "") if scheme in _S3 else (scheme, host)
        if kind not in self._filesystems:
            self._filesystems[kind] = _filesystem(scheme, host, self._access)
        return self._filesystems[kind], path if scheme == "file" else f"{host}{path}"


def fault(error: Exception, file: str) -> RewriteFault:
    """An exception raised while reading a file, as a fault that names the file."""
    if isinstance(error, RewriteFault):
        return RewriteFault(error.kind, error.message, error.file or file)
    kind: Kind = "defect"
    if isinstance(error, FileNotFoundError):
        kind = "missing"
    elif isinstance(error, MemoryError):
        kind = "memory"
    elif isinstance(error, pa.ArrowException | OSError):
        kind = "unreadable"
    message = first_line(error)
    return RewriteFault(kind, f"{type(error).__name__}: {message}" if kind == "defect" else message, file)


def split(location: str) -> tuple[str, str, str]:
    """Scheme, host and path of a location; a plain path is a local file."""
    scheme, colon, rest = location.partition(":")
    if not colon or "/" in scheme:
        return "file", "", location
    if not rest.startswith("//"):
        return scheme, "", rest
    host, slash, path = rest[2:].partition("/")
    return scheme, host, slash + path


def _filesystem(scheme: str, host: str, access: Access) -> Any:
    if scheme == "file":
        return fs.LocalFileSystem()
    if scheme in _S3:
        return fs.S3FileSystem(**_s3_options(access))
    try:
        return fs.FileSystem.from_uri(f"{scheme}://{host}/")[0]
    except Exception as error:
        raise RewriteFault("storage", f"cannot access {scheme}://{host}: {error}") from error


def _s3_options(access: Access) -> dict[str, Any]:
    options: dict[str, Any] = {
        "endpoint_override": access.endpoint,
        "access_key": access.access_key,
        "secret_key": access.secret_key,
        "session_token": access.session_token,
        # Self-hosted servers have no regions, and detecting one would need a request.
        "region": access.region or ("us-east-1" if access.endpoint else None),
    }
    if access.endpoint:
        options["force_virtual_addressing"] = not access.path_style
    return {name: value for name, value in options.items() if value is not None}
