"""`viewset show`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from pydantic import Field

from lakewarden.display import Shown
from lakewarden.features.viewset.catalogue import partitions
from lakewarden.features.viewset.definition import view_set
from lakewarden.lifecycle.ground import Reader
from lakewarden.lifecycle.request import Positional, Question
from lakewarden.quantities import Bytes


@dataclass(frozen=True)
class InstanceRow:
    """What one instance of a view set holds."""

    view_instance_id: str
    partitions: int
    empty_partitions: int
    incompatible_partitions: int
    rows: int
    size: Bytes
    begin: datetime
    end: datetime


@dataclass(frozen=True)
class ViewSetShown(Shown):
    """A view set, its schema and its instances."""

    name: str
    table: str
    source: str
    current_schema_hash: str
    stored_hashes: list[str]
    """What file_schema_hash holds in current partitions: those of a former schema that were kept have its hash."""
    columns: dict[str, str]
    instances: list[InstanceRow]
    sql: str


class Show(Question[ViewSetShown]):
    """Show a view set: its schema, and what its instances hold."""

    name: Annotated[str, Positional()] = Field(description="The view set.")

    def ask(self, lake: Reader) -> ViewSetShown:
        view = view_set(lake, self.name)
        rows = partitions(lake, view)
        instances = []
        for instance in sorted({row.view_instance_id for row in rows}):
            own = [row for row in rows if row.view_instance_id == instance]
            known = {row.identity: row for row in own}
            instances.append(
                InstanceRow(
                    view_instance_id=instance,
                    partitions=len(known),
                    empty_partitions=sum(1 for row in known.values() if row.file_path is None),
                    incompatible_partitions=sum(1 for one in known if one[3] != view.schema_hash),
                    rows=sum(row.num_rows for row in own),
                    size=sum(row.file_size for row in own),
                    begin=min(row.begin_insert_time for row in own),
                    end=max(row.end_insert_time for row in own),
                )
            )
        return ViewSetShown(
            name=view.name,
            table=str(view.table_name),
            source=view.definition.source,
            current_schema_hash=view.schema_hash,
            stored_hashes=view.stored_as(view.schema_hash),
            columns=dict(view.columns),
            instances=instances,
            sql=view.definition.sql,
        )
