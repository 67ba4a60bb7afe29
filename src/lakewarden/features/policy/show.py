"""`policy show`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from lakewarden.errors import LakewardenError
from lakewarden.features.policy.mistakes import mistakes
from lakewarden.features.shared.select import is_pattern, select
from lakewarden.lifecycle.request import Completes, Positional, Question
from lakewarden.quantities import show_duration

if TYPE_CHECKING:
    from lakewarden.config import Declared, TableSection
    from lakewarden.engine.base.table_name import TableName
    from lakewarden.lifecycle.ground import Reader


@dataclass(frozen=True)
class PolicyValue:
    """One effective value for a table, and its source; or a configuration entry without effect."""

    table: str
    policy: str
    name: str
    value: str
    source: str


class Show(Question[list[PolicyValue]]):
    """Show the effective policy of a table, or of all tables of a pattern: each value and its source.

    The first of these sources wins: an option, the most specific pattern under `tables`, the table's properties, its
    layer, `defaults`. Configuration without effect is listed last: patterns that match no table, and subjects whose
    table or column does not exist.
    """

    table: Annotated[str, Positional(), Completes("tables")] = Field(
        description="[lake.]namespace.table, or a pattern such as 'sales.*'."
    )

    def ask(self, lake: Reader) -> list[PolicyValue]:
        if not is_pattern(self.table):
            return [*_values(lake, lake.tables.name(self.table)), *_mistaken(lake)]
        names = [reference.name for reference in select(lake, self.table, with_skipped=True)]
        found = lake.tables.read_all(names, lambda name: _guarded(lake, name))
        return [*(row for rows in found for row in rows), *_mistaken(lake)]


def _guarded(lake: Reader, name: TableName) -> list[PolicyValue]:
    try:
        return _values(lake, name)
    except LakewardenError as error:
        return [PolicyValue(str(name), "table", "problem", error.message, "")]


def _values(lake: Reader, name: TableName) -> list[PolicyValue]:
    target, properties = str(name), lake.tables.load(name).metadata.properties

    def declared(section: TableSection) -> dict[str, Declared]:
        return lake.settings.resolve(name.lake, name.within_lake, section, {}, properties)

    skip, production = declared("table")["skip"], declared("table")["production"]
    rows = _rows(target, "policy", [skip] if skip.value else [])
    rows += _rows(target, "retention", [*declared("retention").values(), production])
    rows += _rows(target, "compaction", declared("compaction").values())
    rows += _rows(target, "erasure", [declared("erasure")["watch"]])
    quarantine = lake.settings.quarantine
    rows.append(PolicyValue(target, "quarantine", "expired_files", quarantine.expired_files, "quarantine"))
    if properties.get("gc.enabled", "true").lower() == "false":
        rows.append(PolicyValue(target, "retention", "gc.enabled", "false: no file may be deleted", "table property"))
    return rows


def _mistaken(lake: Reader) -> list[PolicyValue]:
    """Configuration without effect; unknown if a catalog is unavailable."""
    try:
        return [
            PolicyValue("", "configuration", mistake.where, f"{mistake.what}. {mistake.advice}", "no effect")
            for mistake in mistakes(lake)
        ]
    except LakewardenError as error:
        return [PolicyValue("", "configuration", "tables", f"not compared with the tables: {error.message}", "unknown")]


def _rows(table: str, policy: str, declared: Iterable[Declared]) -> list[PolicyValue]:
    return [PolicyValue(table, policy, value.name, _text(value.value), value.source) for value in declared]


def _text(value: object) -> str:
    if isinstance(value, timedelta):
        return show_duration(value)
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
