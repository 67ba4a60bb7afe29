"""Objects on S3 through boto3: listed page by page, deleted a thousand at a time, moved by copying.

Used if boto3 is installed (`lakewarden[s3]`) and supports all of the lake's settings; otherwise `storage.py` uses
Arrow's filesystem, which lists folder by folder and deletes one by one.
"""

from __future__ import annotations

import io
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from lakewarden.engine.base.faults import first_line
from lakewarden.engine.base.locations import apart
from lakewarden.engine.base.parallel import Branch, traverse
from lakewarden.engine.storage.arrow_store import StoredFile, StoredVersion, one_by_one
from lakewarden.engine.storage.s3_versions import ObjectVersions
from lakewarden.errors import StorageUnavailable

THREADS = 16
_PAGE = 1000  # keys per request
_MOST_PAGES = 10  # of subfolders; with more, a flat listing is cheaper
_DEPTH = 2  # table, then data and metadata; below that, listings are flat
_LARGEST_COPY = 5 << 30  # S3's limit for one request
_ABSENT = frozenset({"404", "NoSuchKey", "NoSuchBucket", "NotFound"})
_BEYOND_BOTO = ("s3.role-arn", "client.role-arn", "s3.signer", "s3.proxy-uri", "s3.anonymous")


def can_serve(properties: Mapping[str, str]) -> bool:
    """Whether boto3 is installed, and the lake's properties need nothing that only Arrow supports."""
    return not any(properties.get(name) for name in _BEYOND_BOTO) and find_spec("boto3") is not None


class S3Store:
    """One S3 service; locations include the bucket."""

    renames = False

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._client = _client(properties)
        self._versions = ObjectVersions(self._client)

    def walk(self, folder: str, without: Collection[str]) -> Iterator[StoredFile]:
        top = folder.rstrip("/")
        bucket, prefix = _key(f"{top}/")

        def look(task: tuple[str, int]) -> Iterator[StoredFile | Branch[tuple[str, int]]]:
            below, depth = task
            folders = self._folder(bucket, prefix + below) if depth < _DEPTH else None
            with _translating(folder):
                if folders is None:
                    pages = self._pages(bucket, prefix + below)
                    yield from (_stored(top, prefix, item) for page in pages for item in page.get("Contents", ()))
                    return
                for page in folders:
                    yield from (_stored(top, prefix, item) for item in page.get("Contents", ()))
                    for found in page.get("CommonPrefixes", ()):
                        further = str(found["Prefix"]).removeprefix(prefix)
                        if depth or further.rstrip("/") not in without:
                            yield Branch((further, depth + 1))

        return (file for file in traverse([("", 0)], look, THREADS, "walk") if not file.path.endswith("/"))

    def folders(self, folder: str) -> Iterator[str]:
        """Objects that represent folders, as Hadoop's clients create them."""
        top = folder.rstrip("/")
        bucket, prefix = _key(f"{top}/")
        with _translating(folder):
            for page in self._pages(bucket, prefix):
                keys = (str(item["Key"]) for item in page.get("Contents", ()))
                yield from (f"{top}/{key.removeprefix(prefix)}" for key in keys if key.endswith("/") and key != prefix)

    def remove_empty_folder(self, location: str) -> bool:
        """Delete the object that represents a folder."""
        made = f"{location.rstrip('/')}/"
        return not self.erase([made])[1] if self.keeps_versions(location) else not self.delete([made])

    def unfinished_uploads(self, folder: str) -> int:
        """The number of multipart uploads that were never completed: their parts are stored but cannot be read."""
        bucket, prefix = _key(f"{folder.rstrip('/')}/")
        try:
            pages = self._client.get_paginator("list_multipart_uploads").paginate(Bucket=bucket, Prefix=prefix)
            return sum(len(page.get("Uploads", ())) for page in pages)
        except self._client.exceptions.ClientError:  # not supported, or not permitted
            return 0

    def keeps_versions(self, location: str) -> bool:
        """Whether the bucket keeps old versions of overwritten and deleted objects."""
        with _translating(location):
            return self._versions.are_kept(_key(location)[0])

    def versions(self, folder: str) -> Iterator[StoredVersion]:
        top = folder.rstrip("/")
        bucket, prefix = _key(f"{top}/")
        with _translating(folder):
            yield from self._versions.below(bucket, prefix, lambda key: f"{top}/{key.removeprefix(prefix)}")

    def open_version(self, version: StoredVersion) -> io.BufferedReader:
        with _translating(version.path):
            return self._versions.open(*_key(version.path), version)

    def erase(self, locations: Sequence[str]) -> tuple[dict[str, list[StoredVersion]], dict[str, str]]:
        """Delete objects with all their versions; returns what existed, and what could not be deleted and why."""
        there: dict[str, list[StoredVersion]] = {}
        problems: dict[str, str] = {}
        for bucket, keys in _by_bucket(locations).items():
            with _translating(f"s3://{bucket}"):
                there |= self._versions.of(bucket, keys)
                every = [version for location in keys.values() for version in there[location]]
                problems |= self._versions.delete(bucket, keys, every)
        return there, problems

    def look(self, location: str) -> StoredFile | None:
        bucket, key = _key(location)
        with _translating(location):
            try:
                found = self._client.head_object(Bucket=bucket, Key=key)
            except self._client.exceptions.ClientError as error:
                if error.response["Error"]["Code"] in _ABSENT:
                    return None
                raise
        return StoredFile(location, int(found["ContentLength"]), found["LastModified"])

    def delete(self, locations: Sequence[str]) -> dict[str, str]:
        problems: dict[str, str] = {}
        for bucket, keys in _by_bucket(locations).items():
            in_order = list(keys)
            for start in range(0, len(in_order), _PAGE):
                with _translating(f"s3://{bucket}"):
                    failed = self._delete(bucket, in_order[start : start + _PAGE])
                problems |= {keys[key]: why for key, why in failed.items()}
        return problems

    def move(self, file: StoredFile, target: str) -> None:
        (from_bucket, from_key), (bucket, key) = _key(file.path), _key(target)
        source = {"Bucket": from_bucket, "Key": from_key}
        with _translating(file.path):
            if file.bytes <= _LARGEST_COPY:
                self._client.copy_object(CopySource=source, Bucket=bucket, Key=key)
            else:
                self._client.copy(source, bucket, key)
            self._client.delete_object(**source)

    def _folder(self, bucket: str, prefix: str) -> list[Any] | None:
        """A folder's objects and subfolders; None if there are too many subfolders to list each one."""
        pages: list[Any] = []
        with _translating(f"s3://{bucket}/{prefix}"):
            for page in self._pages(bucket, prefix, Delimiter="/"):
                if len(pages) == _MOST_PAGES:
                    return None
                pages.append(page)
        return pages

    def _pages(self, bucket: str, prefix: str, **more: str) -> Iterator[Any]:
        try:
            yield from self._client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix, **more)
        except self._client.exceptions.NoSuchBucket:
            return

    def _delete(self, bucket: str, keys: Sequence[str]) -> dict[str, str]:
        """Delete in one request; if the service does not support that or refuses it, one by one."""
        asked = {"Objects": [{"Key": key} for key in keys], "Quiet": True}
        try:
            answer = self._client.delete_objects(Bucket=bucket, Delete=asked)
        except self._client.exceptions.ClientError:
            return one_by_one(keys, lambda key: self._delete_one(bucket, key), THREADS)
        problems = [problem for problem in answer.get("Errors", ()) if problem.get("Code") not in _ABSENT]
        return {str(problem["Key"]): str(problem.get("Message") or problem.get("Code")) for problem in problems}

    def _delete_one(self, bucket: str, key: str) -> None:
        try:
            self._client.delete_object(Bucket=bucket, Key=key)
        except self._client.exceptions.ClientError as error:
            raise OSError(first_line(error)) from error


