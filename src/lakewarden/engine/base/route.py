"""Whether a table is changed directly or through Spark, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakewarden.config import LakeSettings
from lakewarden.lifecycle.basics import PUBLISH, SPARK_SQL

if TYPE_CHECKING:
    from pyiceberg.table import Table


@dataclass(frozen=True)
class Route:
    """One of the two routes, with the reason if it is not the default."""

    name: str
    because: str = ""

    @property
    def needs_spark(self) -> bool:
        return self.name == SPARK_SQL


def route_for(table: Table, lake: LakeSettings) -> Route:
    """The route for refs and expiry: direct, except format v3 in catalogs where the client writes the metadata."""
    version = table.metadata.format_version
    if version >= 3 and lake.type != "rest":
        return Route(SPARK_SQL, f"format v{version}: only Spark writes its metadata in a catalog of type {lake.type}")
    return Route(PUBLISH)


def route_of_manifests(usual: Route, table: Table) -> Route:
    """The route for changes of files: through Spark for format v3, because clients write manifests in any catalog."""
    version = table.metadata.format_version
    if version >= 3 and not usual.needs_spark:
        return Route(SPARK_SQL, f"format v{version}: only Spark writes its manifests")
    return usual
