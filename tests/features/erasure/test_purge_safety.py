"""`erasure purge` where it could take too much or get stuck: columns that grew, staged versions, files of others."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet
import pytest
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DecimalType, LongType

from lakewarden.engine.history.spark_route import displaced
from lakewarden.errors import DeletionForbidden, StalePlan, StorageUnavailable, TracesLeft
from lakewarden.lifecycle.failpoints import when
from lakewarden.records.erasure import EvidenceKind
from tests.features.erasure.people import SCHEMA, ids, person, with_people
from tests.small_lake import SmallLake


def ask(lake: SmallLake, *people: int) -> str:
    return str(lake.warden.erasure.request("crm.people", key="email", value=[f"p{n}@example.org" for n in people]).id)


def add(lake: SmallLake, *people: int, **facts: str) -> int:
    """Append, and answer with the version that had been there."""
    table = lake.catalog.load_table("crm.people")
    table.append(pa.Table.from_pylist([person(n) for n in people], schema=SCHEMA), snapshot_properties=facts)
    before = table.metadata.snapshots[-2].snapshot_id
    return int(before)


def stage(lake: SmallLake, *people: int) -> int:
    """A version that waits to be published: no ref leads to it."""
    before = add(lake, *people, **{"wap.id": "audit-1"})
    table = lake.catalog.load_table("crm.people")
    staged = table.current_snapshot().snapshot_id
    table.manage_snapshots().rollback_to_snapshot(before).commit()
    return int(staged)


def folder(lake: SmallLake) -> Path:
    return Path(lake.catalog.load_table("crm.people").metadata.location.removeprefix("file://"))


@pytest.mark.parametrize(
    ("kind", "wider", "other"),
    [
        pytest.param(pa.int32(), LongType(), 2**40, id="int"),
        pytest.param(pa.decimal128(4, 2), DecimalType(20, 2), Decimal("123456789.25"), id="decimal"),
    ],
)
def test_a_key_column_that_grew_since_the_request(lake: SmallLake, kind: Any, wider: Any, other: Any) -> None:
    """A value that the type of the request has no room for is somebody else's, and stays."""
    lake.catalog.create_namespace("crm")
    table = lake.catalog.create_table("crm.people", pa.schema([("id", kind)]))
    table.append(pa.table({"id": pa.array([5, 6], kind)}))
    asked = lake.warden.erasure.request("crm.people", key="id", value=["5"]).id
    with table.update_schema() as change:
        change.update_column("id", wider)
    grown = pa.int64() if kind == pa.int32() else pa.decimal128(20, 2)
    table.refresh()
    table.append(pa.table({"id": pa.array([5, other], grown)}))
    result = lake.warden.erasure.purge("crm.people").apply().result
    assert result["rows_dropped_by_tombstones"] == 2
    left = {row["id"] for row in lake.warden.version.read("crm.people", raw=True)}
    assert left == {6, other}
    assert lake.warden.erasure.show(asked).state == "closed"


class TestStaged:
    def test_since_the_plan(self, any_lake: SmallLake) -> None:
        lake = with_people(any_lake)
        asked = ask(lake, 1)
        planned = lake.warden.erasure.purge("crm.people")
        staged = stage(lake, 7)
        before = set(folder(lake).rglob("*.parquet"))
        with pytest.raises(StalePlan, match=f"snapshot {staged} is staged and not published") as refused:
            planned.apply()
        assert "Publish it" in refused.value.hint
        assert ids(lake, f"crm.people@{staged}", raw=True) == [0, 1, 2, 3, 4, 5, 7]
        assert ids(lake, raw=True) == [0, 1, 2, 3, 4, 5]
        assert set(folder(lake).rglob("*.parquet")) == before
        assert lake.warden.erasure.show(asked).state == "open"

    def test_while_files_are_written_anew(self, lake: SmallLake) -> None:
        with_people(lake)
        ask(lake, 1)
        staged: list[int] = []
        when("purge.rewritten", lambda: staged.append(stage(lake, 7)))
        with pytest.raises(StalePlan, match="is staged and not published"):
            lake.warden.erasure.purge("crm.people").apply()
        assert ids(lake, f"crm.people@{staged[0]}", raw=True) == [0, 1, 2, 3, 4, 5, 7]

    def test_what_is_staged_while_spark_moves_a_branch_is_not_put_on_it(self, lake: SmallLake) -> None:
        with_people(lake)
        head = lake.head("crm.people")
        known = {snapshot.snapshot_id for snapshot in lake.catalog.load_table("crm.people").metadata.snapshots}
        stage(lake, 7)
        assert displaced(lake.catalog.load_table("crm.people"), head, known) is None

    def test_published_by_moving_the_branch_to_it(self, lake: SmallLake) -> None:
        """Nothing notes that; but it is in the line of the branch, however far that went on."""
        with_people(lake)
        staged = stage(lake, 7)
        lake.catalog.load_table("crm.people").manage_snapshots().set_current_snapshot(staged).commit()
        add(lake, 8)
        asked = ask(lake, 1)
        lake.warden.erasure.purge("crm.people").apply()
        assert ids(lake, raw=True) == [0, 2, 3, 4, 5, 7, 8]
        assert lake.warden.erasure.show(asked).state == "closed"


