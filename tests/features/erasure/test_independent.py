"""What judges an erasure is judged first: it finds a value wherever one is planted, and reads rows as others do."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import fastavro
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyiceberg.types import StringType

from tests.cases import in_soak
from tests.features.erasure.independent import Erased, Trace, physical, traces
from tests.features.erasure.independent_rows import versions
from tests.small_lake import SmallLake

GONE = "zoë@example.org"
STAYS = "anna@example.org"
KEY = Erased(2, frozenset({GONE}), frozenset({STAYS}))


def column(values: Any, name: str = "email", id: int = 2) -> pa.Table:
    array = values if isinstance(values, pa.Array) else pa.array(values)
    field = pa.field(name, array.type, metadata={"PARQUET:field_id": str(id)})
    return pa.table([array], schema=pa.schema([field]))


def places(folder: Path, erased: Erased = KEY) -> set[str]:
    return {trace.where for trace in traces(folder, [erased])}


def test_it_depends_on_nothing_that_it_judges() -> None:
    for file in Path(__file__).parent.glob("independent*.py"):
        lines = [
            line.split() for line in file.read_text().splitlines() if line.strip().startswith(("import ", "from "))
        ]
        assert not {"lakewarden", "pyiceberg"} & {line[1].split(".")[0] for line in lines}, file.name


def test_a_folder_without_it(tmp_path: Path) -> None:
    pq.write_table(column([STAYS] * 9), tmp_path / "a.parquet")
    (tmp_path / "v1.metadata.json").write_text(json.dumps({"summary": STAYS}))
    assert traces(tmp_path, [KEY]) == []


@pytest.mark.parametrize("codec", ["none", "snappy", "zstd", "gzip", "lz4"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_a_row_among_many(tmp_path: Path, codec: str, version: str) -> None:
    values = [f"m{n:04}@example.org" for n in range(5000)]
    values[4321] = GONE
    pq.write_table(
        column(values), tmp_path / "a.parquet", compression=codec, data_page_version=version, data_page_size=512
    )
    assert {"pages of email", "dictionary of email", "statistics of email", "values of email"} <= places(tmp_path)


def test_a_value_that_only_the_dictionary_still_has(tmp_path: Path) -> None:
    encoded = pa.array([STAYS, GONE, STAYS]).dictionary_encode()
    left = column(encoded.filter(pc.not_equal(pa.array([STAYS, GONE, STAYS]), GONE)))
    pq.write_table(left, tmp_path / "a.parquet", write_statistics=False)
    assert pq.read_table(tmp_path / "a.parquet")["email"].to_pylist() == [STAYS, STAYS]
    assert {"dictionary of email", "pages of email"} <= places(tmp_path)


@pytest.mark.parametrize("index", [True, False], ids=["in the index", "in page headers"])
def test_a_value_that_is_the_least_of_a_page_only(tmp_path: Path, index: bool) -> None:
    values = [f"m{n:04}@example.org" for n in range(2000)]
    options: dict[str, Any] = {"data_page_size": 256, "write_batch_size": 64, "use_dictionary": False}
    pq.write_table(column(values), tmp_path / "a.parquet", write_page_index=index, **options)
    in_the_midst = Erased(2, frozenset(values[1:-1]), frozenset({values[0], values[-1]}))
    assert "statistics of email" in places(tmp_path, in_the_midst)


@pytest.mark.parametrize(
    "value", [7, 2**45 + 7, date(1931, 7, 9), Decimal("12.34"), UUID(int=2**120 + 7)], ids=lambda v: type(v).__name__
)
def test_keys_of_every_type_are_found_in_their_column(tmp_path: Path, value: Any) -> None:
    table = column(pa.array([value.bytes], pa.binary(16)) if isinstance(value, UUID) else [value])
    pq.write_table(table, tmp_path / "a.parquet", store_decimal_as_integer=True)
    found = places(tmp_path, Erased(2, frozenset({value})))
    assert {"dictionary of email", "statistics of email", "values of email"} <= found
    if isinstance(value, int) and value < 100:  # a small number in another column is nobody's
        assert places(tmp_path, Erased(3, frozenset({value}))) == set()


def test_within_structs_lists_and_maps(tmp_path: Path) -> None:
    inner = pa.field("email", pa.string(), metadata={"PARQUET:field_id": "2"})
    rows = pa.array([{"email": GONE}], pa.struct([inner]))
    pq.write_table(column(rows, "user", 9), tmp_path / "a.parquet")
    assert {"values of email", "dictionary of email"} <= places(tmp_path)
    pq.write_table(column(pa.array([[GONE]]), "notes", 5), tmp_path / "a.parquet")
    assert places(tmp_path) == {"bytes", "pages of element", "values of element"}


def test_what_lies_in_files_in_general(tmp_path: Path) -> None:
    planted: dict[str, Callable[[Path], Any]] = {
        "plain.bin": lambda p: p.write_bytes(b"\0" + GONE.encode() + b"\0"),
        "escaped.metadata.json": lambda p: p.write_text(json.dumps({"summary": {"note": f"of {GONE}"}})),
        "other.json": lambda p: p.write_text('{"note": "zo\\u00EB\\u0040example.org"}'),
        "zipped.gz.metadata.json": lambda p: p.write_bytes(gzip.compress(json.dumps({GONE: 1}).encode())),
        "email=zo%C3%AB%40example.org": lambda p: p.mkdir(),
        "quoted.txt": lambda p: p.write_text("data/email=zo%C3%AB%40example.org/0.parquet"),
    }
    for name, plant in planted.items():
        plant(tmp_path / name)
    assert {trace.path for trace in traces(tmp_path, [KEY])} == set(planted)
    assert Trace("email=zo%C3%AB%40example.org", "its name") in traces(tmp_path, [KEY])


@pytest.mark.parametrize("codec", [None, "zstd", "lz4"])
def test_blobs_of_puffin_files(tmp_path: Path, codec: str | None) -> None:
    blob = (b"." * 5000) + GONE.encode() + b"." * 5000
    if codec:
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, codec) as stream:
            stream.write(blob)
        blob = sink.getvalue().to_pybytes()
    told = {"type": "sketch", "offset": 4, "length": len(blob), **({"compression-codec": codec} if codec else {})}
    footer = json.dumps({"blobs": [told]}).encode()
    (tmp_path / "a.stats").write_bytes(
        b"PFA1" + blob + b"PFA1" + footer + len(footer).to_bytes(4, "little") + bytes(4) + b"PFA1"
    )
    assert "blob sketch" in places(tmp_path)


class Manifest:
    """A manifest written by hand, with bounds and a partition value of one file; and a list of manifests."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "t" / "metadata"
        self.folder.mkdir(parents=True)

    def write(self, lower: bytes = b"a", upper: bytes = b"b", partition: str = "a", by: str = "identity") -> None:
        spec = [{"name": "p", "transform": by, "source-id": 2, "field-id": 1000}]
        file = _record(
            "data_file",
            file_path="string",
            partition=_record("r", p="string"),
            lower_bounds={"type": "array", "items": _record("bound", key="int", value="bytes")},
            upper_bounds={"type": "array", "items": "bound"},
        )
        written = {
            "file_path": "x/0.parquet",
            "partition": {"p": partition},
            "lower_bounds": [{"key": 2, "value": lower}],
            "upper_bounds": [{"key": 2, "value": upper}],
        }
        head = {"partition-spec": json.dumps(spec)}
        with (self.folder / "m0.avro").open("wb") as out:
            fastavro.writer(out, _record("e", data_file=file), [{"data_file": written}], "deflate", metadata=head)

    def write_list(self, lower: bytes, by: str = "identity") -> None:
        spec = {"spec-id": 0, "fields": [{"name": "p", "transform": by, "source-id": 2, "field-id": 1000}]}
        (self.folder / "v1.metadata.json").write_text(json.dumps({"partition-specs": [spec]}))
        summary = _record("s", lower_bound="bytes", upper_bound="bytes")
        schema = _record(
            "l", manifest_path="string", partition_spec_id="int", partitions={"type": "array", "items": summary}
        )
        bounds = [{"lower_bound": lower, "upper_bound": b"z"}]
        record = {"manifest_path": "x/m0.avro", "partition_spec_id": 0, "partitions": bounds}
        with (self.folder / "snap-1.avro").open("wb") as out:
            fastavro.writer(out, schema, [record], "deflate")


