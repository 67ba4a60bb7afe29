"""File locations: one spelling for what clients spell in several ways."""

from __future__ import annotations

import hashlib
import re

_SCHEME = re.compile(r"^(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):(?P<rest>.*)$", re.DOTALL)
_SAME = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "oss": "oss", "abfs": "abfss", "wasb": "wasbs"}
_MAY_LACK_HOST = ("hdfs", "viewfs")


def same_place(location: str) -> str:
    """One spelling per location, without lookups: `file:/x`, `file:///x` and `/x` are equal, and so are s3:, s3a:,
    s3n:.
    """
    return "".join(apart(location))


def apart(location: str) -> tuple[str, str]:
    """Split a location into its authority, such as `s3://bucket`, and its path; a local file's authority is `file:`."""
    if location.startswith("file:///") and "//" not in location[7:]:  # the usual spelling, handled quickly
        return "file:", location[7:]
    match = _SCHEME.match(location)
    scheme, rest = (match["scheme"].lower(), match["rest"]) if match else ("file", location)
    scheme = _SAME.get(scheme, scheme)
    if scheme == "file":
        path = re.sub(r"^//[^/]*(?=/)", "", rest) if rest.startswith("//") else rest
        return "file:", re.sub(r"/{2,}", "/", path)
    after = rest.removeprefix("//") if scheme in _MAY_LACK_HOST else rest.lstrip("/")
    host, slash, path = after.partition("/")
    return f"{scheme}://{host}", f"{slash}{path}"  # in object stores a doubled slash is part of the name


def place_digest(location: str) -> str:
    """A name for a location that does not reveal its path, which may contain a partition value."""
    return hashlib.sha256(same_place(location).encode()).hexdigest()[:32]


def is_below(location: str, folder: str) -> bool:
    """Whether a location is inside a folder, at any depth."""
    return same_place(location).startswith(same_place(folder).rstrip("/") + "/")


def is_local(location: str) -> bool:
    return apart(location)[0] == "file:"


def file_name(location: str) -> str:
    return location.rsplit("/", 1)[-1]
