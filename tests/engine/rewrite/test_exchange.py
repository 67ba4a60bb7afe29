"""New rows on real Spark: what tasks report is checked, and nothing else is left."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import SortField, SortOrder
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField

from lakewarden.engine.files.written_files import layout_for
from lakewarden.engine.kernel import exchange_task
from lakewarden.engine.kernel.exchange_task import Slice
from lakewarden.engine.kernel.messages import GroupReport
from lakewarden.engine.rewrite import exchange
from lakewarden.engine.rewrite.exchange import Exchange, NumberedRows, is_exchangeable
from lakewarden.engine.storage.storage import Storage
from lakewarden.errors import BrokenTable, SparkUnavailable, StorageUnavailable, VerificationFailed
from lakewarden.lifecycle import failpoints
from tests.small_lake import SmallLake

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FLAT = pa.schema([("id", pa.int64()), ("text", pa.string())])
WITH_IDS = Schema(NestedField(1, "id", LongType()))
BY_ID = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "id"))
SETTINGS = ("spark.sql.execution.arrow.maxRecordsPerBatch", "spark.sql.execution.arrow.maxBytesPerBatch")


def table_of(lake: SmallLake, schema: Any = FLAT, **more: Any) -> Any:
    lake.catalog.create_namespace_if_not_exists("db")
    return lake.catalog.create_table("db.t", schema, **more)


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, True),
        ({"properties": {"format-version": "1"}}, True),
        ({"properties": {"write.format.default": "orc"}}, False),
        ({"properties": {"write.object-storage.enabled": "true"}}, False),
        ({"properties": {"write.location-provider.impl": "a.Provider"}}, False),
        (
            {"schema": WITH_IDS, "partition_spec": PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "id"))},
            False,
        ),
        ({"schema": WITH_IDS, "sort_order": SortOrder(SortField(1, IdentityTransform()))}, False),
        ({"schema": pa.schema([("nested", pa.list_(pa.struct([("at", pa.timestamp("us"))])))])}, True),
        ({"schema": pa.schema([("money", pa.decimal128(9, 2)), ("by", pa.map_(pa.string(), pa.date32()))])}, True),
        ({"schema": pa.schema([("key", pa.binary(16))])}, False),
        ({"schema": pa.schema([("place", pa.struct([pa.field("street", pa.string(), False)]))])}, False),
        ({"schema": pa.schema([("nested", pa.struct([("clock", pa.time64("us"))]))])}, False),
    ],
)
def test_which_tables_ask_for_nothing_else(lake: SmallLake, more: dict[str, Any], expected: bool) -> None:
    assert is_exchangeable(table_of(lake, **more)) is expected


def test_pieces_have_one_number_and_tasks_several_pieces() -> None:
    slices = [Slice(number, "file", 0, 400 << 20, 1) for number in (1, 0, 1, 0, 1)]
    pieces = list(exchange._pieces(slices))
    assert [(piece.number, len(piece.slices)) for piece in pieces] == [(0, 2), (1, 2), (1, 1)]
    assert [len(task) for task in exchange._tasks(pieces)] == [1, 1, 1]
    small = [Slice(number, "file", 0, 20 << 20, 1) for number in range(7)]
    assert [len(task) for task in exchange._tasks(exchange._pieces(small))] == [3, 3, 1]


class Writing:
    """A table, and rows for it."""

    def __init__(self, lake: SmallLake) -> None:
        self.lake, self.table = lake, table_of(lake)
        self.folder = f"{self.table.location()}/data/new"
        ground = lake.warden.ground
        self.spark = ground.spark
        self._exchange = Exchange(lambda: self.spark, ground.settings.lake("main"), Storage(ground.stores["main"]))

    def write(self, rows: Callable[[SparkSession], DataFrame], row_bytes: float = 10, seconds: float = 60) -> Any:
        layout = layout_for(self.table, 512 << 20, "counts", 512 << 20)
        return self._exchange.write(self.table, NumberedRows(rows, row_bytes, seconds), layout, self.folder)

    def stored(self) -> list[str]:
        found = Storage(self.lake.warden.ground.stores["main"]).walk(self.folder)
        return sorted(file.path.removeprefix("file://") for file in found)


@pytest.fixture
def writing(lake: SmallLake) -> Writing:
    return Writing(lake)


def numbered(session: SparkSession) -> DataFrame:
    return session.range(0, 1000, 1, 3).selectExpr("id", "CONCAT('x', id) AS text", "CAST(id % 4 AS INT) AS number")


@pytest.mark.spark
def test_rows_by_number_and_nothing_else_is_left(writing: Writing) -> None:
    before = [writing.spark.session().conf.get(key, None) for key in SETTINGS]
    for row_bytes in (10, 5000):
        found = writing.write(numbered, row_bytes)
        rows = {number: sum(each.file.record_count for each in files) for number, files in found.items()}
        assert rows == dict.fromkeys(range(4), 250)
        paths = [each.file.file_path.removeprefix("file://") for files in found.values() for each in files]
        assert writing.stored() == sorted(paths)
        assert [writing.spark.session().conf.get(key, None) for key in SETTINGS] == before
        for path in paths:
            Path(path).unlink()
    assert writing.write(lambda session: numbered(session).where("false")) == {}
    assert writing.stored() == []


class Conf(dict[str, str]):
    """The settings of a session."""

    def set(self, key: str, value: str) -> None:
        self[key] = value

    def unset(self, key: str) -> None:
        self.pop(key, None)


def test_the_last_of_several_threads_restores_the_settings() -> None:
    conf = Conf({SETTINGS[0]: "17"})
    session: Any = SimpleNamespace(conf=conf)
    batches = exchange._LargeBatches()
    first, second = batches.within(session, True), batches.within(session, True)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert conf == exchange._UNMEASURED
    second.__exit__(None, None, None)
    assert conf == {SETTINGS[0]: "17"}
    with batches.within(session, False):
        assert conf == {SETTINGS[0]: "17"}


@pytest.mark.spark
def test_rows_with_other_columns_than_the_table_are_refused(writing: Writing) -> None:
    """By a change between loading the table and reading it on Spark."""
    with pytest.raises(VerificationFailed, match="its columns changed meanwhile"):
        writing.write(lambda session: numbered(session).withColumnRenamed("text", "words"))
    assert writing.stored() == []


@pytest.mark.spark
def test_errors_leave_nothing(writing: Writing) -> None:
    before = [writing.spark.session().conf.get(key, None) for key in SETTINGS]
    with pytest.raises(SparkUnavailable, match="DIVIDE_BY_ZERO"):
        writing.write(lambda session: numbered(session).selectExpr("1 div (id - 900) AS id", "text", "number"))
    assert writing.stored() == [] and [writing.spark.session().conf.get(key, None) for key in SETTINGS] == before

    def interrupt() -> None:
        assert any(path.endswith(".arrow") for path in writing.stored())
        raise KeyboardInterrupt

    failpoints.when("exchange.spread", interrupt)
    with pytest.raises(KeyboardInterrupt):
        writing.write(numbered)
    assert writing.stored() == []

    def remove() -> None:
        for path in writing.stored():
            Path(path).unlink()

    failpoints.when("exchange.spread", remove)
    with pytest.raises(BrokenTable, match="arrow"):
        writing.write(numbered)
    assert writing.stored() == []

    def damage() -> None:
        for path in writing.stored():
            Path(path).write_bytes(b"")

    failpoints.when("exchange.written", damage)
    with pytest.raises(StorageUnavailable, match="cannot be read back"):
        writing.write(numbered)
    assert writing.stored() == []


@pytest.mark.spark
def test_reports_are_checked_against_footers(writing: Writing, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = GroupReport.from_json

    def lying(text: str) -> GroupReport:
        report = honest(text)
        return replace(report, number=(report.number + 1) % 5)

    monkeypatch.setattr(GroupReport, "from_json", staticmethod(lying))
    with pytest.raises(VerificationFailed, match="1000 rows were to be written"):
        writing.write(numbered)
    assert writing.stored() == []


@pytest.mark.spark
def test_numbers_that_do_not_fit_are_refused(writing: Writing) -> None:
    most = exchange_task.MOST_NUMBERS
    with pytest.raises(SparkUnavailable):
        writing.write(lambda session: numbered(session).selectExpr("id", "text", f"CAST(id + {most} AS INT) AS number"))
    assert writing.stored() == []


@pytest.mark.spark
@pytest.mark.own_processes  # the server is Java
def test_on_s3(on_s3: SmallLake) -> None:
    """Objects come to be when they are closed: those of tasks that fail are not left either."""
    writing = Writing(on_s3)
    found = writing.write(numbered)
    paths = sorted(each.file.file_path for files in found.values() for each in files)
    assert writing.stored() == paths and all(path.startswith("s3://") for path in paths)
    assert sum(each.file.record_count for files in found.values() for each in files) == 1000
    Storage(on_s3.warden.ground.stores["main"]).delete_all(paths)
    wide = "CASE WHEN id = 990 THEN 1 div (id - 990) ELSE id END AS id", "repeat(text, 50000) AS text", "number"
    with pytest.raises(SparkUnavailable, match="DIVIDE_BY_ZERO"):
        writing.write(lambda session: numbered(session).coalesce(1).selectExpr(*wide))
    assert writing.stored() == []
