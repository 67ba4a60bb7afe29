"""`version read`."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from fastapi.testclient import TestClient
from pyiceberg.types import StringType

from lakewarden.doors.rest.app import create_app
from lakewarden.errors import BadFilter, BadValue, ColumnNotFound, StateUnavailable
from lakewarden.features.shared.summary import live_rows
from lakewarden.features.version import read as version_read
from lakewarden.features.version.read import Read
from lakewarden.lifecycle.rows import Rows
from tests.deletes_by_hand import column_of, commit_deletes, equality_deletes, unpartitioned
from tests.small_lake import ANY_FORMAT, SmallLake


def test_reads_any_version(orders: SmallLake) -> None:
    versions = [row.snapshot_id for row in orders.warden.version.list("sales.orders")]
    counts = [len(orders.warden.version.read(f"sales.orders@{version}")) for version in versions]
    assert counts == [6, 4, 2]


@ANY_FORMAT
def test_where_columns_and_limit(orders: SmallLake) -> None:
    read = orders.warden.version.read
    found = read("sales.orders", where="id >= 2 AND city != 'city 3'", columns=["id"])
    assert sorted(row["id"] for row in found) == [2, 4, 5]
    assert {tuple(row) for row in found} == {("id",)}
    assert read("sales.orders", where="city LIKE 'city 5%'").rows == [{"id": 5, "city": "city 5"}]
    assert len(read("sales.orders", limit=3)) == 3
    assert read("sales.orders", limit=0).rows == []
    assert read("sales.orders", columns="city, id", limit=1)[0].keys() == {"city", "id"}


@pytest.fixture
def fifty(lake: SmallLake) -> SmallLake:
    lake.create(appends=0)
    lake.append(rows=50)
    return lake


def test_python_gets_all_rows_unless_it_asks_for_fewer(fifty: SmallLake) -> None:
    read = fifty.warden.version.read
    assert _counted(read("sales.orders")) == (50, 50, False)
    assert _counted(read("sales.orders", limit=50)) == (50, 50, False)
    assert _counted(read("sales.orders", limit=49)) == (49, 50, True)
    assert _counted(read("sales.orders", limit=0)) == (0, 50, True)
    assert len(read("sales.orders")) == 50 and read("sales.orders", limit=1)[0] == {"id": 0, "city": "city 0"}


def test_what_is_shown_is_cut_and_says_so(fifty: SmallLake) -> None:
    assert _counted(fifty.warden.ask(Read(version="sales.orders").to_show())) == (20, 50, True)
    assert _counted(fifty.warden.ask(Read(version="sales.orders", limit=30).to_show())) == (30, 50, True)


def test_rows_of_a_filter_are_counted(fifty: SmallLake) -> None:
    read = fifty.warden.version.read
    assert _counted(read("sales.orders", where="id >= 10", limit=3)) == (3, 40, True)  # a part of one file
    fifty.append(rows=10)
    assert _counted(read("sales.orders", where="id >= 50", limit=3)) == (3, 10, True)  # a whole file, by its bounds
    assert _counted(read("sales.orders", where="id < 3", limit=3)) == (3, 3, False)


def test_hidden_rows_are_not_counted(fifty: SmallLake) -> None:
    fifty.warden.erasure.request("sales.orders", key="city", value=["city 1", "city 2"])
    read = fifty.warden.version.read
    assert _counted(read("sales.orders", limit=3)) == (3, 48, True)
    assert _counted(read("sales.orders", limit=3, raw=True)) == (3, 50, True)


def test_what_would_take_long_to_count_is_not_counted(fifty: SmallLake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(version_read, "_MOST_BYTES_TO_COUNT", 100)
    assert _counted(fifty.warden.version.read("sales.orders", where="id >= 10", limit=3)) == (3, None, True)
    assert _counted(fifty.warden.version.read("sales.orders", limit=3)) == (3, 50, True)  # the metadata knows


def test_rows_under_equality_deletes_are_not_counted(fifty: SmallLake) -> None:
    """Only Spark tells which they mask, and nobody waits for Spark to count."""
    table = fifty.catalog.load_table("sales.orders")
    gone = column_of("id", pa.int64(), 1, [1, 2])
    commit_deletes(table, equality_deletes(table, gone, [1], unpartitioned(table)))
    version = fifty.warden.ground.tables.resolve("sales.orders")
    assert fifty.warden.ground.rows.count(version, "", False, live_rows(version.snapshot), 1 << 30) is None


def _counted(rows: Rows) -> tuple[int, int | None, bool]:
    assert rows.rows_read == len(rows)
    return rows.rows_read, rows.rows_total, rows.cut


@pytest.mark.parametrize("name", ["rows.parquet", "rows.csv"])
@ANY_FORMAT
def test_writes_all_rows_to_a_file(orders: SmallLake, tmp_path: Path, name: str) -> None:
    out = tmp_path / name

    answer = orders.warden.version.read("sales.orders", out=out)

    assert answer == Rows(rows_read=6, rows_total=6, cut=False, file=str(out), rows=[])
    table = pyarrow.parquet.read_table(out) if out.suffix == ".parquet" else pyarrow.csv.read_csv(out)
    assert sorted(table.column("id").to_pylist()) == [0, 1, 2, 3, 4, 5]
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == [name]


def test_a_file_is_cut_only_where_that_is_asked_for(fifty: SmallLake, tmp_path: Path) -> None:
    whole = fifty.warden.ask(Read(version="sales.orders", out=tmp_path / "all.parquet").to_show())
    assert whole == Rows(50, 50, False, str(tmp_path / "all.parquet"))
    cut = fifty.warden.version.read("sales.orders", out=tmp_path / "some.parquet", limit=7)
    assert cut == Rows(7, 50, True, str(tmp_path / "some.parquet"))
    assert pyarrow.parquet.read_table(tmp_path / "some.parquet").num_rows == 7


def test_never_writes_over_a_file(lake: SmallLake, tmp_path: Path) -> None:
    lake.create()
    out = tmp_path / "rows.csv"
    out.write_text("precious")
    with pytest.raises(BadValue, match="already exists"):
        lake.warden.version.read("sales.orders", out=out)
    assert out.read_text() == "precious"


@pytest.mark.parametrize(
    ("kind", "value"), [(pa.list_(pa.string()), ["a"]), (pa.binary(), b"\xff"), (pa.uuid(), b"1" * 16)]
)
def test_csv_cannot_hold_lists_and_bytes(lake: SmallLake, tmp_path: Path, kind: pa.DataType, value: object) -> None:
    lake.catalog.create_namespace("web")
    schema = pa.schema([("tags", kind)])
    lake.catalog.create_table("web.events", schema).append(pa.Table.from_pylist([{"tags": value}], schema=schema))
    with pytest.raises(BadValue, match="CSV cannot hold the column tags"):
        lake.warden.version.read("web.events", out=tmp_path / "x.csv")
    assert not list(tmp_path.glob("*.csv")) + list(tmp_path.glob(".*part"))


@pytest.mark.parametrize(
    ("where", "told"),
    [
        ("id >", "cannot be parsed"),
        ("amount > 3", "does not fit"),
        ("id = 'x'", "does not fit"),
        ("drop table", "cannot be"),
    ],
)
def test_a_filter_that_cannot_be(lake: SmallLake, where: str, told: str) -> None:
    lake.create()
    with pytest.raises(BadFilter, match=told) as refused:
        lake.warden.version.read("sales.orders", where=where)
    assert refused.value.hint


def test_a_column_that_is_not_there(lake: SmallLake) -> None:
    lake.create()
    with pytest.raises(ColumnNotFound) as refused:
        lake.warden.version.read("sales.orders", columns=["citty"])
    assert refused.value.hint == "Did you mean city?"


@pytest.mark.spark
def test_deleted_rows_are_not_read_whatever_the_format(lake: SmallLake, any_format: int) -> None:
    sql = lake.warden.ground.spark.sql
    mode = "merge-on-read" if any_format > 1 else "copy-on-write"
    sql("CREATE NAMESPACE main.web")
    sql(
        "CREATE TABLE main.web.events (id BIGINT) USING iceberg TBLPROPERTIES "
        f"('format-version' = '{any_format}', 'write.delete.mode' = '{mode}')"
    )
    sql("INSERT INTO main.web.events SELECT id FROM range(10)")
    sql("DELETE FROM main.web.events WHERE id IN (3, 4)")

    assert lake.ids("web.events") == [0, 1, 2, 5, 6, 7, 8, 9]


class TestSchemaChangesAfterAVersion:
    """A version is read, and filtered, by the names its columns had; main by those they have now."""

    @pytest.fixture
    def renamed(self, lake: SmallLake) -> SmallLake:
        lake.create("sales.orders")
        lake.warden.version.tag("sales.orders", "v1").apply()
        with lake.catalog.load_table("sales.orders").update_schema() as change:
            change.rename_column("city", "town")
            change.add_column("note", StringType())
        return lake

    def test_a_tag(self, renamed: SmallLake) -> None:
        rows = renamed.warden.version.read("sales.orders@v1", where="city = 'city 3'")
        assert rows.rows == [{"id": 3, "city": "city 3"}]
        with pytest.raises(BadFilter):
            renamed.warden.version.read("sales.orders@v1", where="town = 'city 3'")

    def test_main(self, renamed: SmallLake) -> None:
        rows = renamed.warden.version.read("sales.orders", where="town = 'city 3'")
        assert rows.rows == [{"id": 3, "town": "city 3", "note": None}]

    @pytest.mark.spark
    def test_on_spark(self, renamed: SmallLake) -> None:
        assert renamed.warden.dataframe("sales.orders").columns == ["id", "town", "note"]
        assert renamed.warden.dataframe("sales.orders@v1").columns == ["id", "city"]


class TestRaw:
    def test_a_read_of_hidden_rows_is_recorded_at_every_door(self, lake: SmallLake) -> None:
        lake.create()
        lake.warden.erasure.request("sales.orders", key="city", value=["city 3"])
        shown = lake.warden.version.read("sales.orders", where="city = 'city 3'")
        assert (shown.rows, lake.warden.operation.list(kind="version.read")) == ([], [])
        first = lake.head()
        assert lake.warden.version.read("sales.orders", where="city = 'city 3'", raw=True).rows == [
            {"id": 3, "city": "city 3"}
        ]
        lake.run("version", "read", "sales.orders", "--raw", "--where", "city = 'city 3'")
        lake.append()
        with TestClient(create_app(lake.warden)) as client:
            asked = "version=sales.orders&raw=true&where=city = 'city 3'"
            assert len(client.get(f"/api/v1/version/read?{asked}").json()["rows"]) == 1
        records = [lake.warden.ground.journal.get(each.id) for each in lake.warden.operation.list(kind="version.read")]
        assert [(record.result or {})["snapshot"] for record in records] == [str(lake.head()), str(first), str(first)]
        assert {record.target for record in records} == {"main.sales.orders"}
        assert all(record.applied_by and "city 3" not in repr(record) for record in records)

    def test_without_a_record_nothing_is_read(self, lake: SmallLake) -> None:
        lake.create()
        lake.configure(state=f"sqlite:///{lake.folder}/nowhere/lakewarden.db")
        with pytest.raises(StateUnavailable, match="control database"):
            lake.warden.version.read("sales.orders", raw=True)
