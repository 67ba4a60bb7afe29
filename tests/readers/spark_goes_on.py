"""What others do with a table after Lakewarden: Spark deletes, merges, rewrites, expires and copies it.

Spark drops whole files by their metrics and answers aggregates from them, so wrong ones cost rows here.
"""

from __future__ import annotations

import csv
import math
import shutil
from pathlib import Path
from typing import Any

import pytest

from lakewarden.errors import SparkUnavailable
from tests.features.erasure.independent_rows import local
from tests.readers.cells import comparable, difference
from tests.readers.engines import Ref, engines
from tests.readers.tables import Table

_NEW = 1000


def go_on(table: Table) -> None:
    """Run each, and see that it did what it says and no more."""
    _aggregates(table)
    _delete(table)
    _merge(table)
    table.sql(f"CALL main.system.rewrite_data_files(table => '{table.name}', options => map('rewrite-all', 'true'))")
    _compare_ids(table)
    table.sql(f"CALL main.system.expire_snapshots(table => '{table.name}', older_than => now(), retain_last => 1)")
    _compare_ids(table)
    _copy(table)


def _compare_ids(table: Table) -> None:
    found = [row.id for row in table.sql("SELECT id FROM {t} ORDER BY id")]
    expected = sorted(row["id"] for row in table.rows["main"])
    assert found == expected, f"{found} for {expected}"


def _aggregates(table: Table) -> None:
    """NaN is the greatest to Spark."""
    rows = table.rows["main"]
    values = [row["value"] for row in rows if row["value"] is not None]
    greatest = math.nan if any(map(math.isnan, values)) else max(values)
    (found,) = table.sql("SELECT COUNT(*), COUNT(value), MAX(value), MIN(id), MAX(id), MAX(nans), MIN(zero) FROM {t}")
    ids = [row["id"] for row in rows]
    expected = (len(rows), len(values), greatest, min(ids), max(ids), math.nan, min(row["zero"] for row in rows))
    assert repr(tuple(found)).replace("-0.0", "0.0") == repr(expected).replace("-0.0", "0.0")


def _delete(table: Table) -> None:
    """Rows below a value; NaN is above it. Files whose metrics say that all their rows are below go as a whole.

    Iceberg itself takes a partition of null for one below any value, and drops it, whoever wrote the table: seen with
    1.12 on tables of formats v2 and v3 that only Spark had written to. So nulls are ruled out.
    """
    table.sql("DELETE FROM {t} WHERE value < 5000 AND value IS NOT NULL")
    table.forget(lambda row: _is_low(row["value"]), ["main"])
    _compare_ids(table)
    table.sql("DELETE FROM {t} WHERE st.x < 5000 AND id % 2 = 0")
    table.forget(lambda row: _is_low(row["st"] and row["st"]["st.x"]) and row["id"] % 2 == 0, ["main"])
    _compare_ids(table)


def _is_low(value: float | None) -> bool:
    return value is not None and value < 5000


def _merge(table: Table) -> None:
    """One row is changed, one comes."""
    changed = table.rows["main"][0]["id"]
    table.sql(
        f"MERGE INTO {{t}} t USING (SELECT EXPLODE(ARRAY({changed}, {_NEW})) AS id) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET big = 77 WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id, 'new')"
    )
    for place, row in enumerate(table.rows["main"]):
        if row["id"] == changed:
            table.rows["main"][place] = {**row, "big": 77}
    table.rows["main"].append({"id": _NEW, "name": "new"})


def _copy(table: Table) -> None:
    """Make a copy under another path, which DuckDB reads."""
    source = str(local(table.metadata["location"]))
    target, staging = f"{source}_copy", f"{source}_staging"
    copy = (
        f"CALL main.system.rewrite_table_path(table => '{table.name}', source_prefix => 'file:{source}', "
        f"target_prefix => 'file:{target}', staging_location => 'file:{staging}')"
    )
    if _has_versions_from_before_v3(table):
        with pytest.raises(SparkUnavailable) as caught:
            table.sql(copy)
        assert "firstRowId" in str(caught.value.__cause__)
        return
    (done,) = table.sql(copy)
    listing = local(done.file_list_location)
    files = [part for part in listing.rglob("*") if part.is_file()] if listing.is_dir() else [listing]
    for part in files:
        if part.suffix != ".crc" and not part.name.startswith("_"):
            with part.open(newline="") as lines:
                for origin, destination in csv.reader(lines):
                    Path(local(destination)).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(local(origin), local(destination))
    main = next(ref for ref in table.refs if ref.name == "main")
    copied = Ref(table.name, "main", "branch", main.snapshot_id, f"{target}/metadata/{done.latest_version}")
    (duckdb,) = [engine for engine in engines(None, None) if engine.name == "duckdb"]
    fields: Any = table.fields()
    found = comparable(duckdb.read(copied), fields)
    assert difference(found, comparable(table.expected("main", fields), fields)) == ""


def _has_versions_from_before_v3(table: Table) -> bool:
    """Iceberg 1.12 cannot copy a table of format v3 with a version of format v2: that one has no first row id."""
    metadata = table.metadata
    return metadata["format-version"] > 2 and any("first-row-id" not in each for each in metadata["snapshots"])
