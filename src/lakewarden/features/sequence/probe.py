"""The doctor's check of the operational database."""

from __future__ import annotations

from collections.abc import Sequence

from lakewarden.config import SequenceSettings
from lakewarden.errors import LakewardenError
from lakewarden.features.sequence.connection import Reading
from lakewarden.features.sequence.partitions import read_table
from lakewarden.lifecycle.basics import Check

_PART = "database"


class DatabaseProbe:
    """Looks at the server, and at every configured table."""

    def __init__(self, sequences: SequenceSettings) -> None:
        self._sequences = sequences

    def __call__(self) -> Sequence[Check]:
        names = list(self._sequences.tables)
        try:
            with Reading(self._sequences) as connection:
                problems = [check for name in names for check in _problems(connection, name)]
                place, is_read_only = connection.database, connection.is_read_only_server
        except LakewardenError as error:
            return [Check(_PART, "failed", error.message, error.hint)]
        if is_read_only:
            replica = "sequence stats and forecast work, sequence maintain needs the primary."
            return [Check(_PART, "warning", f"{place} is on a read-only server", replica), *problems]
        return [Check(_PART, "ok", f"{place}, {len(names) - len(problems)} tables can be maintained"), *problems]


def _problems(connection: Reading, name: str) -> list[Check]:
    """Why a table cannot be maintained."""
    try:
        read_table(connection, name)
    except LakewardenError as error:
        return [Check(f"{_PART} table {name}", "failed", error.message, error.hint)]
    return []
