"""`table incompatible`.

Covers `features/table/older_schemas.py` and `engine/files/file_schemas.py`.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyiceberg.types import DoubleType, IntegerType, LongType, NestedField, StringType, StructType

from tests.small_lake import SmallLake

NAME = "sales.orders"


def _created(lake: SmallLake) -> Any:
    lake.catalog.create_namespace_if_not_exists("sales")
    schema = pa.schema([("id", pa.int32()), ("city", pa.string()), ("note", pa.string()), ("price", pa.float32())])
    table = lake.catalog.create_table(NAME, schema, properties={"format-version": "2"})
    table.append(pa.table({"id": [1], "city": ["Bern"], "note": ["x"], "price": [1.5]}, schema=schema))
    return table


def _changed(table: Any) -> Any:
    with table.update_schema() as update:
        update.delete_column("note").update_column("id", LongType()).rename_column("city", "town")
        update.add_column("address", StructType(NestedField(-1, "street", StringType(), required=False)))
    with table.update_schema() as update:
        update.add_column("note", IntegerType()).delete_column("price")
    return table


EXPECTED = [
    "address: null or its default (added since)",
    "note: null (dropped and added again; field id 3 when written and 7 now)",
    "price: not read (dropped since)",
    "id: read as long (int when written)",
    "city: read as town (renamed)",
]


def test_what_the_current_schema_reads_differently(lake: SmallLake) -> None:
    table = _created(lake)
    assert lake.warden.table.incompatible(NAME) == []
    _changed(table)
    table.append(pa.table({"id": pa.array([2], pa.int64()), "town": ["Thun"]}))
    (found,) = lake.warden.table.incompatible(NAME)
    assert sorted(found.differences) == sorted(EXPECTED)
    assert (found.schema_id, found.current_schema_id, found.files, found.rows) == (0, 2, 1, 1)
    assert found.known_by == "metadata" and found.total_size_bytes > 0 and len(found.file_paths) == 1


def _expired(lake: SmallLake) -> Any:
    """A table with three files, of which the current version's predecessors are gone."""
    table = _created(lake)
    table.append(pa.table({"id": pa.array([7], pa.int32()), "city": ["Biel"]}))
    _changed(table)
    table.append(pa.table({"id": pa.array([2], pa.int64()), "town": ["Thun"]}))
    return table


def test_a_manifest_tells_what_it_was_written_with(lake: SmallLake) -> None:
    _expired(lake)
    lake.warden.retention.expire(NAME, keep_last=1, keep_days=0).apply()
    (found,) = lake.warden.table.incompatible(NAME, footers=0)
    assert sorted(found.differences) == sorted(EXPECTED)
    assert (found.known_by, found.schema_id, found.files) == ("metadata", 0, 2)


def test_a_footer_tells_what_metadata_has_forgotten(lake: SmallLake) -> None:
    table = _expired(lake)
    merging = {"commit.manifest-merge.enabled": "true", "commit.manifest.min-count-to-merge": "2"}
    with table.transaction() as transaction:
        transaction.set_properties(merging)
    table.append(pa.table({"id": pa.array([3], pa.int64()), "town": ["Uster"]}))
    assert [(one.known_by, one.files) for one in lake.warden.table.incompatible(NAME)] == [("metadata", 2)]
    lake.warden.retention.expire(NAME, keep_last=1, keep_days=0).apply()
    (found,) = lake.warden.table.incompatible(NAME)
    assert sorted(found.differences) == sorted(EXPECTED)
    assert (found.known_by, found.schema_id, found.files) == ("footer", 0, 2)
    (unknown,) = lake.warden.table.incompatible(NAME, footers=0)
    assert (unknown.known_by, unknown.schema_id, unknown.files) == ("nothing", None, 3)
    assert "is not known" in unknown.differences[0]


def test_a_writer_with_an_older_schema_than_the_table_had(lake: SmallLake) -> None:
    """Its file lacks the new column, though the version says otherwise: metrics show it."""
    table = _created(lake)
    late = lake.catalog.load_table(NAME)
    with table.update_schema() as update:
        update.add_column("rating", DoubleType())
    rows = pa.table({"id": pa.array([3], pa.int32()), "rating": [1.0]})
    lake.catalog.load_table(NAME).append(rows)
    path = _file_of(late)
    transaction = lake.catalog.load_table(NAME).transaction()
    with transaction, transaction.update_snapshot().fast_append() as update:
        update.append_data_file(path)
    found = lake.warden.table.incompatible(NAME)
    assert sorted((one.known_by, one.files) for one in found) == [("footer", 1), ("metadata", 1)]
    assert {tuple(one.differences) for one in found} == {("rating: null or its default (added since)",)}


def _file_of(table: Any) -> Any:
    """A new file of a table, as a writer makes it that loaded the table some time ago."""
    from pyiceberg.io.pyarrow import _dataframe_to_data_files

    rows = pa.table(
        {"id": pa.array([4], pa.int32()), "city": ["Chur"], "note": ["y"], "price": pa.array([2], pa.float32())}
    )
    (file,) = _dataframe_to_data_files(table.metadata, rows, table.io)
    return file