def test_a_refusal_of_the_plan_tells_no_value_in_a_path(lake: SmallLake) -> None:
    with_people(lake)
    table = lake.catalog.load_table("crm.people")
    with table.update_spec() as change:
        change.add_field("email", IdentityTransform(), "email")
    ask(lake, 1)
    foreign = folder(lake) / "data" / "email=p1%40example.org" / "00000-0.metadata.json"
    foreign.parent.mkdir()
    foreign.write_text(f'{{"table-uuid": "{uuid4()}"}}')
    with pytest.raises(DeletionForbidden, match="metadata of another table lies under its location") as refused:
        lake.warden.erasure.purge("crm.people")
    assert "email=*/" in refused.value.message
    assert "p1%40" not in refused.value.message + refused.value.hint + str(refused.value)


def add_from_elsewhere(lake: SmallLake, path: Path, *people: int) -> Path:
    """A file that another table may own as well."""
    table = lake.catalog.load_table("crm.people")
    path.parent.mkdir(parents=True)
    rows = pa.Table.from_pylist([person(n) for n in people], schema=SCHEMA)
    pa.parquet.write_table(rows.cast(table.schema().as_arrow()), path)  # with field ids
    table.add_files([f"file://{path}"])
    return path


def left_outside(lake: SmallLake, asked: str) -> list[dict[str, Any]]:
    told = lake.warden.ground.state.erasure.evidence([EvidenceKind.PURGED], request=asked)[-1]
    found: list[dict[str, Any]] = told.document["outside"]
    assert not {file["path"] for file in found} & {file["path"] for file in told.document["files"]}
    return found


