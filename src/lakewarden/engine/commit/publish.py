"""Publishing: one `commit_table` call with explicit requirements, retried until it lands or is refused.

A commit that loses to an unrelated change is retried on the new head. Files written for a failed attempt are deleted
before the next one. The module of each kind of change builds the attempts.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from lakewarden.engine.base.collector import paused
from lakewarden.engine.base.faults import first_line, is_refusal, translate, translating
from lakewarden.engine.base.file_naming import naming
from lakewarden.engine.base.route import Route, route_of_manifests
from lakewarden.engine.base.support import refuse_unsupported
from lakewarden.engine.catalog.tables import Tables
from lakewarden.errors import CatalogBusy, CatalogUnavailable, CommitRefused, LakewardenError, StalePlan
from lakewarden.lifecycle.basics import PUBLISH, Fence, Stamp
from lakewarden.lifecycle.failpoints import reach
from lakewarden.lifecycle.interrupts import deferred

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.refs import SnapshotRef
    from pyiceberg.table.update import TableRequirement, TableUpdate

ATTEMPTS = 12


@dataclass
class Attempt:
    """One attempt: its requirements and updates, and how to delete what was written for it."""

    requires: tuple[TableRequirement, ...]
    updates: tuple[TableUpdate, ...]
    discard: Callable[[], None] = lambda: None
    snapshot: int | None = None


class Publisher:
    """Sends attempts to a table's catalog, under an action's fence and stamp."""

    def __init__(self, tables: Tables, fence: Fence, stamp: Stamp, sleep: Callable[[float], None] = time.sleep) -> None:
        self._tables = tables
        self._fence = fence
        self._stamp = stamp
        self._sleep = sleep

    def publish(self, name: str, uuid: str, make: Callable[[Table], Attempt | None]) -> Attempt | None:
        """Retry until an attempt lands. Returns that attempt, or None if there was nothing to publish."""

        def load() -> Table:
            table = self._tables.load(name)
            check_identity(table, name, uuid)
            refuse_unsupported(table, name)
            return table

        return self.publish_on(name, load, make)

    def publish_on(
        self, name: str, load: Callable[[], Table], make: Callable[[Table], Attempt | None]
    ) -> Attempt | None:
        """The same for a table that `load` provides, such as one that is yet to be created."""
        from pyiceberg.exceptions import (
            CommitFailedException,
            CommitStateUnknownException,
            TableAlreadyExistsError,
        )

        for number in range(ATTEMPTS):
            attempt: Attempt | None = None
            is_sent = False
            try:
                table = load()
                attempt = make(table)
                if attempt is None:
                    return None
                reach("commit.ready")
                self._fence()
                reach("commit.fenced")
                is_sent = True
                with naming(self._stamp), deferred(), paused():  # interrupts wait for the result
                    table.catalog.commit_table(table, (*attempt.requires, *_unmoved(table)), attempt.updates)
                reach("commit.landed")
                return attempt
            except (CommitFailedException, TableAlreadyExistsError):
                # either a requirement no longer holds, or something unrelated changed: check again
                if self._is_there(name, attempt):
                    return attempt
            except CommitStateUnknownException as error:
                raise _unknown(name) from error
            except Exception as error:
                if not _passes(error, name):
                    if is_sent and _may_have_landed(error, name):
                        raise _unknown(name) from error  # keep its files: they may be in use
                    _take_back(attempt)
                    if is_sent and is_refusal(error):
                        raise CommitRefused(
                            f"{name}: the catalog refuses the commit: {first_line(error)}", "Nothing was written."
                        ) from error
                    with translating(f"table {name}"):
                        raise
            _take_back(attempt)
            self._wait(number)
        _take_back(make(load()))  # raises if a requirement no longer holds
        raise CommitRefused(
            f"{name}: {ATTEMPTS} commit attempts lost to other writers",
            "Nothing was written. Try again when there are fewer writers.",
        )

    def _is_there(self, name: str, attempt: Attempt | None) -> bool:
        """Whether a refused commit landed all the same: something between here and the catalog had sent it twice.

        If that cannot be determined, the files written for it may be in use.
        """
        made = attempt.snapshot if attempt else None
        if made is None:
            return False
        for number in range(ATTEMPTS):
            try:
                return self._tables.load(name).snapshot_by_id(made) is not None
            except Exception as error:
                if not _passes(error, name):
                    raise _unknown(name) from error
            self._wait(number)
        raise _unknown(name)

    def _wait(self, number: int) -> None:
        self._sleep(min(0.02 * 2**number, 1.0) * (0.5 + random.random()))


def ref_update(
    name: str, kind: str, snapshot: int, known: SnapshotRef | None, keep_ms: int | None = None
) -> TableUpdate:
    """Point a branch or tag at a snapshot. One that exists keeps its retention settings, unless `keep_ms` is given."""
    from pyiceberg.table.update import SetSnapshotRefUpdate

    settings = known.model_dump(exclude_none=True, by_alias=True) if known else {}
    age = {} if keep_ms is None else {"max-ref-age-ms": keep_ms}
    return SetSnapshotRefUpdate.model_validate(
        {**settings, **age, "ref-name": name, "type": kind, "snapshot-id": snapshot}
    )


def at_refs(uuid: str, refs: Mapping[str, int | None]) -> tuple[TableRequirement, ...]:
    """What the catalog itself must check: the table's UUID, and the snapshot of each of these refs."""
    from pyiceberg.table.update import AssertRefSnapshotId, AssertTableUUID

    asserted = [AssertRefSnapshotId.model_validate({"ref": r, "snapshot-id": s}) for r, s in refs.items()]
    return (AssertTableUUID.model_validate({"uuid": uuid}), *asserted)


