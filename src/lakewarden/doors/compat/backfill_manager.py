"""`BackfillManager` and `Migrator`: backfills and migrations under names that scripts use; answers are dicts.

Migrator(warden).apply_migrations(target_db="shop")
manager = BackfillManager(warden)
manager.run_backfill(database="shop", version="003", max_batches=10)
manager.get_status(database="shop", version="003")["rows_processed"]
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from lakewarden.errors import Interrupted, LakewardenError
from lakewarden.warden import Warden

Status = dict[str, Any]


class BackfillError(LakewardenError):
    """A backfill that cannot be run, found or steered; the error behind it is its cause."""

    code = "backfill"


class Migrator:
    """Applies migrations."""

    def __init__(self, warden: Warden | str | Path | None = None) -> None:
        """Use a warden, or open one by the path of its configuration."""
        self.warden = warden if isinstance(warden, Warden) else Warden.open(warden)

    def apply_migrations(self, target_db: str) -> list[str]:
        """Apply the migrations that a database does not have yet; answers with their versions.

        Backfills of their versions are pending from then on; those with `run_on_startup` are run.
        """
        before = {row.version for row in self._applied(target_db)}
        self.warden.migration.apply(database=target_db).apply()
        return [row.version for row in self._applied(target_db) if row.version not in before]

    def _applied(self, database: str) -> list[Any]:
        return [row for row in self.warden.migration.list(database=database) if row.applied_at is not None]


class BackfillManager:
    """Runs and steers backfills. Everything raises `BackfillError`."""

    def __init__(self, warden: Warden | str | Path | None = None) -> None:
        """Use a warden, or open one by the path of its configuration."""
        self.warden = warden if isinstance(warden, Warden) else Warden.open(warden)

    def register_pending_backfills(self, database: str) -> list[str]:
        """Register the backfills of the configured folders; answers with the ids of those that are new."""
        with _as_backfill_errors():
            rows = self.warden.backfill.register(database=database)
            return [row.backfill_id for row in rows if row.is_new]

    def run_backfill(
        self, database: str, version: str | int, max_batches: int | None = None, again: bool = False
    ) -> Status:
        """Run a backfill from where its target is; paused or done, answers with its status."""
        with _as_backfill_errors():
            planned = self.warden.backfill.run(
                database=database, version=str(version), max_batches=max_batches, again=again
            )
            try:
                planned.apply()
            except Interrupted:
                if self.get_status(database, version)["status"] != "paused":
                    raise
            return self.get_status(database, version)

    def get_status(self, database: str, version: str | int) -> Status:
        """How far a backfill is."""
        with _as_backfill_errors():
            return asdict(self.warden.backfill.status(database=database, version=str(version)))

    def list_backfills(self, database: str | None = None, status: str | None = None) -> list[Status]:
        """The status of all registered backfills, or of those of a database or in a state."""
        with _as_backfill_errors():
            rows = self.warden.backfill.list(database=database, status=status)
            return [self.get_status(f"{row.lake}.{row.db_name}", row.migration_version) for row in rows]

    def pause_backfill(self, database: str, version: str | int) -> Status:
        """Ask a backfill to pause, in whatever process it runs."""
        with _as_backfill_errors():
            self.warden.backfill.pause(database=database, version=str(version))
            return self.get_status(database, version)

    def resume_backfill(self, database: str, version: str | int, max_batches: int | None = None) -> Status:
        """Continue a backfill that is paused or has failed, to its end or for so many batches."""
        with _as_backfill_errors():
            self.warden.backfill.resume(database=database, version=str(version), max_batches=max_batches)
            return self.get_status(database, version)


@contextmanager
def _as_backfill_errors() -> Iterator[None]:
    try:
        yield
    except BackfillError:
        raise
    except LakewardenError as error:
        raise BackfillError(error.message, error.hint) from error
