"""Expires snapshots and tags in one commit, all or none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakewarden.engine.catalog.positions import position_updates
from lakewarden.engine.catalog.snapshot_removal import expiry_updates, still_needed
from lakewarden.engine.commit.change import Change
from lakewarden.engine.commit.lost_refs import find_lost_refs
from lakewarden.engine.commit.procedures import Procedures
from lakewarden.engine.commit.publish import Attempt, at_refs
from lakewarden.errors import StalePlan

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from lakewarden.engine.commit.change import Desk
    from lakewarden.engine.spark.session import Spark


@dataclass(frozen=True)
class Expiry(Change[None]):
    """Snapshots to expire, and tags with their snapshots; refused if another ref points to one of them."""

    snapshots: tuple[int, ...]
    tags: Mapping[str, int] = field(default_factory=dict)
    metadata_files: tuple[str, ...] = ()
    """Old metadata files that will be deleted: their entries are dropped from the metadata log."""
    check: Callable[[Table], None] = field(default=lambda table: None, repr=False)
    """Called before each attempt, to check what else needs the snapshots."""

    def publish(self, desk: Desk) -> None:

        def attempt(table: Table) -> Attempt | None:
            metadata = table.metadata
            refs = {name: ref.snapshot_id for name, ref in metadata.refs.items()}
            needed = still_needed(metadata, self.snapshots, self.tags)
            if needed:
                raise StalePlan(f"the plan is stale: {'; '.join(needed)}", "Nothing was expired. Plan again.")
            self.check(table)
            updates = expiry_updates(table, self.snapshots, tuple(self.tags), metadata_files=self.metadata_files)
            if updates:
                updates = (*updates, *position_updates(table, self.snapshots))
            return Attempt(at_refs(self.uuid, refs), updates) if updates else None

        desk.publisher.publish(self.table, self.uuid, attempt)
        _restore_lost_refs(desk, self)

    def publish_through_spark(self, desk: Desk, spark: Spark) -> None:
        procedures = Procedures(desk.tables, spark, desk.fence)
        procedures.expire_snapshots(self.table, self.snapshots, self.tags, self.check)


def _restore_lost_refs(desk: Desk, change: Expiry) -> None:
    """Undo an expiry that removed a ref which was created at the same moment."""
    found = find_lost_refs(desk.tables.load(change.table), change.snapshots, change.tags)
    if found is None:
        return

    def attempt(table: Table) -> Attempt | None:
        updates = found.updates(table)
        return Attempt(at_refs(change.uuid, dict.fromkeys(found.lost_refs(table))), updates) if updates else None

    desk.publisher.publish(change.table, change.uuid, attempt)
    raise StalePlan(
        f"the plan is stale: {'; '.join(found.says)}, which was to expire",
        "Everything that had expired was restored. Plan again.",
    )
