"""`viewset incompatible`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field

from lakewarden.features.viewset.catalogue import PartitionRow, partitions
from lakewarden.features.viewset.definition import ViewSet, chosen
from lakewarden.lifecycle.ground import Reader
from lakewarden.lifecycle.request import Positional, Question
from lakewarden.quantities import Bytes


@dataclass(frozen=True)
class IncompatibleRow:
    """The partitions of one instance that were written with one other schema."""

    view_set_name: str
    view_instance_id: str
    incompatible_schema_hash: str
    current_schema_hash: str
    partition_count: int
    total_size_bytes: Bytes
    file_paths: list[str]

    dispensable: ClassVar[tuple[str, ...]] = ("file_paths", "current_schema_hash")


class Incompatible(Question[list[IncompatibleRow]]):
    """List partitions that were written with another schema than the view set has now.

    They are left out when a view set is read. Partitions without rows count as well; they have no file.
    """

    nothing = "All partitions have the current schema."

    name: Annotated[str | None, Positional()] = Field(None, description="A view set; all of them by default.")

    def ask(self, lake: Reader) -> list[IncompatibleRow]:
        return [row for view in chosen(lake, self.name) for row in _of(view, partitions(lake, view))]


def _of(view: ViewSet, rows: list[PartitionRow]) -> list[IncompatibleRow]:
    current = view.schema_hash
    groups: dict[tuple[str, str], list[PartitionRow]] = {}
    for row in rows:
        if row.file_schema_hash != current:
            groups.setdefault((row.view_instance_id, row.file_schema_hash), []).append(row)
    return [
        IncompatibleRow(
            view_set_name=view.name,
            view_instance_id=instance,
            incompatible_schema_hash=schema_hash,
            current_schema_hash=current,
            partition_count=len({row.identity for row in some}),
            total_size_bytes=sum(row.file_size for row in some),
            file_paths=[row.file_path for row in some if row.file_path is not None],
        )
        for (instance, schema_hash), some in sorted(groups.items())
    ]