def _record(name: str, **fields: Any) -> dict[str, Any]:
    told = [{"name": field, "type": kind} for field, kind in fields.items()]
    return {"type": "record", "name": name, "fields": told}


def test_bounds_and_partition_values_in_manifests(tmp_path: Path) -> None:
    manifest = Manifest(tmp_path)
    manifest.write()
    assert places(tmp_path) == set()
    manifest.write(lower=GONE.encode())
    assert places(tmp_path) == {"a record", "lower_bounds of 0.parquet"}
    manifest.write(upper=b"zo\xc3\xab@f")  # cut after six letters, and made larger by one
    assert places(tmp_path) == {"upper_bounds of 0.parquet"}
    manifest.write(upper=STAYS[:6].encode())
    assert places(tmp_path) == set()
    manifest.write(partition=GONE)
    assert places(tmp_path) == {"a record", "partition of 0.parquet"}
    manifest.write(partition="zo", by="truncate[2]")
    assert places(tmp_path) == {"partition of 0.parquet"}
    manifest.write(partition="an", by="truncate[2]")
    assert places(tmp_path, Erased(2, frozenset({"andy@example.org"}), frozenset({STAYS}))) == set()
    small = Erased(2, frozenset({7}))
    manifest.write(lower=(7).to_bytes(4, "little"))
    assert places(tmp_path, small) == {"lower_bounds of 0.parquet"}


