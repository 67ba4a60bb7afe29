"""Readers that share no code with what Lakewarden writes by. What they do not support is in `limits.py`.

Each reads one branch or tag of a table whole.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import duckdb_extension_avro
import duckdb_extension_iceberg
import polars as pl

Rows = list[dict[str, Any]]
_VECTORISED = "spark.sql.iceberg.vectorization.enabled"


@dataclass(frozen=True)
class Ref:
    """A branch or tag of one table, and what is needed to read it."""

    table: str
    name: str
    kind: str  # branch or tag
    snapshot_id: int
    metadata_location: str


@dataclass(frozen=True)
class Engine:
    """One reader. It shows a version by the schema it was written with, or by the table's current one."""

    name: str
    read: Callable[[Ref], Rows]
    current_schema_for: tuple[str, ...] = ()  # kinds of refs, beside main

    def shows_current_schema(self, ref: Ref) -> bool:
        return ref.name == "main" or ref.kind in self.current_schema_for


def engines(session: Any, catalog: Any) -> list[Engine]:
    """Every reader; Spark as the lake has it."""

    def spark(ref: Ref, vectorised: bool) -> Rows:
        session.conf.set(_VECTORISED, vectorised)
        try:
            rows = session.sql(f"SELECT * FROM main.{ref.table} VERSION AS OF '{ref.name}'").collect()
            return [row.asDict(recursive=True) for row in rows]
        finally:
            session.conf.unset(_VECTORISED)

    def pyiceberg(ref: Ref) -> Rows:
        rows: Rows = catalog.load_table(ref.table).scan(snapshot_id=ref.snapshot_id).to_arrow().to_pylist()
        return rows

    return [
        Engine("spark", lambda ref: spark(ref, vectorised=True), ("branch",)),
        Engine("spark, row by row", lambda ref: spark(ref, vectorised=False), ("branch",)),
        Engine("pyiceberg", pyiceberg),
        Engine("duckdb", _duckdb),
        Engine("polars", _polars),
    ]


@cache
def _duck() -> duckdb.DuckDBPyConnection:
    """DuckDB with its extensions for Iceberg, which come as packages: nothing is downloaded."""
    connection = duckdb.connect()
    for package in (duckdb_extension_avro, duckdb_extension_iceberg):
        (extension,) = Path(str(package.__file__)).parent.rglob("*.duckdb_extension")
        connection.execute(f"LOAD '{extension}'")
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET enable_external_file_cache = false")  # see `limits.py`
    return connection


def _duckdb(ref: Ref) -> Rows:
    query = f"SELECT * FROM iceberg_scan(?, snapshot_from_id = {ref.snapshot_id}::UBIGINT)"
    rows: Rows = _duck().execute(query, [ref.metadata_location]).to_arrow_table().to_pylist()
    return rows


def _polars(ref: Ref) -> Rows:
    os.environ["POLARS_ICEBERG_PLANNER"] = "pyiceberg"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scan = pl.scan_iceberg(ref.metadata_location, snapshot_id=ref.snapshot_id, reader_override="native")
        rows: Rows = scan.collect().to_arrow().to_pylist()
        return rows
