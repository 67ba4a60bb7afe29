"""Equality deletes without the rows of erased keys, of every type of key, and however writers store them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakewarden.engine.files.live_files import DeleteFile
from lakewarden.engine.rewrite.equality_deletes import without_keys
from lakewarden.engine.storage.storage import Storage
from lakewarden.errors import BrokenTable, LakewardenError
from lakewarden.records.erasure import HiddenKey
from tests.deletes_by_hand import column, commit_deletes, equality_deletes
from tests.engine.cleansed import People, local
from tests.features.erasure.people import ids, person, with_people
from tests.small_lake import SmallLake

KINDS = {"id": "long", "email": "string", "born": "date", "number": "decimal(9, 2)", "code": "uuid"}


class Deleting:
    """A table of people, some of whom are deleted by a file that holds their keys."""

    def __init__(self, lake: SmallLake) -> None:
        self.lake, self.people = with_people(lake), People(lake.warden)

    def id(self, name: str) -> int:
        return int(self.people.table.schema().find_field(name).field_id)

    def delete(self, rows: pa.Table, compared: Sequence[int], **writing: Any) -> DeleteFile:
        """Commit such a file, as Flink would."""
        table = self.people.table
        file = equality_deletes(table, rows, compared, **writing)
        commit_deletes(table, file)
        (committed,) = (delete for delete in self.people.files().deletes if delete.path == file.file_path)
        assert isinstance(committed, DeleteFile)
        return committed

    def left(self, delete: DeleteFile, *keys: HiddenKey) -> Any:
        """What is left of such a file without the keys."""
        table, storage = self.people.table, Storage(self.lake.warden.ground.stores["main"])
        made = without_keys(table, delete, keys, storage, f"{table.metadata.location}/data/new")
        if made.file is None:
            return []
        assert made.rows_in - made.rows_dropped == made.file.record_count
        return pq.ParquetFile(local(made.file.file_path)).read().to_pylist()


@pytest.fixture
def deleting(lake: SmallLake) -> Deleting:
    return Deleting(lake)


@pytest.mark.parametrize("name", KINDS)
def test_every_type_of_key(deleting: Deleting, name: str) -> None:
    values = [person(n)[name] for n in range(1, 5)]
    id = deleting.id(name)
    type_ = deleting.people.table.schema().as_arrow().field(name).type
    delete = deleting.delete(pa.table([pa.array(values, type_)], schema=pa.schema([column(name, type_, id)])), [id])
    assert deleting.left(delete, HiddenKey(id, KINDS[name], [str(values[0]), str(values[2])])) == [
        {name: values[1]},
        {name: values[3]},
    ]
    assert deleting.left(delete, HiddenKey(id, KINDS[name], [str(value) for value in values])) == []


def test_uuids_in_several_pieces_and_nulls(deleting: Deleting) -> None:
    id, codes = deleting.id("code"), [UUID(int=n) for n in range(5)]
    field = column("code", pa.uuid(), id)
    rows = pa.table([pa.array([*codes, None], pa.uuid())], schema=pa.schema([field]))
    delete = deleting.delete(rows, [id], row_group_size=2)
    left = deleting.left(delete, HiddenKey(id, "uuid", [str(codes[1]), str(codes[4])]))
    assert [row["code"] for row in left] == [codes[0], codes[2], codes[3], None]


def test_a_dictionary(deleting: Deleting) -> None:
    id, type_ = deleting.id("email"), pa.dictionary(pa.int32(), pa.string())
    rows = pa.table([pa.array(["a", "b", None, "a"]).cast(type_)], schema=pa.schema([column("email", type_, id)]))
    left = deleting.left(deleting.delete(rows, [id]), HiddenKey(id, "string", ["a"]))
    assert [row["email"] for row in left] == ["b", None]


def test_a_number_that_was_narrower(deleting: Deleting) -> None:
    id = deleting.id("id")
    rows = pa.table([pa.array([1, 2], pa.int32())], schema=pa.schema([column("id", pa.int32(), id)]))
    assert deleting.left(deleting.delete(rows, [id]), HiddenKey(id, "long", ["1", str(1 << 40)])) == [{"id": 2}]


def test_within_a_struct(deleting: Deleting) -> None:
    outer, inner = deleting.id("user"), deleting.id("user.email")
    field = column("user", pa.struct([column("email", pa.string(), inner)]), outer)
    rows = pa.table([[{"email": "u1"}, None, {"email": "u2"}]], schema=pa.schema([field]))
    left = deleting.left(deleting.delete(rows, [inner]), HiddenKey(inner, "string", ["u1"]))
    assert left == [{"user": None}, {"user": {"email": "u2"}}]


def test_what_cannot_be_compared_is_told_without_a_value(deleting: Deleting) -> None:
    id = deleting.id("number")
    rows = pa.table([["secret"]], schema=pa.schema([column("number", pa.string(), id)]))
    delete = deleting.delete(rows, [id])
    with pytest.raises(BrokenTable, match="cannot be read as decimal") as raised:
        deleting.left(delete, HiddenKey(id, "decimal(9, 2)", ["1.50"]))
    assert delete.path in raised.value.message and "secret" not in repr(raised.value)


@pytest.mark.parametrize("content", [b"", b"secret" * 100, None])
def test_a_damaged_file_is_told_without_a_value(deleting: Deleting, content: bytes | None) -> None:
    id = deleting.id("email")
    delete = deleting.delete(
        pa.table([["secret"] * 50], schema=pa.schema([column("email", pa.string(), id)])), [id], use_dictionary=False
    )
    whole = local(delete.path).read_bytes()
    local(delete.path).write_bytes(whole[:4] + b"\xff" * 40 + whole[44:] if content is None else content)
    with pytest.raises(LakewardenError, match="cannot be read") as raised:
        deleting.left(delete, HiddenKey(id, "string", ["secret"]))
    assert delete.path in raised.value.message and "secret" not in f"{raised.value!r} {raised.value.__cause__!r}"


@pytest.mark.spark
def test_a_purge_by_uuid(deleting: Deleting) -> None:
    lake, id = deleting.lake, deleting.id("code")
    codes = [UUID(int=n) for n in (1, 4)]
    rows = pa.table([pa.array(codes, pa.uuid())], schema=pa.schema([column("code", pa.uuid(), id)]))
    deleting.delete(rows, [id])
    lake.warden.erasure.request("crm.people", key="code", value=[str(codes[0]), str(UUID(int=2))])
    result = lake.warden.erasure.purge("crm.people").apply().result
    assert result["requests_closed"] == 1
    (delete,) = deleting.people.files().deletes
    assert pq.ParquetFile(local(delete.path)).read()["code"].to_pylist() == codes[1:]
    assert ids(lake, raw=True) == [0, 3, 5]
