"""`viewset list`."""

from __future__ import annotations

from dataclasses import dataclass

from lakewarden.features.viewset.catalogue import has_instance
from lakewarden.features.viewset.definition import GLOBAL, all_view_sets
from lakewarden.lifecycle.ground import Reader
from lakewarden.lifecycle.request import Question


@dataclass(frozen=True)
class ViewSetRow:
    """A view set."""

    view_set_name: str
    current_schema_hash: str
    schema: str
    has_view_maker: bool
    global_instance_available: bool


class List(Question[list[ViewSetRow]]):
    """List the view sets."""

    nothing = "No view sets. Register one with: lakewarden viewset register FILE"

    def ask(self, lake: Reader) -> list[ViewSetRow]:
        return [
            ViewSetRow(
                view_set_name=view.name,
                current_schema_hash=view.schema_hash,
                schema=", ".join(f"{name} {kind}" for name, kind in view.columns),
                has_view_maker=view.definition.instances is not None,
                global_instance_available=has_instance(lake, view, GLOBAL),
            )
            for view in all_view_sets(lake)
        ]
