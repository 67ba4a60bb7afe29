"""By which way a table can be changed, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakewarden.config import LakeSettings
from lakewarden.lifecycle.basics import PUBLISH, SPARK_SQL

if TYPE_CHECKING:
    from pyiceberg.table import Table


@dataclass(frozen=True)
class Route:
    """One of the two ways, with the reason where it is not the usual one."""

    name: str
    because: str = ""

    @property
    def needs_spark(self) -> bool:
        return self.name == SPARK_SQL


def route_for(table: Table, lake: LakeSettings) -> Route:
    """For refs and expiry: the commit layer, but for format v3 in catalogs whose metadata files the client writes."""
    version = table.metadata.format_version
    if version >= 3 and lake.type != "rest":
        return Route(SPARK_SQL, f"format v{version}: only Spark writes its metadata in a catalog of type {lake.type}")
    return Route(PUBLISH)


def route_of_manifests(usual: Route, table: Table) -> Route:
    """The usual one, but for changes of files in format v3: whoever checks requirements, manifests are the client's."""
    version = table.metadata.format_version
    if version >= 3 and not usual.needs_spark:
        return Route(SPARK_SQL, f"format v{version}: only Spark writes its manifests")
    return usual
