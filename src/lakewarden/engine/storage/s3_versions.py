"""Old versions of objects on S3: a bucket may keep what was overwritten or deleted.

Lists, reads and deletes versions, through the client of `s3_store.py`. Without versioning, deleting an object is
enough.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from lakewarden.engine.storage.arrow_store import StoredVersion

_THREADS = 16
_PAGE = 1000  # versions per request
_NOT_KNOWN_THERE = frozenset({"NotImplemented", "MethodNotAllowed", "501", "405", "UnsupportedOperation"})
_BUFFER = 1 << 20


class ObjectVersions:
    """The versions of objects in the buckets of one S3 service."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._kept: dict[str, bool] = {}
        self._lock = threading.Lock()

    def are_kept(self, bucket: str) -> bool:
        """Whether a bucket keeps versions, or did once: old versions are still there."""
        with self._lock:
            if bucket not in self._kept:
                self._kept[bucket] = self._asked(bucket)
            return self._kept[bucket]

    def below(self, bucket: str, prefix: str, spell: Callable[[str], str]) -> Iterator[StoredVersion]:
        """All versions and delete markers of objects whose keys have this prefix."""
        for page in self._client.get_paginator("list_object_versions").paginate(Bucket=bucket, Prefix=prefix):
            yield from _on(page, spell)

    def of(self, bucket: str, keys: Mapping[str, str]) -> dict[str, list[StoredVersion]]:
        """The versions of each of these objects, by location."""

        def look(key: str) -> list[StoredVersion]:
            found: list[StoredVersion] = []
            for page in self._client.get_paginator("list_object_versions").paginate(Bucket=bucket, Prefix=key):
                found += _on(page, lambda listed: keys[key] if listed == key else "")
                if any(
                    str(item["Key"]) > key for item in _items(page)
                ):  # listed in order: the key's own versions come first
                    break
            return [version for version in found if version.path]

        with ThreadPoolExecutor(_THREADS, thread_name_prefix="versions") as threads:
            return {keys[key]: versions for key, versions in zip(keys, threads.map(look, keys), strict=True)}

    def delete(self, bucket: str, keys: Mapping[str, str], versions: Sequence[StoredVersion]) -> dict[str, str]:
        """Permanently delete versions; returns the locations where one could not be deleted, and why."""
        key_at = {location: key for key, location in keys.items()}
        problems: dict[str, str] = {}
        for start in range(0, len(versions), _PAGE):
            some = [{"Key": key_at[v.path], "VersionId": v.version} for v in versions[start : start + _PAGE]]
            answer = self._client.delete_objects(Bucket=bucket, Delete={"Objects": some, "Quiet": True})
            for problem in answer.get("Errors", ()):
                if problem.get("Code") != "NoSuchVersion":
                    problems[keys[str(problem["Key"])]] = str(problem.get("Message") or problem.get("Code"))
        return problems

    def open(self, bucket: str, key: str, version: StoredVersion) -> io.BufferedReader:
        """One version, seekable."""
        return io.BufferedReader(_VersionReader(self._client, bucket, key, version), _BUFFER)

    def _asked(self, bucket: str) -> bool:
        try:
            return bool(self._client.get_bucket_versioning(Bucket=bucket).get("Status"))
        except self._client.exceptions.ClientError as error:
            code = str(error.response["Error"]["Code"])
            if code in _NOT_KNOWN_THERE or error.response["ResponseMetadata"]["HTTPStatusCode"] in (405, 501):
                return False
            if code in ("NoSuchBucket", "404"):
                return False
        self._client.list_object_versions(Bucket=bucket, MaxKeys=1)  # may be permitted where that request is not
        return True


class _VersionReader(io.RawIOBase):
    def __init__(self, client: Any, bucket: str, key: str, version: StoredVersion) -> None:
        super().__init__()
        self._client = client
        self._what = {"Bucket": bucket, "Key": key, "VersionId": version.version}
        self._size = version.bytes
        self._place = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._place = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._size}[whence]
        return self._place

    def tell(self) -> int:
        return self._place

    def readinto(self, buffer: Any) -> int:
        wanted = min(len(buffer), self._size - self._place)
        if wanted <= 0:
            return 0
        span = f"bytes={self._place}-{self._place + wanted - 1}"
        content = bytes(self._client.get_object(**self._what, Range=span)["Body"].read())
        buffer[: len(content)] = content
        self._place += len(content)
        return len(content)


def _items(page: Any) -> Iterator[Any]:
    yield from page.get("Versions", ())
    yield from page.get("DeleteMarkers", ())


def _on(page: Any, spell: Callable[[str], str]) -> list[StoredVersion]:
    marks = {id(item) for item in page.get("DeleteMarkers", ())}
    return [
        StoredVersion(
            spell(str(item["Key"])),
            str(item["VersionId"]),
            bool(item["IsLatest"]),
            id(item) in marks,
            int(item.get("Size", 0)),
            item["LastModified"],
        )
        for item in _items(page)
    ]
