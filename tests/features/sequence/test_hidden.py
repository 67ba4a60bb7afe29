"""Which rows of the database erasure requests of an archive hide."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakewarden.errors import Conflict
from lakewarden.features.sequence.hidden import Hidden
from tests.features.sequence.archive_alone import NAME, Archive


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[Archive]:
    made = Archive(tmp_path)
    with made.lake:
        made.copy("p1", {1: "anna@x", 2: "b@x"})
        yield made


def shown(archive: Archive, batch: Any) -> list[int]:
    hidden = Hidden.of(archive.lake.warden.ground, archive.table, batch.schema)
    return [int(id) for id in hidden.left_out(batch)["id"].to_pylist()]


EMAILS = ["anna@x", "Anna@X", "ANNA@x", " anna@X ", "b@x", None]


@pytest.mark.parametrize(
    ("spelling", "left"),
    [
        ({}, [1, 3, 4, 5, 6]),
        ({"ignore_case": True}, [4, 5, 6]),
        ({"ignore_case": True, "trim": True}, [5, 6]),
    ],
)
def test_rows_in_other_spellings_are_hidden(archive: Archive, spelling: dict[str, bool], left: list[int]) -> None:
    """Also those that the archive does not have, for requests that ignore spellings."""
    archive.lake.warden.erasure.request(NAME, key="email", value=["Anna@X"], **spelling)
    assert shown(archive, pa.record_batch({"id": range(1, 7), "email": EMAILS})) == left


def test_only_the_request_that_ignores_spellings_hides_others(archive: Archive) -> None:
    archive.lake.warden.erasure.request(NAME, key="email", value=["anna@x"])
    archive.lake.warden.erasure.request(NAME, key="email", value=["B@X"], ignore_case=True)
    assert shown(archive, pa.record_batch({"id": [1, 2, 3], "email": ["ANNA@x", "anna@x", "b@X"]})) == [1]


@pytest.mark.parametrize("type", [pa.int64(), pa.int32(), pa.float64(), pa.decimal128(12, 2), pa.string()])
def test_a_column_that_changed_its_type_is_compared(archive: Archive, type: pa.DataType) -> None:
    archive.lake.warden.erasure.request(NAME, key="id", value=["2"])
    batch = pa.record_batch({"id": pa.array([1, 2, 3], pa.int32()).cast(type)})
    assert shown(archive, batch) == [1, 3]


@pytest.mark.parametrize(
    ("key", "type"), [("id", pa.timestamp("us")), ("email", pa.timestamp("us")), ("email", pa.decimal128(9, 2))]
)
def test_a_column_whose_values_cannot_be_compared_is_refused(archive: Archive, key: str, type: pa.DataType) -> None:
    archive.lake.warden.erasure.request(NAME, key=key, value=["2"])
    with pytest.raises(Conflict, match=f"hide rows of main.archive.orders by {key}, and the database has values of"):
        shown(archive, pa.record_batch({key: pa.array([None], type)}))


def test_a_request_of_an_archive_without_any_version_hides_rows(tmp_path: Path) -> None:
    """The archive was created, and its first copy failed."""
    archive = Archive(tmp_path)
    with archive.lake:
        archive.lake.warden.erasure.request(NAME, key="email", value=["anna@x"])
        assert shown(archive, pa.record_batch({"id": [1, 2], "email": ["anna@x", "b@x"]})) == [2]
