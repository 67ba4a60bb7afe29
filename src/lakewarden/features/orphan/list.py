"""`orphan list`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from pydantic import Field

from lakewarden.features.orphan.batches import kept
from lakewarden.features.shared.select import select
from lakewarden.lifecycle.ground import Reader
from lakewarden.lifecycle.request import Completes, Positional, Question
from lakewarden.quantities import Bytes


@dataclass(frozen=True)
class BatchRow:
    """One batch of files in quarantine, or a table whose quarantine cannot be read."""

    id: str
    table: str
    reason: str = ""
    files: int | None = None
    bytes: Bytes | None = None
    made_at: datetime | None = None
    delete_after: datetime | None = None
    problem: str = ""


class List(Question[list[BatchRow]]):
    """List batches of files in quarantine, which can be restored, oldest first.

    Quarantine holds orphans, and files of expired versions if the configuration sends those there.
    """

    nothing = "Nothing is in quarantine."

    table: Annotated[str | None, Positional(), Completes("tables")] = Field(
        None, description="[lake.]namespace.table, or a pattern such as 'sales.*'; by default all tables."
    )
    namespace: str | None = Field(None, description="Only tables in this namespace and below it.")

    def ask(self, lake: Reader) -> list[BatchRow]:
        if self.table is not None:
            names = [reference.name for reference in select(lake, self.table)]
        else:
            names = lake.tables.names(namespace=self.namespace)
        found = kept(lake, names)
        if self.table is not None and len(found) == 1 and found[0].problem:
            raise found[0].problem
        rows = [
            BatchRow(b.id, str(table.name), b.reason, len(b.files), b.bytes, b.made_at, b.delete_after)
            for table in found
            for b in table.batches
        ]
        unread = [BatchRow("", str(table.name), problem=table.problem.message) for table in found if table.problem]
        return sorted(rows, key=lambda row: (str(row.made_at), row.id)) + unread