def check_identity(table: Table, name: str, uuid: str) -> None:
    """Refuse as stale if another table has the name now."""
    if str(table.metadata.table_uuid) != uuid:
        raise StalePlan(
            f"the plan is stale: {name} was recreated: its UUID was {uuid} and is now {table.metadata.table_uuid}",
            "Nothing was written. Plan again.",
        )


def check_format(table: Table, name: str) -> None:
    """Refuse as stale if the table was upgraded since planning to a format whose manifests only Spark writes."""
    route = route_of_manifests(Route(PUBLISH), table)
    if route.needs_spark:
        raise StalePlan(f"the plan is stale: {name} is now in {route.because}", "Nothing was written. Plan again.")


@dataclass(frozen=True)
class _Unmoved:
    """Requires that the catalog still has the metadata that the updates were made for."""

    planned: TableMetadata

    def validate(self, base_metadata: TableMetadata | None) -> None:
        from pyiceberg.exceptions import CommitFailedException

        if base_metadata != self.planned:
            raise CommitFailedException("the table changed since it was read")


def _unmoved(table: Table) -> tuple[TableRequirement, ...]:
    """For catalogs where the client writes the metadata; a REST catalog checks requirements itself."""
    from pyiceberg.table import StagedTable

    is_new = isinstance(table, StagedTable)
    return (cast("TableRequirement", _Unmoved(table.metadata)),) if by_client(table) and not is_new else ()


def by_client(table: Table) -> bool:
    """Whether the client writes a table's metadata, as with SQL catalogs; with REST catalogs the server does."""
    from pyiceberg.catalog import MetastoreCatalog

    return isinstance(table.catalog, MetastoreCatalog)


def _take_back(attempt: Attempt | None) -> None:
    if attempt is not None:
        attempt.discard()


def _passes(error: Exception, table: str) -> bool:
    """Whether the error is temporary: another process has locked the catalog's database."""
    known = error if isinstance(error, LakewardenError) else translate(error, f"table {table}")
    return isinstance(known, CatalogBusy)


def _may_have_landed(error: Exception, table: str) -> bool:
    """Whether the response was lost: a database that refuses says so, but a broken connection may hide a success."""
    unreadable = type(error).__module__.startswith("pydantic")  # an invalid response
    lost = unreadable or (isinstance(translate(error, table), CatalogUnavailable) and not is_refusal(error))
    is_database = type(error).__module__.startswith("sqlalchemy")
    return bool(getattr(error, "connection_invalidated", False)) if is_database else lost


def _unknown(table: str) -> CatalogUnavailable:
    return CatalogUnavailable(
        f"{table}: the catalog did not confirm whether the commit landed",
        "lakewarden operation resume ID checks whether it did, and continues.",
    )
