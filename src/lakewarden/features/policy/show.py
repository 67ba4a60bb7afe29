"""`policy show`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakewarden.features.compaction import policy as compaction
from lakewarden.features.erasure import watching
from lakewarden.features.retention import policy as retention
from lakewarden.lifecycle.request import Question, Table

if TYPE_CHECKING:
    from lakewarden.features.table.declared import Declared
    from lakewarden.lifecycle.ground import Reader


@dataclass(frozen=True)
class PolicyValue:
    """One value that holds for a table, and where it was said."""

    policy: str
    name: str
    value: str
    source: str


class Show(Question[list[PolicyValue]]):
    """Show what holds for a table: each value of its policies, and where that comes from.

    The nearest wins: an option, the most specific pattern under `tables`, the table's own properties, its layer,
    then `defaults`.
    """

    table: Table

    def ask(self, lake: Reader) -> list[PolicyValue]:
        name = lake.tables.name(self.table)
        properties = lake.tables.load(name).metadata.properties
        skipped = lake.settings.skips(name.lake, name.within_lake)
        rows = [PolicyValue("policy", "skip", "yes", "tables")] if skipped else []
        rows += _rows("retention", retention.declared_policy(lake.settings, name, properties, {}))
        rows += _rows("compaction", compaction.declared_policy(lake.settings, name, properties, {}))
        rows += _rows("erasure", [watching.declared(lake.settings, name)])
        quarantine = lake.settings.quarantine
        rows.append(PolicyValue("quarantine", "expired_files", quarantine.expired_files, "quarantine"))
        if properties.get("gc.enabled", "true").lower() == "false":
            rows.append(PolicyValue("retention", "gc.enabled", "false: no file may be deleted", "table property"))
        return rows


def _rows(policy: str, declared: list[Declared]) -> list[PolicyValue]:
    return [PolicyValue(policy, value.name, _text(value.value), value.source) for value in declared]


def _text(value: object) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