def _client(properties: Mapping[str, str]) -> Any:
    import boto3
    from botocore.config import Config

    def setting(name: str) -> str | None:
        return properties.get(f"s3.{name}") or properties.get(f"client.{name}")

    virtual = properties.get("s3.force-virtual-addressing")
    style = "auto" if virtual is None else "virtual" if virtual.lower() == "true" else "path"
    return boto3.session.Session().client(
        "s3",
        endpoint_url=properties.get("s3.endpoint"),
        aws_access_key_id=setting("access-key-id"),
        aws_secret_access_key=setting("secret-access-key"),
        aws_session_token=setting("session-token"),
        region_name=setting("region"),
        config=Config(
            s3={"addressing_style": style},
            max_pool_connections=2 * THREADS,
            retries={"mode": "standard", "max_attempts": 5},
            request_checksum_calculation="when_required",  # other services may not support the newer ones
            response_checksum_validation="when_required",
        ),
    )


@contextmanager
def _translating(about: str) -> Iterator[None]:
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except (BotoCoreError, ClientError) as error:
        raise StorageUnavailable(
            f"{about}: the storage does not respond: {first_line(error)}", "Run lakewarden lake doctor for details."
        ) from error


def _key(location: str) -> tuple[str, str]:
    authority, path = apart(location)
    return authority.partition("://")[2], path.removeprefix("/")


def _by_bucket(locations: Sequence[str]) -> dict[str, dict[str, str]]:
    buckets: dict[str, dict[str, str]] = {}
    for location in locations:
        bucket, key = _key(location)
        buckets.setdefault(bucket, {})[key] = location
    return buckets


def _stored(top: str, prefix: str, item: Any) -> StoredFile:
    """An object as a file, with the folder's spelling of the location."""
    return StoredFile(f"{top}/{str(item['Key']).removeprefix(prefix)}", int(item["Size"]), item["LastModified"])
