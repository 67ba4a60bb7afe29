"""After a purge none of fifty values is anywhere under the warehouse, and every other row is in every branch and tag.

Whether it is so is told by `independent.py`, which takes apart every file without any of Lakewarden's code (invariants
4, 5).
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from itertools import product
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from lakewarden.errors import Conflict
from tests.cases import in_soak
from tests.features.erasure.erasable import BY, GONE, Erasable, mail, well_used
from tests.features.retention.test_expire import configure
from tests.small_lake import SmallLake

FORMATS = ("v1-upgraded", "v2", "v3")
MOST_AT_STAKE = ("v2", "identity")
"""Where partitions and paths tell values as well; `make soak` tries all formats and partitionings."""


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallLake]:
    """One lake for all of these tables."""
    with SmallLake(tmp_path_factory.mktemp("everywhere") / "lake") as lake:
        configure(lake, tables={"crm.*": {"retention": {"keep_last": 2, "keep_days": 0}}})
        lake.catalog.create_namespace("crm")
        yield lake


def forget(table: Erasable, key: str) -> dict[str, Any]:
    """Have people forgotten, and see with other eyes that it is so, and that nothing else has changed."""
    erased, before, metadata = table.erased, table.versions, table.metadata
    assert all(version.values(table.field_id) & table.gone for version in before.values()), "nothing to erase"
    assert table.traces(erased) != []
    asked = table.lake.warden.erasure.request(table.name, key=key, value=sorted(map(str, table.gone)))
    assert asked.values == len(table.gone)

    through_spark = metadata["format-version"] > 2
    if through_spark and len({snapshot["schema-id"] for snapshot in metadata["snapshots"]}) > 1:
        with pytest.raises(Conflict, match="would lose city, which the table no longer has"):
            table.lake.warden.erasure.purge(table.name)
    result = dict(table.lake.warden.erasure.purge(table.name, lose_columns=through_spark).apply().result)

    assert table.traces(erased) == []
    kept = [path for path in table.lake.folder.rglob("*.db*") if erased.in_bytes(path.read_bytes())]
    assert kept == []  # neither the control database nor the catalog
    after = table.versions
    assert after.keys() == before.keys()
    for ref, version in before.items():  # through Spark, as the plan says, a version takes on the table's schema
        shown_by = after[ref].schema if metadata["format-version"] > 2 else version.schema
        assert after[ref].told() == version.without(table.field_id, table.gone, shown_by), ref
    _look_at_refs(metadata, table.metadata)
    assert table.lake.warden.erasure.show(asked.id).state == "closed"
    assert table.lake.warden.erasure.purge(table.name).is_empty
    return result


def _look_at_refs(before: dict[str, Any], after: dict[str, Any]) -> None:
    """Names and settings are what they were; below v3 the age and the schema of each version too."""
    settings = [
        {name: {k: v for k, v in ref.items() if k != "snapshot-id"} for name, ref in m["refs"].items()}
        for m in (before, after)
    ]
    assert settings[0] == settings[1]
    if after["format-version"] < 3:
        shown = [_shown(document) for document in (before, after)]
        assert shown[0] == shown[1]


def _shown(metadata: dict[str, Any]) -> dict[str, tuple[int, int]]:
    by_id = {snapshot["snapshot-id"]: snapshot for snapshot in metadata["snapshots"]}
    at = {name: by_id[ref["snapshot-id"]] for name, ref in metadata["refs"].items()}
    return {name: (snapshot["timestamp-ms"], snapshot["schema-id"]) for name, snapshot in at.items()}


@pytest.mark.spark
@pytest.mark.parametrize(
    ("format", "by"),
    [MOST_AT_STAKE, *in_soak(*(each for each in product(FORMATS, BY) if each != MOST_AT_STAKE))],
)
def test_after_a_long_life(warehouse: SmallLake, format: str, by: str) -> None:
    table = well_used(warehouse, format, by)
    table.litter()
    places = {trace.where.split(" of ")[0] for trace in table.traces(table.erased)}
    assert {"values", "dictionary", "statistics", "pages", "lower_bounds", "upper_bounds"} <= places
    assert ({"partition", "its name", "json"} <= places) is (by == "identity")
    kinds = {
        (entry.file.get("content", 0), entry.file["file_format"].upper()) for entry in table.versions["main"].entries
    }
    assert ((1, "PUFFIN" if format == "v3" else "PARQUET") in kinds) and (((2, "PARQUET") in kinds) is (format == "v2"))

    result = forget(table, "mail")

    assert len(table.gone) == len(GONE) == 50 == result["tombstones_applied"]
    assert result["refs_repointed"] == 4 and result["snapshots_expired"] >= 4 and result["files_rewritten"] > 1
    seen = table.sql("SELECT mail, COUNT(*) FROM {t} GROUP BY mail")  # Spark goes on with it
    assert sum(row[1] for row in seen) == len(table.versions["main"].rows)
    table.insert([13, 15])
    assert len(table.sql("SELECT * FROM {t} WHERE mail = 'p013@example.org'")) > 2


@pytest.mark.spark
def test_statistics_quarantine_and_zipped_metadata(warehouse: SmallLake) -> None:
    table = Erasable(warehouse, "crm.measured", frozenset(mail(n) for n in GONE))
    table.sql(
        "CREATE TABLE {t} (id BIGINT, email STRING, amount BIGINT, city STRING) USING iceberg "
        "PARTITIONED BY (truncate(2, email)) TBLPROPERTIES ('write.metadata.compression-codec' = 'gzip', "
        "'write.metadata.metrics.default' = 'full', 'write.parquet.bloom-filter-enabled.column.email' = 'true')"
    )
    for people in (range(40), range(30, 70), range(10)):
        table.insert(people)
    table.sql("ALTER TABLE {t} CREATE TAG kept")
    table.sql("DELETE FROM {t} WHERE id < 5")
    table.sql("CALL main.system.compute_table_stats(table => '{t}')")
    table.sql("CALL main.system.compute_partition_stats(table => '{t}')")
    warehouse.warden.retention.expire(table.name).apply()
    names = {path.name for path in table.folder.rglob("*") if path.is_file()}
    told = {name for name in names if name.endswith(".stats") or name.startswith("partition-stats")}
    assert len(told) == 2
    assert {"zipped", "put away"} == {
        "zipped" if path.read_bytes()[:2] == gzip.compress(b"")[:2] else "put away"
        for path in table.folder.rglob("*")
        if path.is_file() and ("_lakewarden" in path.parts or path.name.endswith("metadata.json"))
    }

    forget(table, "email")

    assert table.metadata.get("statistics", []) == table.metadata.get("partition-statistics", []) == []
    assert told & {path.name for path in table.folder.rglob("*")} == set()  # sketches tell of values by their hashes


PERSON = pa.schema(
    [
        ("id", pa.int64()),
        ("email", pa.string()),
        ("small", pa.int32()),
        ("born", pa.date32()),
        ("number", pa.decimal128(12, 2)),
        ("code", pa.uuid()),
        ("user", pa.struct([("email", pa.string()), ("age", pa.int32())])),
    ]
)


def person(n: int) -> dict[str, Any]:
    return {
        "id": n + 2**45,
        "email": None if n == 0 else f"k{n}@example.org",
        "small": n - 2**20,
        "born": date.fromordinal(date(1931, 1, 1).toordinal() + n),
        "number": Decimal(n * 7919 - 123_456) / 100,
        "code": UUID(int=(n + 1) << 90 | 0xC0FFEE_BADCAB1E_F00DFACE),  # zeros alone are found in any file of pages
        "user": None if n == 0 else {"email": f"nested{n}@example.org", "age": n},
    }


KEYS = {"id": 1, "email": 2, "small": 3, "born": 4, "number": 5, "code": 6, "user.email": 8}
KEYS_AT_STAKE = [
    ("email", "identity"),
    ("born", "identity"),
    ("number", "identity"),
    ("code", "unpartitioned"),
    ("user.email", "unpartitioned"),
]
OTHER_KEYS = [each for each in product(KEYS, ("identity", "unpartitioned")) if each not in KEYS_AT_STAKE]


@pytest.mark.parametrize(("key", "by"), [*KEYS_AT_STAKE, *in_soak(*OTHER_KEYS)])
def test_keys_of_every_type(warehouse: SmallLake, key: str, by: str) -> None:
    """No Spark: tables as PyIceberg writes them."""
    from pyiceberg.transforms import IdentityTransform

    people = [person(n) for n in range(12)]
    gone = frozenset(_value(people[n], key) for n in (1, 4, 5, 11))  # of these 11 is the greatest
    name = f"crm.key_{key.replace('.', '_')}_{by}"
    made = warehouse.catalog.create_table(name, PERSON)
    if by == "identity" and key != "code":  # PyIceberg does not write partitions by uuid
        with made.update_spec() as change:
            change.add_field(key, IdentityTransform())
    table = Erasable(warehouse, name, gone, KEYS[key])
    for rows in (people[:6], people[4:]):
        made.append(pa.Table.from_pylist(rows, schema=PERSON))
    warehouse.warden.version.tag(name, "kept").apply()
    warehouse.warden.version.branch(name, "work").apply()
    made.delete("id = 35184372088834")
    forget(table, key)


@pytest.mark.spark
@pytest.mark.parametrize(("key", "field_id"), [("number", 3), *in_soak(("id", 1), ("small", 2))])
def test_numbers_that_partitions_are_cut_by(warehouse: SmallLake, key: str, field_id: int) -> None:
    """Of some tens both people go, of some one; nobody's own number is what another's is cut to."""
    people = {n: person(n) for ten in range(0, 100, 10) for n in (ten + 1, ten + 3)}
    gone = frozenset(row[key] for n, row in people.items() if n // 10 % 3 == 0 or n % 20 == 1)
    table = Erasable(warehouse, f"crm.cut_{key}", gone, field_id)
    table.sql(
        "CREATE TABLE {t} (id BIGINT, small INT, number DECIMAL(12, 2)) USING iceberg "
        f"PARTITIONED BY (truncate(10, {key})) TBLPROPERTIES ('write.summary.partition-limit' = '100')"
    )
    rows = ", ".join(f"({row['id']}, {row['small']}, {row['number']})" for row in people.values())
    table.sql(f"INSERT INTO {{t}} VALUES {rows}")
    table.sql("ALTER TABLE {t} CREATE TAG kept")
    forget(table, key)


def _value(row: dict[str, Any], key: str) -> Any:
    outer, _, inner = key.partition(".")
    return row[outer][inner] if inner else row[outer]
