"""`viewset partitions`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from lakewarden.features.viewset.catalogue import PartitionRow, partitions
from lakewarden.features.viewset.definition import chosen
from lakewarden.lifecycle.ground import Reader
from lakewarden.lifecycle.request import Positional, Question


class Partitions(Question[list[PartitionRow]]):
    """List the partitions of a view set, or of all: from metadata, without a JVM."""

    nothing = "No partitions."

    name: Annotated[str | None, Positional()] = Field(None, description="A view set; all of them by default.")

    def ask(self, lake: Reader) -> list[PartitionRow]:
        return [row for view in chosen(lake, self.name) for row in partitions(lake, view)]
