"""Small lakes for the tests of the engine: made by `lake init`, filled by PyIceberg as any outside writer would."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pytest

from lakewarden.engine.files.manifests import Manifests
from lakewarden.lifecycle.basics import Stamp
from lakewarden.warden import Warden
from tests.engine.direct_commits import DirectCommits
from tests.new_lake import new_lake

NOBODY = 65534
STAMP = Stamp("op-20261115-101112-ab12cd", "0123456789ab", "tester")


def unfenced() -> None:
    """The fence of a writer whose lease nobody takes."""


class Lake:
    """An embedded lake in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        new_lake(folder)
        self.warden = Warden.open(folder)

    @property
    def catalog(self) -> Any:
        return self.warden.ground.catalogs.get("main")

    @property
    def tables(self) -> Any:
        return self.warden.ground.tables

    @property
    def direct(self) -> DirectCommits:
        return DirectCommits(self.tables, unfenced, STAMP, Manifests())

    def create(self, name: str = "sales.orders", appends: int = 2, **properties: str) -> Any:
        """A table of one column, with a version for each append."""
        identifier = tuple(name.split("."))
        self.catalog.create_namespace_if_not_exists(identifier[:-1])
        self.catalog.create_table(identifier, pa.schema([("id", pa.int64())]), properties=properties)
        for _ in range(appends):
            self.append(name)
        return self.catalog.load_table(identifier)

    def append(self, name: str = "sales.orders") -> int:
        table = self.catalog.load_table(tuple(name.split(".")))
        table.append(pa.table({"id": [1, 2]}))
        return int(table.current_snapshot().snapshot_id)

    def table(self, name: str = "sales.orders") -> Any:
        return self.catalog.load_table(tuple(name.split(".")))

    def refs(self, name: str = "sales.orders") -> dict[str, int]:
        return {ref: at.snapshot_id for ref, at in self.table(name).metadata.refs.items()}

    def metadata_files(self, name: str = "sales.orders") -> set[Path]:
        return set((local(self.table(name).metadata.location) / "metadata").glob("*.metadata.json"))


def elsewhere(act: Callable[[], object]) -> Callable[[], None]:
    """Something that another process does: what a thread knows of its own commit is not known there."""

    def act_there() -> None:
        with ThreadPoolExecutor(1) as thread:
            thread.submit(act).result()

    return act_there


def local(location: str) -> Path:
    """The path of a file: address."""
    return Path(unquote(urlsplit(location).path))


def digest(folder: Path) -> dict[str, str]:
    """What is in a folder, byte by byte, so that a test can see that nothing changed."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@contextmanager
def nobody() -> Iterator[None]:
    """Be a user without rights for a moment. Root may write anything, so it must step down to be refused."""
    before = os.geteuid()
    if before != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(before)


@contextmanager
def read_only(*folders: Path) -> Iterator[None]:
    """Folders that nobody can write to, whoever runs the tests."""
    modes = {folder: folder.stat().st_mode for folder in folders}
    for folder in folders:
        folder.chmod(0o555)
    try:
        with nobody():
            yield
    finally:
        for folder, mode in modes.items():
            folder.chmod(mode)


@pytest.fixture
def open_path() -> Iterator[Path]:
    """A folder that every user can look into, as pytest's own are not."""
    with tempfile.TemporaryDirectory(prefix="lakewarden-open-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def open_lake(open_path: Path) -> Lake:
    """An embedded lake without tables that every user can read."""
    return Lake(open_path)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """An embedded lake without tables."""
    return Lake(tmp_path)
