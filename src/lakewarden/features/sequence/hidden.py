"""Leaves out rows of the database that erasure requests of the archive hide, by the names of their key columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakewarden.engine.base.table_name import Reference
from lakewarden.engine.catalog.tables import Resolved
from lakewarden.engine.rows.keys import as_arrow
from lakewarden.errors import Conflict

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.table import Table

    from lakewarden.features.sequence.archives import ArchiveTable
    from lakewarden.lifecycle.ground import Reader


@dataclass(frozen=True)
class Hidden:
    """Values whose rows are hidden, by column of the database table."""

    values: tuple[tuple[str, frozenset[Any]], ...] = ()

    @staticmethod
    def of(lake: Reader, archive: ArchiveTable, columns: list[str]) -> Hidden:
        """What open requests of the archive hide; refused if the database has no column of that name."""
        table = archive.iceberg
        snapshot = table.current_snapshot() if table is not None else None
        if table is None or snapshot is None:
            return Hidden()
        found = list[tuple[str, frozenset[Any]]]()
        for key in lake.rows.hidden(Resolved(Reference(archive.name), table, snapshot)):
            if key.values:
                name = _name_of(table, key.field_id)
                column = next((each for each in columns if each.lower() == name.lower()), None)
                if column is None:
                    raise Conflict(
                        f"erasure requests hide rows of {archive.name} by {name}, and the database has no such column",
                        "Its rows cannot be filtered. Erase them in the database too, and purge the requests.",
                    )
                found.append((column, frozenset(as_arrow(key.kind, key.values).to_pylist())))
        return Hidden(tuple(found))

    def left_out(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of a batch that are not hidden. A column that changed its type is compared by text."""
        for name, values in self.values:
            texts = {str(value) for value in values}
            is_shown = [
                value is None or not (value in values or str(value) in texts) for value in batch[name].to_pylist()
            ]
            batch = batch if all(is_shown) else batch.filter(_mask(is_shown))
        return batch


def _name_of(table: Table, field_id: int) -> str:
    """A column's last name."""
    schemas = [table.schema(), *reversed(table.metadata.schemas)]
    return next((name for schema in schemas if (name := schema.find_column_name(field_id))), f"column {field_id}")


def _mask(is_shown: list[bool]) -> pa.BooleanArray:
    import pyarrow as pa

    return pa.array(is_shown, pa.bool_())
