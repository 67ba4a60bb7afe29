"""View sets whose table has the columns of a former definition again, but not that definition.

Other tools can set a former schema of a table, and earlier releases rolled back with one. The schema hash then claims
values that the definition does not compute, and that files may lack which were rewritten in between.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakewarden.errors import Conflict
from lakewarden.features.viewset.definition import columns_with_ids, inner_ids
from lakewarden.features.viewset.history import Former, history_of

if TYPE_CHECKING:
    from lakewarden.features.viewset.definition import ViewSet


def has_former_columns(view: ViewSet) -> bool:
    """Whether its columns are recorded, but not as those that its definition was registered with."""
    history = history_of(view.table.metadata.properties) or {}
    if view.schema_hash not in history:  # columns that other engines altered are columns like any others
        return False
    return _registered(view) not in history[view.schema_hash]


def refuse_former_columns(view: ViewSet) -> None:
    """Refuse to write or retire anything until it is registered again."""
    if has_former_columns(view):
        raise Conflict(
            f"{view.table_name} has the columns of a former definition of {view.name}, which the current one was not "
            "registered with",
            "Nothing was changed. Register the definition that you want again: lakewarden viewset register FILE",
        )


def lasting_columns(view: ViewSet) -> dict[str, tuple[int, str]]:
    """The columns that its table has had since its definition was registered, each with its field id and type then."""
    now = columns_with_ids(view.table.schema())
    registered = _registered(view) if has_former_columns(view) else None
    if registered is None:
        return now
    inner = inner_ids(view.table.schema())
    return {
        name: then
        for name, then in registered.columns.items()
        if name in now and now[name][0] == then[0] and registered.inner.get(name) == inner.get(name)
    }


def _registered(view: ViewSet) -> Former | None:
    """What was recorded when its definition was registered last."""
    history = history_of(view.table.metadata.properties) or {}
    formers = [one for some in history.values() for one in some]
    return next((one for one in reversed(formers) if one.definition == view.definition), None)
