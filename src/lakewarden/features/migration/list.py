"""`migration list`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from lakewarden.features.backfill.registration import Database, place_of
from lakewarden.features.migration.files import all_migrations
from lakewarden.features.migration.record import applied
from lakewarden.lifecycle.ground import Reader
from lakewarden.lifecycle.request import Question


@dataclass(frozen=True)
class MigrationRow:
    """A migration of a database; `changed` if its file differs from what was applied."""

    version: str
    name: str
    status: Literal["pending", "started", "applied", "changed"]
    statements: int
    applied_at: datetime | None


class List(Question[list[MigrationRow]]):
    """List the migrations in the configured folders, and which of them a database has."""

    nothing = "No migrations in the configured folders."

    database: Database

    def ask(self, lake: Reader) -> list[MigrationRow]:
        place, rows = place_of(lake, self.database), []
        for migration in all_migrations(lake):
            known = applied(lake, place, migration)
            is_changed = known is not None and known.digest != migration.digest
            state: Literal["pending", "started", "applied", "changed"] = "pending"
            if known is not None:
                state = "changed" if is_changed else "applied" if known.complete else "started"
            rows.append(
                MigrationRow(
                    version=migration.version,
                    name=migration.name,
                    status=state,
                    statements=len(migration.statements(place.namespace)),
                    applied_at=datetime.fromisoformat(known.at) if known and known.complete else None,
                )
            )
        return rows
