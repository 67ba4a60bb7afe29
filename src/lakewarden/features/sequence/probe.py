"""The doctor's check of the operational database."""

from __future__ import annotations

from collections.abc import Sequence

from lakewarden.config import SequenceSettings
from lakewarden.errors import LakewardenError
from lakewarden.features.sequence.connection import Reading
from lakewarden.features.sequence.target import look
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
                found = list(look(connection, names))
                place, is_read_only = connection.database, connection.is_read_only_server
        except LakewardenError as error:
            return [Check(_PART, "failed", error.message, error.hint)]
        problems = [
            Check(f"{_PART} table {each.name}", "failed", each.error.message, each.error.hint)
            for each in found
            if each.error
        ]
        if is_read_only:
            replica = "sequence stats and forecast work, sequence maintain needs the primary."
            return [Check(_PART, "warning", f"{place} is on a read-only server", replica), *problems]
        return [Check(_PART, "ok", f"{place}, {len(names) - len(problems)} tables can be maintained"), *problems]
