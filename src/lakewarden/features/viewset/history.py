"""What a view set was defined as before, by the hash of the schema it had then.

It is kept in a property of the table from its creation on, and grows with every registration. Only with it can be known
whether the rows of a former schema are those that the current SQL would give.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, TypeAdapter

from lakewarden.features.viewset.definition import HISTORY, Definition

if TYPE_CHECKING:
    from lakewarden.lifecycle.ground import Reader

_REMEMBERED = 50  # schemas; each takes a few kilobytes of every metadata file


class ReadColumns(BaseModel):
    """The columns of a table that a statement may read, by id: the same name may be another column later."""

    model_config = ConfigDict(frozen=True)

    uuid: str
    ids: dict[str, int]


class Former(BaseModel):
    """A definition, the columns that the view set's table had with it, and what its SQL read."""

    model_config = ConfigDict(frozen=True)

    definition: Definition
    columns: dict[str, tuple[int, str]]
    """The field id and the type of each column of the SQL."""
    reads: dict[str, ReadColumns]
    inner: dict[str, list[int]] = {}
    """The field ids inside its nested columns; earlier releases did not record them."""


_History = TypeAdapter(dict[str, list[Former]])


def history_of(properties: Mapping[str, str]) -> dict[str, list[Former]] | None:
    """All definitions that partitions of a schema hash may have been written with; None if it is not known."""
    text = properties.get(HISTORY)
    return None if text is None else _History.validate_json(text)


def recorded(properties: Mapping[str, str], schema_hash: str, now: Former) -> dict[str, str]:
    """The property with one more definition; none if the table's earlier definitions are not known.

    Of schemas long ago only the hash stays: it must not be given to other field ids.
    """
    known = history_of(properties)
    if known is None:
        return {}
    same = [one for one in known.pop(schema_hash, []) if one != now]
    kept = {**{key: list[Former]() for key in known}, **dict(list(known.items())[-_REMEMBERED + 1 :])}
    return {HISTORY: _History.dump_json({**kept, schema_hash: [*same, now]}).decode()}


def begun(schema_hash: str, now: Former) -> dict[str, str]:
    """The property of a new table."""
    return recorded({HISTORY: "{}"}, schema_hash, now)


def reads_of(lake: Reader, definition: Definition) -> dict[str, ReadColumns]:
    """The columns that a definition's SQL reads, as its tables are now."""
    found = {}
    for spelled in definition.statement.tables:
        table = lake.tables.load(lake.tables.name(spelled))
        ids = {field.name: field.field_id for field in table.schema().fields}
        used = definition.statement.columns_of(list(ids))
        found[spelled] = ReadColumns(uuid=str(table.metadata.table_uuid), ids={name: ids[name] for name in used})
    return found
