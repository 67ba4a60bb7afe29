"""Functions in a Spark session that belongs to others, Connect included: lists, and functions that refuse to run.

A list is a temporary SQL table function over Iceberg's metadata tables, so that every statement reads it again. SQL
functions cannot have parameters in a session with Iceberg's extensions; functions with parameters are Python's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lakewarden.engine.base.quoting import identifier
from lakewarden.engine.kernel import executor_functions
from lakewarden.engine.spark.session import send_by_value, translating_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def define_list(session: SparkSession, name: str, columns: Mapping[str, str], select: str) -> None:
    """Define `name()` in FROM: the rows of a SELECT, with these columns and types."""
    shape = ", ".join(f"{identifier(column)} {kind}" for column, kind in columns.items())
    with translating_spark():
        session.sql(
            f"CREATE OR REPLACE TEMPORARY FUNCTION {identifier(name)}() RETURNS TABLE ({shape}) RETURN {select}"
        )


def refuse_call(session: SparkSession, name: str, in_from: bool) -> None:
    """Define a function that raises an error: a task may run twice, so nothing may be changed from a session."""
    from pyspark.sql.functions import udf, udtf
    from pyspark.sql.types import StringType

    send_by_value(executor_functions)
    with translating_spark():
        if in_from:
            rows: Any = udtf(executor_functions.RefusedRows, returnType="time timestamp, msg string")
            session.udtf.register(name, rows)
        else:
            session.udf.register(name, udf(executor_functions.refused, StringType()))