def test_partition_bounds_in_manifest_lists(tmp_path: Path) -> None:
    manifest = Manifest(tmp_path)
    manifest.write_list(b"a")
    assert places(tmp_path) == set()
    manifest.write_list(GONE.encode())
    assert "partition bounds of m0.avro" in places(tmp_path)
    manifest.write_list(b"zo", by="truncate[2]")
    assert places(tmp_path) == {"partition bounds of m0.avro"}
    manifest.write_list(b"zp", by="truncate[2]")
    assert places(tmp_path) == set()


def test_rows_are_read_as_pyiceberg_reads_them(lake: SmallLake) -> None:
    lake.create()
    table = lake.catalog.load_table("sales.orders")
    table.delete("id = 3")
    lake.warden.version.tag("sales.orders", "v1").apply()
    with table.update_schema() as change:
        change.rename_column("city", "town")
        change.add_column("note", StringType())
    table = lake.catalog.load_table("sales.orders")
    table.append(pa.table({"id": [70], "town": ["X"], "note": ["n"]}))
    found = versions(lake.catalog.load_table("sales.orders").metadata_location)
    assert sorted(found["main"].rows, key=lambda row: int(row["id"])) == sorted(
        lake.catalog.load_table("sales.orders").scan().to_arrow().to_pylist(), key=lambda row: int(row["id"])
    )
    assert [sorted(row) for row in found["v1"].rows] == [["city", "id"]] * 5
    assert found["main"].values(1) == {0, 1, 2, 4, 5, 70}
    assert physical(lake.folder, 1) == {0, 1, 2, 3, 4, 5, 70}
    assert found["v1"].without(1, [0, 1]) == sorted(
        repr({"id": id, "city": f"city {id}"}) for id in (2, 4, 5)
    )  # and in the order that is compared


@pytest.mark.spark
@pytest.mark.parametrize(("version", "rows"), [(2, 2_000), *in_soak((3, 150_000))])
def test_rows_are_read_as_spark_reads_them(lake: SmallLake, version: int, rows: int) -> None:
    """Position deletes of v2, and deletion vectors of v3 with each kind of Roaring container."""
    sql = lake.warden.ground.spark.sql
    sql("CREATE NAMESPACE main.db")
    sql(
        "CREATE TABLE main.db.t (id BIGINT, user STRUCT<email: STRING, age: INT>) USING iceberg TBLPROPERTIES "
        f"('format-version' = '{version}', 'write.delete.mode' = 'merge-on-read')"
    )
    sql(f"INSERT INTO main.db.t SELECT /*+ COALESCE(1) */ id, struct(concat('p', id), 1) FROM range(0, {rows})")
    sql(f"DELETE FROM main.db.t WHERE id < 400 OR (id > 70000 AND id < 130000 AND id % 3 = 0) OR id = {rows - 1}")
    sql("DELETE FROM main.db.t WHERE id % 501 = 1")
    expected = {row.id for row in sql("SELECT id FROM main.db.t").collect()}
    found = versions(lake.catalog.load_table("db.t").metadata_location)["main"]
    ids = [row["id"] for row in found.rows]
    assert len(ids) == len(set(ids)) and set(ids) == expected
    assert found.rows[0]["user"] == {"email": f"p{ids[0]}", "age": 1}
    assert ("PUFFIN" in {entry.file["file_format"] for entry in found.entries}) is (version == 3)
