"""What readers do not support, whoever wrote the table. They must refuse it: wrong rows would be worse."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.features.erasure.independent_rows import Version
from tests.readers.engines import Ref
from tests.readers.spec_files import PATH_ID
from tests.readers.tables import Table


@dataclass(frozen=True)
class Limit:
    """What one reader refuses, with the error it gives, and why it is so."""

    engine: str
    is_met: Callable[[Table, Ref], bool]
    error: str
    because: str


def has_wide_deletes(table: Table, ref: Ref) -> bool:
    """Whether position delete files cover several data files, in a table whose writers may write such."""
    return table.metadata["properties"].get("write.delete.granularity") == "partition" and any(
        entry.file.get("content") == 1
        and entry.file["file_format"].upper() == "PARQUET"
        and not _of_one_file(entry.file)
        for entry in Version(table.metadata, ref.snapshot_id).entries
    )


def has_time(table: Table, ref: Ref) -> bool:
    return any(field["type"] == "time" for field in table.fields())


LIMITS = (
    Limit("polars", has_wide_deletes, "position delete file not limited to one data file",
          "its native reader looks deletes up by data file; PyIceberg's reader, which it has too, reads them"),
    Limit("spark", has_time, "Spark does not support time fields", "Iceberg maps no Spark type to time"),
    Limit("spark, row by row", has_time, "Spark does not support time fields", "the same"),
)  # fmt: skip

# Two readers show rows that are deleted, whoever wrote the vector. Polars does not find the deletion vectors of a
# partition that is NaN: the tables here have none. DuckDB 1.5 takes one vector for another where both lie side by side
# in a Puffin file, if it may keep parts of files in memory: here it may not.

# PyIceberg 0.12 shows a list of structs that is null as an empty list, whoever wrote the file.
NULL_AS_EMPTY = {"pyiceberg": ("deep",)}


def refusal(engine: str, table: Table, ref: Ref) -> str:
    """The error that a reader must give for a ref; empty if it must read it."""
    return next((limit.error for limit in LIMITS if limit.engine == engine and limit.is_met(table, ref)), "")


def as_shown(engine: str, row: dict[str, Any]) -> dict[str, Any]:
    """A row as a reader shows it."""
    columns = NULL_AS_EMPTY.get(engine, ())
    return {name: [] if value is None and name in columns else value for name, value in row.items()}


def _of_one_file(file: dict[str, Any]) -> bool:
    lower, upper = (
        next((pair["value"] for pair in file[name] or [] if pair["key"] == PATH_ID), None)
        for name in ("lower_bounds", "upper_bounds")
    )
    return file.get("referenced_data_file") is not None or (lower is not None and lower == upper)
