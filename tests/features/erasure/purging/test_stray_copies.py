"""Copies that nothing leads to are erased with the rest, and nothing that anybody needs."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table.update import RemoveSnapshotsUpdate

from lakewarden.engine.history import unreferenced_copies
from lakewarden.engine.proof.objects import listed
from lakewarden.errors import Conflict, DeletionForbidden, StorageUnavailable, TracesLeft
from lakewarden.features.erasure import purge
from tests.features.erasure.people import SCHEMA, ids, person, with_people
from tests.small_lake import SmallLake


def append(lake: SmallLake, n: int, **facts: str) -> None:
    rows = pa.Table.from_pylist([person(n)], schema=SCHEMA)
    lake.catalog.load_table("crm.people").append(rows, snapshot_properties=facts)


def ask(lake: SmallLake, n: int = 4) -> str:
    return str(lake.warden.erasure.request("crm.people", key="email", value=[f"p{n}@example.org"]).id)


def folder(lake: SmallLake) -> Path:
    return Path(lake.catalog.load_table("crm.people").metadata.location.removeprefix("file://"))


def age(path: Path) -> None:
    for each in (path, *path.rglob("*")):
        os.utime(each, (time.time() - 40 * 86400,) * 2)


def test_metadata_that_others_commit_meanwhile_stays(lake: SmallLake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two commits while all is looked through: the second follows a state that was not known at the beginning."""
    with_people(lake)
    ask(lake)
    seen = list[int]()

    def meanwhile(*given: Any) -> Any:
        if not seen:
            seen.append(1)
            append(lake, 7, source="p4@example.org.csv")
            append(lake, 8)
        return listed(*given)

    monkeypatch.setattr(unreferenced_copies, "listed", meanwhile)
    with pytest.raises(TracesLeft, match="snapshot summary"):
        lake.warden.erasure.purge("crm.people").apply()
    assert seen
    assert ids(lake, raw=True) == [0, 1, 2, 3, 5, 7, 8]


def test_another_catalogs_table_below_is_left_alone(lake: SmallLake) -> None:
    with_people(lake)
    other = SqlCatalog("other", uri=f"sqlite:///{lake.folder}/other.db", warehouse=f"file://{lake.folder}/other")
    other.create_namespace("x")
    copy = other.create_table("x.copy", SCHEMA, location=f"{folder(lake).as_uri()}/exports/copy")
    copy.append(pa.Table.from_pylist([person(4)], schema=SCHEMA))
    age(folder(lake) / "exports")
    ask(lake)
    with pytest.raises(DeletionForbidden, match="the metadata of another table lies under its location"):
        lake.warden.erasure.purge("crm.people")
    assert other.load_table("x.copy").scan().to_arrow().num_rows == 1


def test_a_table_made_below_since_the_plan_is_left_alone(lake: SmallLake) -> None:
    with_people(lake)
    ask(lake)
    planned = lake.warden.erasure.purge("crm.people")
    below = lake.catalog.create_table("crm.sub", SCHEMA, location=f"{folder(lake).as_uri()}/sub")
    below.append(pa.Table.from_pylist([person(4)], schema=SCHEMA))
    age(folder(lake) / "sub")
    with pytest.raises(DeletionForbidden, match="shares its location with"):
        planned.apply()
    assert ids(lake, "crm.sub", raw=True) == [4]
    assert ids(lake, raw=True) == [0, 1, 2, 3, 4, 5]


def test_what_was_left_behind_goes_and_is_told(lake: SmallLake) -> None:
    with_people(lake)
    left = folder(lake) / "data" / "left-behind.parquet"
    pa.parquet.write_table(pa.Table.from_pylist([person(4)], schema=SCHEMA), left)
    age(left)
    asked = ask(lake)
    lake.warden.erasure.purge("crm.people").apply()
    assert not left.exists()
    told = lake.warden.ground.state.erasure.evidence(request=asked)
    assert any(file["path"].endswith(left.name) for each in told for file in each.document.get("files", ()))


def test_what_somebody_may_be_about_to_commit_is_left_and_told(lake: SmallLake) -> None:
    with_people(lake)
    young = folder(lake) / "data" / "on-its-way.parquet"
    pa.parquet.write_table(pa.Table.from_pylist([person(4)], schema=SCHEMA), young)
    asked = ask(lake)
    with pytest.raises(TracesLeft, match="new unreferenced files"):
        lake.warden.erasure.purge("crm.people").apply()
    assert young.exists()
    assert lake.warden.erasure.show(asked).state == "open"


def test_earlier_metadata_goes_also_where_no_version_has_rows(lake: SmallLake) -> None:
    with_people(lake)
    append(lake, 7, source="p4@example.org")
    table = lake.catalog.load_table("crm.people")
    table.overwrite(pa.Table.from_pylist([person(8)], schema=SCHEMA))
    table = lake.catalog.load_table("crm.people")
    old = [s.snapshot_id for s in table.metadata.snapshots if s.snapshot_id != table.current_snapshot().snapshot_id]
    lake.catalog.commit_table(table, (), (RemoveSnapshotsUpdate.model_validate({"snapshot-ids": old}),))
    for file in folder(lake).rglob("*"):
        if file.is_file():
            os.utime(file, (time.time() - 40 * 86400,) * 2)
    asked = ask(lake)
    lake.warden.erasure.purge("crm.people").apply()
    assert lake.warden.erasure.show(asked).state == "closed"
    assert [file for file in folder(lake).rglob("*.json") if b"p4@" in file.read_bytes()] == []
    assert ids(lake, raw=True) == [8]


def test_a_new_purge_ends_what_another_left(lake: SmallLake, monkeypatch: pytest.MonkeyPatch) -> None:
    with_people(lake)
    asked = ask(lake)

    def refused(*_: Any) -> int:
        raise StorageUnavailable("crm.people: 1 file could not be removed")

    with monkeypatch.context() as while_full:
        while_full.setattr(purge, "_remove", refused)
        with pytest.raises(StorageUnavailable):
            lake.warden.erasure.purge("crm.people").apply()
    result = lake.warden.erasure.purge("crm.people").apply().result
    assert result["requests_closed"] == 1
    assert result["rows_dropped_by_tombstones"] == 1
    assert lake.warden.erasure.show(asked).state == "closed"


def test_a_staged_version_is_not_lost(lake: SmallLake) -> None:
    with_people(lake)
    table = lake.catalog.load_table("crm.people")
    before = table.current_snapshot().snapshot_id
    append(lake, 4, **{"wap.id": "audit-1"})
    table = lake.catalog.load_table("crm.people")
    table.manage_snapshots().rollback_to_snapshot(before).commit()
    ask(lake)
    with pytest.raises(Conflict, match="is staged and not published"):
        lake.warden.erasure.purge("crm.people")


def test_the_certificate_says_that_a_copy_went_of_what_no_version_had(lake: SmallLake) -> None:
    with_people(lake)
    copy = folder(lake) / "data" / "left-behind.parquet"
    pa.parquet.write_table(pa.Table.from_pylist([person(9)], schema=SCHEMA), copy)
    age(copy)
    asked = ask(lake, 9)
    lake.warden.erasure.purge("crm.people").apply()
    assert not copy.exists()
    says = lake.warden.erasure.certificate(asked).says
    assert "none was found in main.crm.people when it was purged: no row was erased. 1 unreferenced file" in says
    assert "of main.crm.people with traces of the values was deleted as well" in says
