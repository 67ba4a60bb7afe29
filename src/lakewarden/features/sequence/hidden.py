"""Leaves out rows of the database that erasure requests of the archive hide, by the names of their key columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from lakewarden.engine.rows.keys import as_arrow
from lakewarden.errors import Conflict
from lakewarden.records.erasure import ErasureState, Folding

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.table import Table

    from lakewarden.features.sequence.archives import ArchiveTable
    from lakewarden.lifecycle.ground import Reader


@dataclass(frozen=True)
class HiddenValues:
    """The values of one column whose rows are hidden."""

    column: str
    values: frozenset[Any] = field(repr=False)
    folded: tuple[tuple[Folding, frozenset[str]], ...] = field(default=(), repr=False)
    """Of requests that ignore spellings: how they compare, and what with."""

    @cached_property
    def _texts(self) -> frozenset[str]:
        return frozenset(map(str, self.values))

    def hide(self, value: Any) -> bool:
        """Whether they hide a value of the database. A column that changed its type is compared by text."""
        if value is None:
            return False
        text = str(value)
        return (
            value in self.values
            or text in self._texts
            or any(folding.of(text) in known for folding, known in self.folded)
        )


@dataclass(frozen=True)
class Hidden:
    """Values whose rows are hidden, by column of the database table."""

    values: tuple[HiddenValues, ...] = ()

    @staticmethod
    def of(lake: Reader, archive: ArchiveTable, schema: pa.Schema) -> Hidden:
        """What open requests of the archive hide; refused if the database has no such column to compare."""
        table = archive.iceberg
        if table is None:
            return Hidden()
        found = list[HiddenValues]()
        for key in lake.rows.hidden_in(archive.name, table):
            if key.values:
                name = _name_of(table, key.field_id)
                column = next((each for each in schema.names if each.lower() == name.lower()), None)
                values = as_arrow(key.kind, key.values)
                if column is None or not _is_comparable(values.type, schema.field(column).type):
                    has = "no such column" if column is None else f"values of {schema.field(column).type} there"
                    raise Conflict(
                        f"erasure requests hide rows of {archive.name} by {name}, and the database has {has}",
                        "Its rows cannot be filtered. Erase them in the database too, and purge the requests.",
                    )
                folded = _folded(lake, str(table.metadata.table_uuid), key.field_id) if key.kind == "string" else ()
                found.append(HiddenValues(column, frozenset(values.to_pylist()), tuple(folded)))
        return Hidden(tuple(found))

    def left_out(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of a batch that are not hidden."""
        for hidden in self.values:
            is_shown = [not hidden.hide(value) for value in batch[hidden.column].to_pylist()]
            batch = batch if all(is_shown) else batch.filter(_mask(is_shown))
        return batch


def _folded(lake: Reader, uuid: str, field_id: int) -> Iterator[tuple[Folding, frozenset[str]]]:
    """The values of open requests that ignore spellings, in the form that they are compared in."""
    requests: dict[Folding, list[str]] = {}
    for request in lake.state.erasure.list([ErasureState.OPEN], uuid):
        if request.folding:
            requests.setdefault(request.folding, []).append(request.id)
    for folding, ids in requests.items():
        keys = [key for key in lake.state.erasure.hidden(uuid, ids) if key.field_id == field_id]
        yield folding, frozenset(folding.of(text) for key in keys for text in key.values)


def _is_comparable(key: pa.DataType, type: pa.DataType) -> bool:
    """Whether equal values of a key and of the database have equal values or texts in Python."""
    import pyarrow.types as is_type

    if key == type:
        return True
    if is_type.is_string(key):
        return bool(is_type.is_large_string(type) or is_type.is_integer(type) or is_type.is_date(type))
    if is_type.is_string(type) or is_type.is_large_string(type):
        return not is_type.is_fixed_size_binary(key)
    is_whole = is_type.is_integer(key)
    is_number = is_whole or is_type.is_decimal(key)
    return bool(
        (is_number and (is_type.is_integer(type) or is_type.is_decimal(type)))
        or (is_whole and is_type.is_floating(type))
    )


def _name_of(table: Table, field_id: int) -> str:
    """A column's last name."""
    schemas = [table.schema(), *reversed(table.metadata.schemas)]
    return next((name for schema in schemas if (name := schema.find_column_name(field_id))), f"column {field_id}")


def _mask(is_shown: list[bool]) -> pa.BooleanArray:
    import pyarrow as pa

    return pa.array(is_shown, pa.bool_())
