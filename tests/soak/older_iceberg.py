"""Reads refs of a table on an older Spark, in a process of its own: the answer is rows as `cells` compares them.

Takes as arguments the release of Iceberg, the catalog's file and the folder of the warehouse, and as JSON on stdin what
to read: the table, and for each ref its name and columns.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pyspark.sql import SparkSession

from tests.readers.cells import comparable

_SQLITE = "org.xerial:sqlite-jdbc:3.53.4.0"
_CATALOG = "spark.sql.catalog.main"


def session(release: str, catalog: str, warehouse: str) -> SparkSession:
    settings = {
        "spark.jars.packages": f"org.apache.iceberg:iceberg-spark-runtime-3.5_2.12:{release},{_SQLITE}",
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        _CATALOG: "org.apache.iceberg.spark.SparkCatalog",
        f"{_CATALOG}.type": "jdbc",
        f"{_CATALOG}.uri": f"jdbc:sqlite:{catalog}",
        f"{_CATALOG}.jdbc.schema-version": "V1",
        f"{_CATALOG}.warehouse": warehouse,
        f"{_CATALOG}.cache-enabled": "false",
    }
    builder = SparkSession.builder.master("local[1]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def main() -> None:
    spark = session(*sys.argv[1:])
    asked: dict[str, Any] = json.load(sys.stdin)
    found: dict[str, dict[str, dict[str, int]]] = {}
    for vectorised in ("true", "false"):
        spark.conf.set("spark.sql.iceberg.vectorization.enabled", vectorised)
        for ref, fields in asked["refs"].items():
            rows = spark.sql(f"SELECT * FROM main.{asked['table']} VERSION AS OF '{ref}'").collect()
            shown = comparable((row.asDict(recursive=True) for row in rows), fields)
            found.setdefault(vectorised, {})[ref] = shown
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
