"""What Lakewarden writes is right for every other engine: rows of every ref, metadata by the spec, and later writes.

Each table goes through some operations; after each of them every reader reads every branch and tag, and everything
stored is compared with the Iceberg spec. At the end Spark goes on with the table as any writer does.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField, StructType

from lakewarden.lifecycle import failpoints
from tests.readers.cells import comparable, difference
from tests.readers.engines import Engine, Ref, engines
from tests.readers.limits import as_shown, refusal
from tests.readers.lives import SCHEMA, create, long_life, long_life_without_spark, short_life
from tests.readers.spark_goes_on import go_on
from tests.readers.spec import faults
from tests.readers.tables import Table
from tests.small_lake import SmallLake

pytestmark = pytest.mark.spark
GONE = frozenset({3, 6, 14, 18, 24, 30, 33})


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallLake]:
    """One lake for all of these tables."""
    with SmallLake(tmp_path_factory.mktemp("readers") / "lake") as lake:
        lake.catalog.create_namespace("db")
        yield lake


def look(table: Table, after: str, row_by_row: bool = False, is_checked: Callable[[str], bool] = bool) -> None:
    """Read every ref with every reader, and compare all that is stored with the spec."""
    assert faults(table.metadata_location, is_checked) == [], after
    for engine in engines(table.lake.warden.ground.spark.session(), table.lake.catalog):
        if engine.name == "spark, row by row" and not row_by_row:
            continue
        wrong = {ref.name: told for ref in table.refs if (told := misread(engine, table, ref))}
        assert wrong == {}, f"{engine.name} after {after}"


def misread(engine: Engine, table: Table, ref: Ref) -> str:
    """How what a reader shows differs from what it must show."""
    if error := refusal(engine.name, table, ref):
        with pytest.raises(Exception, match=error):
            engine.read(ref)
        return ""
    fields = table.fields(None if engine.shows_current_schema(ref) else ref.snapshot_id)
    expected = [as_shown(engine.name, row) for row in table.expected(ref.name, fields)]
    return difference(comparable(engine.read(ref), fields), comparable(expected, fields))


def by_lakewarden(path: str) -> bool:
    return "/lw-op-" in path


def ask(table: Table) -> None:
    """Ask for the erasure of a few people."""
    table.lake.warden.erasure.request(table.name, key="name", value=sorted(gone(table)))


def gone(table: Table) -> set[str]:
    """The names of those who are to be erased."""
    return {table.make_row(number)["name"] for number in GONE}


def hide(table: Table) -> None:
    table.lake.warden.erasure.hide(table.name, now=True).apply()
    names = gone(table)
    table.forget(lambda row: row["name"] in names, [ref.name for ref in table.refs if ref.kind == "branch"])


def purge(table: Table) -> None:
    loses = table.metadata["format-version"] > 2
    table.lake.warden.erasure.purge(table.name, lose_columns=loses).apply()
    names = gone(table)
    table.forget(lambda row: row["name"] in names)


def compact(table: Table) -> None:
    result = table.lake.warden.compaction.compact(table.name, rewrite_all=True).apply().result
    assert result["files_rewritten"] > result["files_written"] > 0


def merge_manifests(table: Table) -> None:
    assert table.lake.warden.compaction.manifests(table.name).apply().result["actions"] == 1


def expire(table: Table) -> None:
    """Of versions that no branch or tag names, only those stay that a reader may still be at."""
    before = len(table.metadata["snapshots"])
    table.lake.warden.retention.expire(table.name, keep_last=1, keep_days=0).apply()
    assert len(table.metadata["snapshots"]) <= max(before // 2, len(table.refs) + 1)


Operation = Callable[[Table], None]
PARTITION_WIDE: dict[str, Any] = {"write.delete.granularity": "partition"}


@pytest.mark.parametrize(
    ("live", "operations"),
    [
        pytest.param(partial(long_life, version=1), [compact, purge], id="v1", marks=pytest.mark.soak),
        pytest.param(partial(long_life, version=2), [hide, compact, expire, purge], id="v2"),
        pytest.param(
            partial(long_life, version=2, **PARTITION_WIDE),
            [purge, compact],
            id="v2_wide_deletes",
            marks=pytest.mark.soak,
        ),
        pytest.param(short_life, [hide, compact, purge], id="v3"),
    ],
)
def test_every_reader(
    lake: SmallLake,
    request: pytest.FixtureRequest,
    live: Callable[[SmallLake, str], Table],
    operations: list[Operation],
) -> None:
    table = live(lake, f"db.{request.node.callspec.id}")
    look(table, "a long life")
    ask(table)
    for operation in operations:
        operation(table)
        look(table, operation.__name__)
    go_on(table)
    look(table, "Spark went on", row_by_row=True)


def test_types_that_spark_does_not_read(lake: SmallLake) -> None:
    """Written by PyIceberg, in many small commits: no NaN counts in the inputs, and manifests worth merging."""
    table = long_life_without_spark(lake, "db.no_spark")
    look(table, "a long life", is_checked=by_lakewarden)
    ask(table)
    for operation in (merge_manifests, compact, hide, purge, expire):
        operation(table)
        look(table, operation.__name__, is_checked=by_lakewarden)


def test_rows_that_a_backfill_has_written(lake: SmallLake) -> None:
    """Of every type that its own tasks write: for the others, Spark does."""
    source = create(lake, "db.people", SCHEMA, UNPARTITIONED_PARTITION_SPEC, {"format-version": "2"})
    source.insert(range(10))
    source.insert(range(10, 23))
    place = SCHEMA.find_field("st")
    assert isinstance(place.field_type, StructType)
    inner = [field for field in place.field_type.fields if not field.required]
    columns = [field for field in SCHEMA.fields if field.name not in ("code", "four", "st")]
    schema = Schema(*columns, NestedField(place.field_id, "st", StructType(*inner)))
    target = create(lake, "db.filled", schema, UNPARTITIONED_PARTITION_SPEC, {"format-version": "2"})
    parts = ", ".join(f"'{field.name}', st.{field.name}" for field in inner)
    names = ", ".join([*(field.name for field in columns), f"IF(st IS NULL, NULL, named_struct({parts}))"])
    folder = lake.folder / "backfills"
    folder.mkdir()
    sql = f"INSERT INTO {{db}}.filled SELECT {names} FROM {{db}}.people"
    rest = " WHERE id > {checkpoint_id} ORDER BY id LIMIT {batch_size}"
    (folder / "001_people.backfill.sql").write_text(sql + rest)
    meta = {"migration_version": "001", "batch_size": 4, "checkpoint_columns": ["id"]}
    (folder / "001_people.backfill.meta").write_text(json.dumps(meta))
    lake.configure(backfills={"folders": ["backfills"]})
    lake.warden.backfill.register(database="db")
    exchanged = failpoints.when("exchange.checked", lambda: None)
    assert lake.warden.backfill.run(database="db", version="1").apply().result["batches"] == 6
    assert len(exchanged) == 1
    target.rows["main"] = source.rows["main"]
    look(target, "a backfill", row_by_row=True)
    ask(target)
    purge(target)
    look(target, "purge")
