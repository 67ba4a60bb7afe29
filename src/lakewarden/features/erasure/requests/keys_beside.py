"""What a request covers where Lakewarden keeps values: bad rows of backfills, empty partitions, instances of view sets.

They are values of the table that these stand beside, and of those that they are made of. As keys of the request, they
are hidden, purged from every version, and proved like all others.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from lakewarden.engine.base.table_name import TableName
from lakewarden.engine.catalog.snapshot_removal import BACKFILL, checkpoint_columns
from lakewarden.engine.catalog.snapshots import notes_of
from lakewarden.engine.rows.keys import find_keys
from lakewarden.errors import BrokenTable, LakewardenError, TableNotFound
from lakewarden.features.erasure.requests.asked_values import are_at
from lakewarden.features.erasure.requests.spelling import spellings_of, stored_texts
from lakewarden.features.shared.side_tables import side_tables
from lakewarden.features.viewset.definition import INSTANCE, PROPERTY, of_table
from lakewarden.features.viewset.history import history_of
from lakewarden.records.erasure import Folding, KeyAsked

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence, Set

    from pyiceberg.table import Table

    from lakewarden.features.erasure.requests.asked_values import AskedValues
    from lakewarden.lifecycle.ground import Reader

Texts = dict[KeyAsked, list[str]]
Origin = tuple[str, ...]
"""The columns that the elements of tuples are of, as TABLE.COLUMN."""
_BACKFILL = "backfill"  # the column of bad rows that names theirs


def keys_beside(lake: Reader, asked: Sequence[AskedValues], folding: Folding) -> tuple[Texts, list[str]]:
    """The texts to cover in what is kept beside the tables of a request, by key; and tables that cannot be read."""
    names = {name for one in asked for name in one.tables}
    folded = [replace(one, values=frozenset(map(folding.of, one.values))) for one in asked]

    def look(name: TableName) -> Texts | str:
        try:
            if name.table.endswith(tuple(side_tables())):
                is_about, base = _base_of(lake, name, names)
                return _keys_in(lake, name, base, folded, folding) if is_about else {}
            return _instances_in(lake, name, asked, folding)
        except TableNotFound:  # dropped meanwhile
            return {}
        except LakewardenError as error:
            return f"{name} ({error.message})"

    every = lake.tables.names()
    results = list(lake.tables.read_all(every, look))
    found = {key: texts for each in results if not isinstance(each, str) for key, texts in each.items()}
    return found, [each for each in results if isinstance(each, str)]


def _keys_in(
    lake: Reader, name: TableName, base: Table | None, asked: Sequence[AskedValues], folding: Folding
) -> Texts:
    """The texts with one of the values in one table; none if it only has the name of a table of ours."""
    found: Texts = {}
    table = lake.tables.load(name)
    column = next(column for suffix, column in side_tables().items() if name.table.endswith(suffix))
    if not any(column in schema.column_names for schema in table.metadata.schemas):
        return {}
    origins = _origins(lake, name, table, base, asked) if base is not None else set()
    for key in _columns(name, table, column):
        stored = stored_texts(lake, name, table, {key.field_id})
        texts = {text for _, some in stored for text in some if _has_value(text, origins, asked, folding)}
        if texts:
            found[key] = sorted(texts)
    return found


def _has_value(text: str, origins: Set[Origin], asked: Sequence[AskedValues], folding: Folding) -> bool:
    """Whether a text of a table beside others has a value: it is one, or a tuple as JSON with one in its column."""
    try:
        parsed = json.loads(text)
    except ValueError:
        parsed = None
    elements = parsed if isinstance(parsed, list) else [text]
    fitting = [one for one in origins if len(one) == len(elements)] or [("",) * len(elements)]
    pairs = {pair for one in fitting for pair in zip(one, map(str, elements), strict=True)}
    return any(are_at(asked, *pair, folding) for pair in pairs)


def _origins(lake: Reader, name: TableName, table: Table, base: Table, asked: Sequence[AskedValues]) -> set[Origin]:
    """The columns that the values in a table beside another may be of; none if that is not known of all of them."""
    if PROPERTY in base.metadata.properties:
        columns = _instance_columns(lake, _base_name(name), base)
        return {(f"{one}.{column}",) for one, column in columns if any(each.is_in(one) for each in asked)}
    stamps = [item for notes in _notes(base) for item in notes.items() if item[0].startswith(BACKFILL)]
    known = {key.removeprefix(BACKFILL): checkpoint_columns(stamp) for key, stamp in stamps}
    if _BACKFILL not in table.schema().column_names or not all(checkpoint_columns(stamp) for _, stamp in stamps):
        return set()
    (key,) = _columns(name, table, _BACKFILL)
    ids = {text for _, some in stored_texts(lake, name, table, {key.field_id}) for text in some}
    return {checkpoint_columns(stamp) for _, stamp in stamps} if ids <= known.keys() else set()


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


def _base_of(lake: Reader, side: TableName, asked: Collection[str]) -> tuple[bool, Table | None]:
    """Whether a table is beside one with these names, or beside one that was made of them; and that one."""
    base = _base_name(side)
    try:
        table = lake.tables.load(base)
    except TableNotFound:
        return True, None
    return str(base) in asked or made_of(table, asked), table


def _base_name(side: TableName) -> TableName:
    suffix = next(suffix for suffix in side_tables() if side.table.endswith(suffix))
    return replace(side, table=side.table.removesuffix(suffix))


def made_of(table: Table, others: Collection[str]) -> bool:
    """Whether what Lakewarden notes with a table names one of the others, as it does if it wrote rows of these."""
    within = {other.partition(".")[2] for other in others}
    return any(name in note for notes in _notes(table) for note in notes.values() for name in within)


def _notes(table: Table) -> list[Mapping[str, str]]:
    """The properties of a table and the summaries of its versions."""
    return [table.metadata.properties, *map(notes_of, table.metadata.snapshots)]
