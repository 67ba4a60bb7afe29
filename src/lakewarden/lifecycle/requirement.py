"""What must still be so when an action runs: checked right before it, and asserted again by its commit.

Each can say what broke it. It is asked with the action at hand, whose files are loaded then.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from lakewarden.quantities import SnapshotId

if TYPE_CHECKING:
    from lakewarden.lifecycle.ground import Reader
    from lakewarden.lifecycle.plan import Action


@dataclass(frozen=True)
class TableIs:
    """The table of this name is still the table that was planned for, not another one made since."""

    table: str
    uuid: str
    kind: Literal["table"] = "table"

    def broken(self, lake: Reader, action: Action) -> str | None:
        """What moved, in words, or nothing where the requirement holds."""
        found = lake.tables.uuid(self.table)
        if found == self.uuid:
            return None
        return f"{self.table} was table {self.uuid} and " + (f"is now {found}" if found else "no longer exists")


@dataclass(frozen=True)
class RefAt:
    """A branch or tag is still where it was; `snapshot=None` says that it does not exist."""

    table: str
    ref: str
    snapshot: SnapshotId | None
    kind: Literal["ref"] = "ref"

    def broken(self, lake: Reader, action: Action) -> str | None:
        """What moved from where to where, or nothing where the requirement holds."""
        found = lake.tables.ref(self.table, self.ref)
        if found == self.snapshot:
            return None
        if self.snapshot is None:
            return f"ref {self.ref} of {self.table} did not exist and is now at {found}"
        if found is None:
            return f"ref {self.ref} of {self.table} was at {self.snapshot} and no longer exists"
        return f"ref {self.ref} of {self.table} moved from {self.snapshot} to {found}"


@dataclass(frozen=True)
class LayoutIs:
    """A table's current schema, partition spec and sort order are still those that were planned for."""

    table: str
    schema: int
    spec: int
    order: int
    kind: Literal["layout"] = "layout"

    def broken(self, lake: Reader, action: Action) -> str | None:
        """Which of them changed, or nothing where the requirement holds."""
        metadata = lake.tables.load(self.table).metadata
        found = {
            "schema": (self.schema, metadata.current_schema_id),
            "partition spec": (self.spec, metadata.default_spec_id),
            "sort order": (self.order, metadata.default_sort_order_id),
        }
        changed = [f"{what} was {was} and is now {now}" for what, (was, now) in found.items() if was != now]
        return f"{self.table} changed: its {', its '.join(changed)}" if changed else None


@dataclass(frozen=True)
class SnapshotKept:
    """A snapshot that the action reads still exists, whatever refs have moved to."""

    table: str
    snapshot: SnapshotId
    kind: Literal["snapshot"] = "snapshot"

    def broken(self, lake: Reader, action: Action) -> str | None:
        """That it is gone, or nothing where the requirement holds."""
        if lake.tables.load(self.table).snapshot_by_id(self.snapshot) is not None:
            return None
        return f"snapshot {self.snapshot} of {self.table} no longer exists"
