"""What a request covers where Lakewarden keeps values: bad rows of backfills, empty partitions, instances of view sets.

They are values of the table that these stand beside, and of those that they are made of. As keys of the request, they
are hidden, purged from every version, and proved like all others.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lakewarden.engine.catalog.snapshot_removal import BACKFILL, checkpoint_columns
from lakewarden.engine.catalog.snapshots import notes_of
from lakewarden.errors import LakewardenError, TableNotFound
from lakewarden.features.erasure.requests.asked_values import are_at
from lakewarden.features.erasure.requests.spelling import stored_texts
from lakewarden.features.erasure.requests.view_set_instances import Instances, columns_named, is_global
from lakewarden.features.shared.side_tables import side_tables
from lakewarden.records.erasure import Folding, KeyAsked

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence, Set

    from pyiceberg.table import Table

    from lakewarden.engine.base.table_name import TableName
    from lakewarden.features.erasure.requests.asked_values import AskedValues
    from lakewarden.lifecycle.ground import Reader

Texts = dict[KeyAsked, list[str]]
Origin = tuple[str, ...]
"""The columns that the elements of tuples are of, as TABLE.COLUMN."""
_BACKFILL = "backfill"  # the column of bad rows that names theirs


@dataclass
class Found:
    """What a request covers beside its tables."""

    texts: Texts = field(default_factory=dict)
    unread: list[str] = field(default_factory=list)
    """Tables that cannot be read, and may have a value: a request is not closed before."""
    notes: list[str] = field(default_factory=list)


class Beside:
    """What Lakewarden keeps beside the tables of some keys: read once, then searched for the values of each request."""

    def __init__(self, lake: Reader, asked: Sequence[AskedValues]) -> None:
        names = _names_of(asked)
        sides: dict[TableName, list[TableName]] = {}
        for name in lake.tables.names():
            base = _base_name(name)
            sides.setdefault(base or name, []).extend([name] if base else [])
        self._read = list(lake.tables.read_all(sides.items(), lambda item: _Base.read(lake, *item, names)))

    def found(self, asked: Sequence[AskedValues], folding: Folding) -> Found:
        """What has one of the values."""
        found, names = Found(), _names_of(asked)
        folded = [replace(one, values=frozenset(map(folding.of, one.values))) for one in asked]
        for base in self._read:
            if base is not None and base.is_about(names):
                base.add_instances(found, asked, folding)
                for side in base.sides:
                    base.add_texts(found, side, folded, folding)
        return found


@dataclass(frozen=True)
class _Side:
    """A table beside another, and the texts in it."""

    name: TableName
    texts: Mapping[KeyAsked, Set[str]] = field(default_factory=dict, repr=False)
    origins: Set[Origin] = frozenset()
    """The columns that tuples in it are of; none if that is not known of all of them."""
    unread: str = ""


@dataclass(frozen=True)
class _Base:
    """A table with what is kept in it and beside it."""

    name: TableName
    table: Table | None
    unread: str = ""
    instances: Instances | None = None
    sides: Sequence[_Side] = ()

    @staticmethod
    def read(lake: Reader, name: TableName, sides: Sequence[TableName], names: Set[str]) -> _Base | None:
        """A table with what is beside it; none if that is not about the tables with these names."""
        base = _Base(name, None)
        try:
            base = replace(base, table=lake.tables.load(name))
            if not base.is_about(names):
                return None
            base = replace(base, instances=Instances.of(lake, name, base.table) if base.table is not None else None)
        except TableNotFound:  # what is beside it is still there
            pass
        except LakewardenError as error:
            base = replace(base, unread=error.message)
        return replace(base, sides=[_side(lake, side, base) for side in sides])

    def is_about(self, names: Set[str]) -> bool:
        """Whether it is one of the tables with these names or made of one, as far as that is known."""
        return self.table is None or str(self.name) in names or made_of(self.table, names)

    def add_instances(self, found: Found, asked: Sequence[AskedValues], folding: Folding) -> None:
        if self.unread and (self.table is not None or str(self.name) in _names_of(asked)):
            found.unread.append(f"{self.name} ({self.unread})")
        if self.instances is not None:
            texts, note = self.instances.texts(asked, folding)
            found.texts.update(texts)
            found.notes += [note] if note else []

    def add_texts(self, found: Found, side: _Side, asked: Sequence[AskedValues], folding: Folding) -> None:
        origins = side.origins if self.instances is None else {(one,) for one in self.instances.columns(asked)}
        kept = {key: {text for text in some if not is_global(key, text, folding)} for key, some in side.texts.items()}
        some = {
            key: sorted(text for text in texts if _has_value(text, origins, asked, folding))
            for key, texts in kept.items()
        }
        texts = {key: each for key, each in some.items() if each}
        if side.unread:
            found.unread.append(f"{side.name} ({side.unread})")
        elif not self.unread or self.table is not None:
            found.texts.update(texts)
        elif texts:  # it may be of other tables
            found.unread.append(f"{self.name} ({self.unread})")
        else:
            found.notes.append(
                f"{self.name} cannot be read, so it is not known whether it was made of these tables: {self.unread}. "
                f"{side.name} has none of the values"
            )


def _side(lake: Reader, name: TableName, base: _Base) -> _Side:
    """The texts in a table beside another; none if it only has the name of a table of ours."""
    column = next(column for suffix, column in side_tables().items() if name.table.endswith(suffix))
    try:
        table = lake.tables.load(name)
        if not any(column in schema.column_names for schema in table.metadata.schemas):
            return _Side(name)
        texts = {key: _texts(lake, name, table, key) for key in columns_named(name, table, column)}
        return _Side(name, texts, _origins(lake, name, table, base))
    except TableNotFound:  # dropped meanwhile
        return _Side(name)
    except LakewardenError as error:
        return _Side(name, unread=error.message)


def _texts(lake: Reader, name: TableName, table: Table, key: KeyAsked) -> set[str]:
    return {text for _, some in stored_texts(lake, name, table, {key.field_id}) for text in some}


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


def _origins(lake: Reader, name: TableName, table: Table, base: _Base) -> set[Origin]:
    """The columns that tuples in a table beside another are of; none if that is not known of all of them."""
    if base.table is None or base.instances is not None:
        return set()
    stamps = [item for notes in _notes(base.table) for item in notes.items() if item[0].startswith(BACKFILL)]
    known = {key.removeprefix(BACKFILL): checkpoint_columns(stamp) for key, stamp in stamps}
    if _BACKFILL not in table.schema().column_names or not all(checkpoint_columns(stamp) for _, stamp in stamps):
        return set()
    ids = {text for key in columns_named(name, table, _BACKFILL) for text in _texts(lake, name, table, key)}
    return {checkpoint_columns(stamp) for _, stamp in stamps} if ids <= known.keys() else set()


def _base_name(side: TableName) -> TableName | None:
    """The table that one is beside; none if it is not beside another."""
    suffix = next((suffix for suffix in side_tables() if side.table.endswith(suffix)), None)
    return replace(side, table=side.table.removesuffix(suffix)) if suffix is not None else None


def _names_of(asked: Sequence[AskedValues]) -> frozenset[str]:
    return frozenset(name for one in asked for name in one.tables)


def made_of(table: Table, others: Collection[str]) -> bool:
    """Whether what Lakewarden notes with a table names one of the others, as it does if it wrote rows of these."""
    within = {other.partition(".")[2] for other in others}
    return any(name in note for notes in _notes(table) for note in notes.values() for name in within)


def _notes(table: Table) -> list[Mapping[str, str]]:
    """The properties of a table and the summaries of its versions."""
    return [table.metadata.properties, *map(notes_of, table.metadata.snapshots)]