class TestOutside:
    """Files that do not lie where the table's own do are never deleted, and the certificate says so."""

    @pytest.mark.parametrize("people", [(7, 8), (7,)], ids=["written anew", "all rows go"])
    def test_they_stay(self, any_lake: SmallLake, tmp_path: Path, people: tuple[int, ...]) -> None:
        lake = with_people(any_lake)
        shared = add_from_elsewhere(lake, tmp_path / "shared" / "a.parquet", *people)
        before = shared.read_bytes()
        asked = ask(lake, 1, 7)
        planned = lake.warden.erasure.purge("crm.people")
        assert any("1 files with rows to erase lie outside" in warning for warning in planned.plan.warnings)
        planned.apply()
        assert shared.read_bytes() == before
        assert ids(lake, raw=True) == sorted({0, 2, 3, 4, 5, *people} - {7})
        assert lake.warden.erasure.show(asked).state == "closed"
        [told] = left_outside(lake, asked)
        assert (told["path"], told["kind"], told["rows"]) == (f"file://{shared}", "data", 1)
        said = lake.warden.erasure.certificate(asked)
        assert [line for line in said.not_covered if f"file://{shared}," in line and "still holds 1 erased row" in line]
        assert "1 file outside of the tables' locations was not deleted" in said.says
        assert not [file for file in said.removed_files if "shared" in file.path]
        assert [file for file in said.removed_files if file.kind == "data" and file.sha256]

    def test_of_a_version_that_no_ref_leads_to(self, lake: SmallLake, tmp_path: Path) -> None:
        with_people(lake)
        before = lake.catalog.load_table("crm.people").current_snapshot().snapshot_id
        shared = add_from_elsewhere(lake, tmp_path / "shared" / "a.parquet", 7, 8)
        lake.catalog.load_table("crm.people").manage_snapshots().rollback_to_snapshot(before).commit()
        asked = ask(lake, 7)
        lake.warden.erasure.purge("crm.people").apply()
        assert shared.exists()
        assert [file["path"] for file in left_outside(lake, asked)] == [f"file://{shared}"]

    def test_nor_by_a_run_that_goes_on_where_an_earlier_version_stopped(self, lake: SmallLake, tmp_path: Path) -> None:
        """Which wrote files outside down as if they were the table's."""
        with_people(lake)
        shared = add_from_elsewhere(lake, tmp_path / "shared" / "a.parquet", 7, 8)
        asked = ask(lake, 7)

        def stop() -> None:
            raise StorageUnavailable("stopped")

        when("purge.committed", stop)
        with pytest.raises(StorageUnavailable):
            lake.warden.erasure.purge("crm.people").apply()
        tombstones = lake.warden.ground.state.erasure
        told = tombstones.evidence([EvidenceKind.INTENT], request=asked)[-1]
        outside = [{k: v for k, v in file.items() if k != "rows"} for file in told.document["outside"]]
        assert [file["path"] for file in outside] == [f"file://{shared}"]
        document = {name: fact for name, fact in told.document.items() if name != "outside"}
        document["files"] = [*document["files"], *({**file, "sha256": "aa" * 32} for file in outside)]
        tombstones.record(replace(told, document=document))
        lake.warden.erasure.purge("crm.people").apply()
        assert shared.exists()
        [left] = left_outside(lake, asked)
        assert (left["path"], left["rows"]) == (f"file://{shared}", 1)
        assert lake.warden.erasure.show(asked).state == "closed"

    def test_without_the_value_that_a_path_tells(self, lake: SmallLake, tmp_path: Path) -> None:
        with_people(lake)
        with lake.catalog.load_table("crm.people").update_spec() as change:
            change.add_field("email", IdentityTransform(), "email")
        shared = add_from_elsewhere(lake, tmp_path / "shared" / "email=p7@example.org" / "a.parquet", 7)
        asked = ask(lake, 7)
        lake.warden.erasure.purge("crm.people").apply()
        assert shared.exists()
        said = lake.warden.erasure.certificate(asked)
        assert [line for line in said.not_covered if "/shared/email=*/a.parquet" in line]
        assert "p7@" not in str(said) + str(left_outside(lake, asked))

    def test_for_the_next_person_too(self, lake: SmallLake, tmp_path: Path) -> None:
        """Whose row is in the same file, though nothing leads to it any more."""
        with_people(lake)
        shared = add_from_elsewhere(lake, tmp_path / "shared" / "a.parquet", 7, 8)
        for asked in (ask(lake, 7), ask(lake, 8)):
            lake.warden.erasure.purge(request=[asked]).apply()
            assert [file["path"] for file in left_outside(lake, asked)] == [f"file://{shared}"]
        said = lake.warden.erasure.certificate(asked)
        [line] = [line for line in said.not_covered if f"file://{shared}," in line]
        assert "may hold or mention erased rows" in line

    def test_once_by_the_certificate_of_two_runs(self, lake: SmallLake, tmp_path: Path) -> None:
        with_people(lake)
        shared = add_from_elsewhere(lake, tmp_path / "shared" / "a.parquet", 7, 8)
        asked = ask(lake, 7)
        when("purge.rewritten", lambda: add(lake, 7))
        with pytest.raises(TracesLeft):
            lake.warden.erasure.purge("crm.people").apply()
        lake.warden.erasure.purge("crm.people").apply()
        assert [file["rows"] for file in left_outside(lake, asked)] == [0]
        said = lake.warden.erasure.certificate(asked)
        [told] = [line for line in said.not_covered if f"file://{shared}," in line]
        assert "still holds 1 erased row" in told and "1 file outside" in said.says

    def test_one_that_its_owner_has_removed_is_not_told(self, lake: SmallLake, tmp_path: Path) -> None:
        with_people(lake)
        shared = add_from_elsewhere(lake, tmp_path / "shared" / "a.parquet", 7, 8)
        asked = ask(lake, 7)
        when("purge.committed", shared.unlink)
        lake.warden.erasure.purge("crm.people").apply()
        assert left_outside(lake, asked) == []
        assert "not deleted" not in lake.warden.erasure.certificate(asked).says
