"""A real S3 server for tests whose buckets keep versions: moto's, in a process of its own, on this machine only."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest
import yaml

from lakewarden import Warden
from tests.services.s3 import wait_until_it_answers
from tests.small_lake import SmallLake


@dataclass(frozen=True)
class VersionedS3:
    """How the server is reached."""

    endpoint: str
    access_key: str = "test-key"
    secret_key: str = "test-secret"

    @property
    def client(self) -> Any:
        return boto3.session.Session().client(
            "s3",
            endpoint_url=self.endpoint,
            aws_access_key_id=self.access_key,
            aws_secret_access_key=self.secret_key,
            region_name="us-east-1",
        )

    @property
    def storage(self) -> dict[str, str]:
        """How a lake's configuration tells of it."""
        return {
            "endpoint": self.endpoint,
            "access_key": self.access_key,
            "secret_key": self.secret_key,
            "region": "us-east-1",
        }

    def new_bucket(self, name: str, versions: bool = True) -> str:
        self.client.create_bucket(Bucket=name)
        if versions:
            self.client.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
        return f"s3://{name}"

    def put(self, location: str, content: bytes) -> str:
        bucket, _, key = location.removeprefix("s3://").partition("/")
        self.client.put_object(Bucket=bucket, Key=key, Body=content)
        return location

    def delete(self, location: str) -> None:
        """Delete an object as anybody would: on a bucket with versions it stays, out of sight."""
        bucket, _, key = location.removeprefix("s3://").partition("/")
        self.client.delete_object(Bucket=bucket, Key=key)

    def everything(self, bucket: str) -> list[str]:
        """The key of every version and of every mark of a deletion in a bucket."""
        pages = self.client.get_paginator("list_object_versions").paginate(Bucket=bucket.removeprefix("s3://"))
        return [item["Key"] for page in pages for kind in ("Versions", "DeleteMarkers") for item in page.get(kind, ())]


@pytest.fixture(scope="session")
def versioned_s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VersionedS3]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = tmp_path_factory.mktemp("versioned-s3") / "log"
    command = [sys.executable, "-W", "ignore", "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with log.open("w") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env=os.environ | {"MOTO_S3_CUSTOM_ENDPOINTS": ""})
        try:
            wait_until_it_answers(port, log)
            yield VersionedS3(f"http://127.0.0.1:{port}")
        finally:
            process.terminate()
            process.wait(20)


@pytest.fixture
def on_versioned_s3(tmp_path: Path, versioned_s3: VersionedS3) -> Iterator[SmallLake]:
    """A lake in a bucket of its own that keeps versions, with its catalog beside the configuration."""
    with SmallLake(tmp_path / "lake") as lake:
        config = lake.folder / "lakewarden.yaml"
        settings = yaml.safe_load(config.read_text())
        bucket = versioned_s3.new_bucket(f"lake-{abs(hash(tmp_path)) % 10**9}")
        settings["lakes"]["main"] |= {"warehouse": f"{bucket}/warehouse", "storage": versioned_s3.storage}
        config.write_text(yaml.safe_dump(settings))
        lake.warden.close()
        lake.warden = Warden.open(lake.folder)
        yield lake
