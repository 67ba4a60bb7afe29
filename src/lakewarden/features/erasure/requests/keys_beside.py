"""What a request covers where Lakewarden keeps values: bad rows of backfills, empty partitions, instances of view sets.

They are values of the table that these stand beside, and of those that they are made of. As keys of the request, they
are hidden, purged from every version, and proved like all others.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from lakewarden.engine.base.table_name import TableName
from lakewarden.engine.rows.keys import find_keys
from lakewarden.errors import BrokenTable, LakewardenError, TableNotFound
from lakewarden.features.erasure.requests.spelling import spellings_of, stored_texts
from lakewarden.features.shared.side_tables import side_tables
from lakewarden.features.viewset.definition import INSTANCE, PROPERTY, of_table
from lakewarden.features.viewset.history import history_of
from lakewarden.records.erasure import Folding, KeyAsked

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence, Set

    from pyiceberg.table import Table

    from lakewarden.features.erasure.requests.asked_values import AskedValues
    from lakewarden.lifecycle.ground import Reader

Texts = dict[KeyAsked, list[str]]


def keys_beside(lake: Reader, asked: Sequence[AskedValues], folding: Folding) -> tuple[Texts, list[str]]:
    """The texts to cover in what is kept beside the tables of a request, by key; and tables that cannot be read."""
    names = {name for one in asked for name in one.tables}
    folded = {folding.of(value) for one in asked for value in one.values}

    def look(name: TableName) -> Texts | str:
        try:
            if name.table.endswith(tuple(side_tables())):
                return _keys_in(lake, name, folded, folding) if _is_beside(lake, name, names) else {}
            return _instances_in(lake, name, asked, folding)
        except TableNotFound:  # dropped meanwhile
            return {}
        except LakewardenError as error:
            return f"{name} ({error.message})"

    every = lake.tables.names()
    results = list(lake.tables.read_all(every, look))
    found = {key: texts for each in results if not isinstance(each, str) for key, texts in each.items()}
    return found, [each for each in results if isinstance(each, str)]


def _keys_in(lake: Reader, name: TableName, folded: Set[str], folding: Folding) -> Texts:
    """The texts with one of the values in one table; none if it only has the name of a table of ours."""
    found: Texts = {}
    table = lake.tables.load(name)
    column = next(column for suffix, column in side_tables().items() if name.table.endswith(suffix))
    if not any(column in schema.column_names for schema in table.metadata.schemas):
        return {}
    for key in _columns(name, table, column):
        stored = stored_texts(lake, name, table, {key.field_id})
        texts = {text for _, some in stored for text in some if not folded.isdisjoint(_values_in(text, folding))}
        if texts:
            found[key] = sorted(texts)
    return found


def _values_in(text: str, folding: Folding) -> list[str]:
    """The values that a text of a table beside others has: itself, and if it is a tuple as JSON, its elements."""
    try:
        elements = json.loads(text)
    except ValueError:
        elements = []
    return [folding.of(str(each)) for each in (text, *(elements if isinstance(elements, list) else ()))]


def _instances_in(lake: Reader, name: TableName, asked: Sequence[AskedValues], folding: Folding) -> Texts:
    """The values as instances of a view set, if its instances are, or were, values of a key: nothing is read for that.

    The rows of an instance are made of rows with its value, and its SQL need not select that column.
    """
    try:
        table = lake.tables.load(name)
    except LakewardenError:  # not known whether it is a view set; what cannot be loaded is named where it is needed
        return {}
    names = {name for one in asked for name in one.tables}
    if PROPERTY not in table.metadata.properties or not (str(name) in names or made_of(table, names)):
        return {}
    columns = _instance_columns(lake, name, table)
    values = {value for one in asked if any(one.is_of(*column) for column in columns) for value in one.values}
    return {key: spellings_of(key, sorted(values), folding) for key in _columns(name, table, INSTANCE) if values}


def _instance_columns(lake: Reader, name: TableName, table: Table) -> set[tuple[str, str]]:
    """The columns whose values are instances of a view set: of its source, and its own if it selects that."""
    view = of_table(name, table)
    try:
        former = [one.definition for some in (history_of(table.metadata.properties) or {}).values() for one in some]
    except ValueError:
        raise BrokenTable(f"the former definitions of view set {name} cannot be read", "Recreate it.") from None
    definitions = [*([view.definition] if view else []), *former]
    named = [(str(lake.tables.name(one.source)), one.instances) for one in definitions if one.instances]
    return {(table, column) for source, column in named for table in (source, str(name))}


def _columns(name: TableName, table: Table, column: str) -> list[KeyAsked]:
    uuid = str(table.metadata.table_uuid)
    found = find_keys(table.metadata, column, str(name))
    return [KeyAsked(str(name), uuid, key.path, key.field_id, key.kind) for key in found]


def _is_beside(lake: Reader, side: TableName, asked: Collection[str]) -> bool:
    """Whether a table is beside one with these names, or beside one that was made of them."""
    suffix = next(suffix for suffix in side_tables() if side.table.endswith(suffix))
    base = replace(side, table=side.table.removesuffix(suffix))
    if str(base) in asked:
        return True
    try:
        return made_of(lake.tables.load(base), asked)
    except TableNotFound:
        return True


def made_of(table: Table, others: Collection[str]) -> bool:
    """Whether what Lakewarden notes with a table names one of the others, as it does if it wrote rows of these."""
    within = {other.partition(".")[2] for other in others}
    notes = [*table.metadata.properties.values()]
    notes += [
        value for one in table.metadata.snapshots if one.summary for value in one.summary.additional_properties.values()
    ]
    return any(name in note for note in notes for name in within)
