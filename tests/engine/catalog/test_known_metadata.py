"""Metadata files are parsed once, and not at all if they were just written."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.serializers import FromInputFile

from lakewarden import Warden
from lakewarden.engine.catalog.known_metadata import KnownMetadata
from tests.metadata_parsed import metadata_parsed
from tests.small_lake import SmallLake

ROWS = pa.table({"id": [1, 2, 3], "city": ["a", "b", None]})


@pytest.fixture
def parsed(lake: SmallLake, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The metadata files that are parsed."""
    lake.catalog.create_namespace("db")
    lake.catalog.create_table("db.t", ROWS.schema).append(ROWS)
    return metadata_parsed(monkeypatch)


def test_what_was_committed_is_not_read_back(lake: SmallLake, parsed: list[str]) -> None:
    lake.warden.version.tag("db.t", "first").apply()
    lake.warden.version.branch("db.t", "audit").apply()
    lake.warden.version.rollback("db.t@first").apply()
    kept = lake.warden.ground.tables.load("db.t")
    assert parsed == []
    stored = FromInputFile.table_metadata(PyArrowFileIO().new_input(kept.metadata_location))
    assert kept.metadata == stored
    assert kept.metadata.model_dump_json() == stored.model_dump_json()


def test_what_others_committed_is_read(lake: SmallLake, parsed: list[str]) -> None:
    with Warden.open(lake.folder) as other:
        other.version.tag("db.t", "first").apply()
    parsed.clear()
    assert "first" in lake.warden.ground.tables.load("db.t").metadata.refs
    assert parsed == [lake.warden.ground.tables.load("db.t").metadata_location]


def test_a_file_of_another_length_is_not_the_one_that_was_written(lake: SmallLake, parsed: list[str]) -> None:
    lake.warden.version.tag("db.t", "first").apply()
    location = lake.warden.ground.tables.load("db.t").metadata_location
    written = Path(location.removeprefix("file://"))
    written.write_text(written.read_text() + " ")
    lake.warden.ground.tables.load("db.t")
    assert parsed == [location]


def test_a_commit_that_has_landed_does_not_fail_any_more(lake: SmallLake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a storage library raises: its manifests would be taken back, as of a commit that was refused."""

    def refuse(*_: object) -> None:
        raise RuntimeError("of a library")

    monkeypatch.setattr(KnownMetadata, "keep", refuse)
    lake.catalog.create_namespace("db")
    lake.catalog.create_table("db.t", ROWS.schema).append(ROWS)
    lake.warden.version.tag("db.t", "first").apply()
    assert "first" in lake.refs("db.t") and lake.catalog.load_table("db.t").scan().to_arrow().num_rows == 3
