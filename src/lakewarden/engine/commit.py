"""The only module that writes table metadata outside Spark.

One change is one `commit_table` call with explicit requirements: the table's uuid, and for every ref
that is touched where it must still be. A commit that loses a race against a change elsewhere in the
table is tried again on the new head; one whose requirements no longer hold is refused as stale.
Nothing that somebody else made in between is ever overwritten. The fence is looked at right before
each attempt, so a runner whose lease was taken over publishes nothing.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol, cast

from lakewarden.engine.faults import told, translate
from lakewarden.engine.tables import Tables
from lakewarden.errors import CatalogBusy, CatalogUnavailable, CommitRefused, LakewardenError, StalePlan
from lakewarden.lifecycle.failpoints import reach
from lakewarden.lifecycle.ground import Fence
from lakewarden.lifecycle.plan import PUBLISH, SPARK_SQL

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableRequirement, TableUpdate

MAIN = "main"
ATTEMPTS = 12


@dataclass(frozen=True)
class SetRef:
    """A branch or tag that is to stand at a snapshot; a branch that exists keeps its own settings."""

    name: str
    kind: Literal["branch", "tag"]
    snapshot: int
    keep_ms: int | None = None


@dataclass(frozen=True)
class RefChange:
    """What is to become of a table's refs, all at once, and where each of them must be for it."""

    table: str
    uuid: str
    expects: Mapping[str, int | None]
    set: tuple[SetRef, ...] = ()
    remove: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    drop_properties: tuple[str, ...] = ()
    route: str = PUBLISH


class Commits(Protocol):
    """What an action can publish with."""

    def refs(self, change: RefChange) -> None:
        """Change a table's branches, tags and properties."""
        ...


class DirectCommits:
    """Publishes through PyIceberg's catalogs, without a JVM."""

    def __init__(self, tables: Tables, fence: Fence, sleep: Callable[[float], None] = time.sleep) -> None:
        self._tables = tables
        self._fence = fence
        self._sleep = sleep

    def refs(self, change: RefChange) -> None:
        self._publish(change, lambda table: _ref_updates(table, change))

    def _publish(self, change: RefChange, updates: Callable[[Table], tuple[TableUpdate, ...]]) -> None:
        from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException

        for attempt in range(ATTEMPTS):
            try:
                table = self._tables.load(change.table)
                check_expected(table, change)
                reach("commit.ready")
                self._fence()
                reach("commit.fenced")
                table.catalog.commit_table(table, (*requirements(change), *_unmoved(table)), updates(table))
                reach("commit.landed")
                return
            except CommitFailedException:
                pass  # look again: either what we require moved, or only something beside it
            except CommitStateUnknownException as error:
                raise _unknown(change.table) from error
            except Exception as error:
                if not _passes(error, change.table):
                    with told(f"table {change.table}"):
                        raise
            self._sleep(min(0.02 * 2**attempt, 1.0) * (0.5 + random.random()))
        check_expected(self._tables.load(change.table), change)
        raise CommitRefused(
            f"{change.table}: {ATTEMPTS} attempts to commit lost against other writers",
            "Nothing was written. Try again when fewer write to it.",
        )


def requirements(change: RefChange) -> tuple[TableRequirement, ...]:
    """What the catalog itself must find to be so."""
    from pyiceberg.table.update import AssertRefSnapshotId, AssertTableUUID

    refs = [AssertRefSnapshotId.model_validate({"ref": r, "snapshot-id": s}) for r, s in change.expects.items()]
    return (AssertTableUUID.model_validate({"uuid": change.uuid}), *refs)


@dataclass(frozen=True)
class _Unmoved:
    """Requires that the catalog still has the very metadata that the updates were made for."""

    planned: TableMetadata

    def validate(self, base_metadata: TableMetadata | None) -> None:
        from pyiceberg.exceptions import CommitFailedException

        if base_metadata != self.planned:
            raise CommitFailedException("the table was changed since it was looked at")


def _unmoved(table: Table) -> tuple[TableRequirement, ...]:
    """For catalogs whose metadata the client writes; a REST catalog checks requirements itself."""
    from pyiceberg.catalog import MetastoreCatalog

    return (cast("TableRequirement", _Unmoved(table.metadata)),) if isinstance(table.catalog, MetastoreCatalog) else ()


def check_expected(table: Table, change: RefChange) -> None:
    """Refuse as stale, saying what moved from where to where."""
    moved = []
    if str(table.metadata.table_uuid) != change.uuid:
        moved.append(f"{change.table} was table {change.uuid} and is now {table.metadata.table_uuid}")
    for ref, expected in change.expects.items():
        found = table.metadata.refs.get(ref)
        at = found.snapshot_id if found else None
        if at != expected:
            moved.append(f"ref {ref} of {change.table} moved from {expected or 'nowhere'} to {at or 'nowhere'}")
    if moved:
        raise StalePlan(f"the plan is stale: {'; '.join(moved)}", "Nothing was written. Plan again.")


def _ref_updates(table: Table, change: RefChange) -> tuple[TableUpdate, ...]:
    from pyiceberg.table.update import (
        RemovePropertiesUpdate,
        RemoveSnapshotRefUpdate,
        SetPropertiesUpdate,
        SetSnapshotRefUpdate,
    )

    updates: list[TableUpdate] = []
    for ref in change.set:
        kept = table.metadata.refs.get(ref.name)
        settings = {
            "ref-name": ref.name,
            "type": ref.kind,
            "snapshot-id": ref.snapshot,
            "min-snapshots-to-keep": kept.min_snapshots_to_keep if kept else None,
            "max-snapshot-age-ms": kept.max_snapshot_age_ms if kept else None,
            "max-ref-age-ms": ref.keep_ms if ref.keep_ms is not None else (kept.max_ref_age_ms if kept else None),
        }
        updates.append(
            SetSnapshotRefUpdate.model_validate({key: value for key, value in settings.items() if value is not None})
        )
    updates += [RemoveSnapshotRefUpdate.model_validate({"ref-name": name}) for name in change.remove]
    if change.properties:
        updates.append(SetPropertiesUpdate.model_validate({"updates": dict(change.properties)}))
    gone = [name for name in change.drop_properties if name in table.metadata.properties]
    if gone:
        updates.append(RemovePropertiesUpdate.model_validate({"removals": gone}))
    return tuple(updates)


def _passes(error: Exception, table: str) -> bool:
    """Whether it is worth waiting for: another process holds the catalog's database for a moment."""
    known = error if isinstance(error, LakewardenError) else translate(error, f"table {table}")
    return isinstance(known, CatalogBusy)


def _unknown(table: str) -> CatalogUnavailable:
    return CatalogUnavailable(
        f"{table}: the catalog did not say whether the commit landed",
        "lakewarden operation resume ID looks whether it did, and goes on from there.",
    )


class RoutedCommits:
    """Sends each table's change by its route: directly, or through Spark where nothing else can."""

    def __init__(
        self, direct: Commits, through_spark: Callable[[], Commits], needs_spark: Callable[[str], bool]
    ) -> None:
        self._direct = direct
        self._through_spark = through_spark
        self._needs_spark = needs_spark

    def refs(self, change: RefChange) -> None:
        needs_spark = self._needs_spark(change.table)
        if needs_spark != (change.route == SPARK_SQL):  # planned as one commit, it would now be several, or the reverse
            raise StalePlan(
                f"the plan is stale: {change.table} was to be changed by {change.route}, and its format is another now",
                "Nothing was written. Plan again.",
            )
        (self._through_spark() if needs_spark else self._direct).refs(change)
