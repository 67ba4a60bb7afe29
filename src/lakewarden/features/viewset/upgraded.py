"""View sets whose table another engine upgraded to format v3: partitions can be added, and nothing else is changed.

A partition is replaced, and a definition changed with its columns, in one commit of Lakewarden's own. On format v3
every commit is a statement of Spark, so readers would see one half of it without the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakewarden.engine.base.route import route_of_manifests
from lakewarden.errors import Conflict

if TYPE_CHECKING:
    from lakewarden.features.viewset.definition import ViewSet
    from lakewarden.lifecycle.ground import Reader


def is_upgraded(lake: Reader, view: ViewSet) -> bool:
    return route_of_manifests(lake.tables.route(view.table, view.table_name), view.table).needs_spark


def refuse_upgraded(lake: Reader, view: ViewSet) -> None:
    """Refuse anything but adding partitions."""
    if is_upgraded(lake, view):
        raise Conflict(
            f"{view.table_name} is in format v{view.table.metadata.format_version}, in which partitions of view sets "
            "can only be added",
            "Nothing was changed. Register it under another name, and materialize it there.",
        )
