"""The instances of view sets that are values of a request's keys.

The rows of an instance are made of the source's rows with that value, also if the view set's SQL does not select its
column. Nothing in a partition shows whose value its instance is. So a view set is covered only if the instances of all
its definitions are of a key, and never its instance with the rows of all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakewarden.engine.rows.keys import find_keys
from lakewarden.errors import BrokenTable
from lakewarden.features.erasure.requests.spelling import spellings_of
from lakewarden.features.viewset.definition import GLOBAL, INSTANCE, PROPERTY, of_table
from lakewarden.features.viewset.history import history_of
from lakewarden.records.erasure import Folding, KeyAsked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.table import Table

    from lakewarden.engine.base.table_name import TableName
    from lakewarden.features.erasure.requests.asked_values import AskedValues
    from lakewarden.lifecycle.ground import Reader


@dataclass(frozen=True)
class Instances:
    """The instances of one view set."""

    name: str
    keys: Sequence[KeyAsked]
    """The column with the instances, and former ones of its name."""
    sources: frozenset[tuple[str, str]]
    """The columns that its present and former definitions take the instances from, each with its table."""

    @staticmethod
    def of(lake: Reader, name: TableName, table: Table) -> Instances | None:
        """The instances of the view set that a table belongs to; none if it belongs to none."""
        if PROPERTY not in table.metadata.properties:
            return None
        view = of_table(name, table)
        try:
            former = [one.definition for some in (history_of(table.metadata.properties) or {}).values() for one in some]
        except ValueError:
            raise BrokenTable(f"the former definitions of view set {name} cannot be read", "Recreate it.") from None
        every = [*([view.definition] if view else []), *former]
        named = frozenset((str(lake.tables.name(one.source)), one.instances) for one in every if one.instances)
        return Instances(str(name), columns_named(name, table, INSTANCE), named)

    def columns(self, asked: Sequence[AskedValues]) -> set[str]:
        """The columns of the keys' tables whose values are instances, as TABLE.COLUMN; its own if it has that."""
        sources = {each for each in self.sources if any(one.is_in(each[0]) for one in asked)}
        own = {(self.name, column) for _, column in self.sources}
        return {".".join(each) for each in sources | {each for each in own if any(one.knows(*each) for one in asked)}}

    def texts(self, asked: Sequence[AskedValues], folding: Folding) -> tuple[dict[KeyAsked, list[str]], str]:
        """The values to cover as instances, by key, and a note if one is left out. No row is read for that."""
        if self.not_covered(asked):
            return {}, ""
        values = {
            text for one in asked if any(self._is_from(one, *each) for each in self.sources) for text in one.values
        }
        mine = sorted(text for text in values if not is_global(self.keys[0], text, folding))
        note = (
            f"{self.name}: a value of this request is the name of the instance that has all rows, which is left alone"
        )
        texts = {key: spellings_of(key, mine, folding) for key in self.keys if mine}
        return texts, note if len(mine) < len(values) else ""

    def not_covered(self, asked: Sequence[AskedValues]) -> str:
        """Why the instances are not covered, if it is not known whether they are values of the keys."""
        is_of = {each for each in self.sources if any(self._is_from(one, *each) for one in asked)}
        unknown = {each for each in self.sources if any(one.is_in(each[0]) and not one.knows(*each) for one in asked)}
        if not (is_of or unknown) or is_of == self.sources:
            return ""
        return (
            f"{self.name} is a view set whose instances are, or were, taken from other columns too, and its partitions "
            "do not show which: it is not covered by this request. To erase partitions by their instance, request "
            f"them: lakewarden erasure request {self.name} --key {INSTANCE}"
        )

    def _is_from(self, one: AskedValues, source: str, column: str) -> bool:
        return one.is_of(source, column) or one.is_of(self.name, column)


def is_global(key: KeyAsked, text: str, folding: Folding) -> bool:
    """Whether a text in a column of instances means the one that has all rows, in a spelling that is ignored."""
    return key.path == INSTANCE and folding.of(text) == folding.of(GLOBAL)


def columns_named(name: TableName, table: Table, column: str) -> list[KeyAsked]:
    """The columns that have, or had, a name in a table."""
    uuid = str(table.metadata.table_uuid)
    found = find_keys(table.metadata, column, str(name))
    return [KeyAsked(str(name), uuid, key.path, key.field_id, key.kind) for key in found]
