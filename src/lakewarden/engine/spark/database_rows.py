"""Rows of a MariaDB database in Spark, read by several tasks at once.

The driver's jar is added to the session that needs it. The password is an option of the reader: Spark shows neither it
nor the address in plans, and no command line has it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import quote

from lakewarden.engine.base.quoting import literal
from lakewarden.engine.spark import jars
from lakewarden.engine.spark.java import find as find_java
from lakewarden.engine.spark.session import translating_spark

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from lakewarden.config import Environment, Settings

_DRIVER = "org.mariadb.jdbc.Driver"
_ROWS_AT_ONCE = "10000"
_TIMEOUT_MS = "10000"


@dataclass(frozen=True)
class DatabaseRows:
    """Rows to read: a SELECT, in parts that conditions on its columns divide."""

    host: str
    port: int
    database: str
    user: str
    password: str = field(repr=False)
    select: str
    parts: Sequence[str]
    tasks: int
    """How many tasks share the parts; each reads its parts one after another."""
    variables: str
    """What each session sets, as in `lock_wait_timeout=1,…`."""
    values: Sequence[str]
    """Spark expressions of the values to return, over the columns of the SELECT."""
    constants: Mapping[str, str] = field(default_factory=dict)
    """Columns with one text in every row."""


def driver_jar(settings: Settings, environment: Environment) -> Path:
    """The driver, fetched once."""
    java, ivy = find_java(environment.java_home), settings.spark.conf.get("spark.jars.ivySettings")
    (path,) = jars.resolve(jars.wanted_by("mariadb"), environment.cache / "jars", java, ivy)
    return path


def read(session: SparkSession, rows: DatabaseRows, driver: Path, is_remote: bool = False) -> DataFrame:
    """A DataFrame of the rows; nothing is read before its first action. A remote session is sent the driver."""
    with translating_spark():
        from pyspark.sql.functions import lit

        if is_remote:
            session.addArtifacts(str(driver))
        else:
            session.sql(f"ADD JAR {literal(str(driver))}")
        host = f"[{rows.host}]" if ":" in rows.host else rows.host
        # by this scheme Spark quotes names as MariaDB does, and not as texts
        url = f"jdbc:mysql://{host}:{rows.port}/{quote(rows.database, safe='')}?permitMysqlScheme"
        options = {
            "driver": _DRIVER,
            "user": rows.user,
            "password": rows.password,
            "fetchsize": _ROWS_AT_ONCE,
            "connectTimeout": _TIMEOUT_MS,
            "sessionVariables": rows.variables,
        }
        frame = session.read.jdbc(url, f"({rows.select}) AS found", predicates=list(rows.parts), properties=options)
        frame = frame.coalesce(rows.tasks)
        return frame.selectExpr(*rows.values).withColumns({name: lit(text) for name, text in rows.constants.items()})
