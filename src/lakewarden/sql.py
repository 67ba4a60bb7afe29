"""Lakewarden's lists in any Spark session, Spark Connect included.

    from lakewarden import Warden, sql

    sql.register(spark, Warden.open("lakewarden.yaml"))
    spark.sql("SELECT * FROM list_partitions()").show()

The session needs the lakes as catalogs of the same names. Every statement reads the partitions again. View sets are
those of the last `register`, with the schema that was current then: Iceberg has no metadata table of a table's
properties. Call it again after a view set was registered, changed or healed; until then partitions of its new schema
seem to be incompatible. Functions that change something raise an error that says where to run them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakewarden.warden import Warden


def register(spark: SparkSession, warden: Warden) -> None:
    """Define `list_view_sets()` and `list_partitions()` as temporary functions of a session."""
    from lakewarden.engine.sql.session_functions import define_list, refuse_call
    from lakewarden.errors import BadValue
    from lakewarden.features.shared.sql_function import ChangeFunction, sql_functions
    from lakewarden.features.viewset import spark_lists
    from lakewarden.features.viewset.catalogue import PartitionRow
    from lakewarden.features.viewset.definition import all_view_sets
    from lakewarden.features.viewset.list import ViewSetRow

    lake, columns = warden.ground, spark_lists.columns_of
    for name in sorted({view.table_name.lake for view in all_view_sets(lake)}):
        if spark.conf.get(f"spark.sql.catalog.{name}", None) is None:
            raise BadValue(f"the session has no catalog {name}", "Configure the lake as a catalog of this name.")
    define_list(spark, "list_view_sets", columns(ViewSetRow), spark_lists.view_sets_as_select(lake))
    define_list(spark, "list_partitions", columns(PartitionRow), spark_lists.partitions_as_select(lake))
    for function in sql_functions().values():
        if isinstance(function, ChangeFunction):
            refuse_call(spark, function.name, in_from=not function.by_row)
