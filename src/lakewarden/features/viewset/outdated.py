"""`viewset outdated`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from lakewarden.features.viewset.catalogue import PartitionRow, outdated
from lakewarden.features.viewset.definition import chosen
from lakewarden.lifecycle.ground import Reader
from lakewarden.lifecycle.request import Positional, Question


class Outdated(Question[list[PartitionRow]]):
    """List partitions that are older than the view set keeps them, whatever their schema."""

    nothing = "No partition is older than its view set keeps it."

    name: Annotated[str | None, Positional()] = Field(None, description="A view set; all of them by default.")

    def ask(self, lake: Reader) -> list[PartitionRow]:
        return [row for view in chosen(lake, self.name) for row in outdated(lake, view)]
