"""The only module that publishes table metadata outside Spark.

One change is one `commit_table` call with explicit requirements: the table's uuid, and for every ref
that is touched where it must still be. A commit that loses a race against a change elsewhere in the
table is tried again, planned anew against the new head; one whose requirements no longer hold is refused
as stale. Nothing that somebody else made in between is ever overwritten. The fence is looked at right
before each attempt, so a runner whose lease was taken over publishes nothing. What was written for an
attempt that never landed is removed before the next one.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from lakewarden.engine.changes import Expiry, ManifestMerge, RefChange, Rewrite, Rewritten, RewrittenGroup
from lakewarden.engine.draft import Draft
from lakewarden.engine.expiry import expiry_updates, still_needed
from lakewarden.engine.faults import first_line, is_refusal, told, translate
from lakewarden.engine.live_files import Files, SnapshotFiles
from lakewarden.engine.manifests import Manifests
from lakewarden.engine.ownership import naming
from lakewarden.engine.route import Route, route_of_manifests
from lakewarden.engine.tables import Tables
from lakewarden.engine.taken_along import taken_along
from lakewarden.errors import CatalogBusy, CatalogUnavailable, CommitRefused, LakewardenError, StalePlan
from lakewarden.lifecycle.failpoints import reach
from lakewarden.lifecycle.ground import Fence, Stamp
from lakewarden.lifecycle.plan import PUBLISH

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableRequirement, TableUpdate

    from lakewarden.engine.live_files import DeleteFile, LiveFile

ATTEMPTS = 12


@dataclass
class _Attempt:
    """What one attempt asks of the catalog, and how to take back what was written for it."""

    requires: tuple[TableRequirement, ...]
    updates: tuple[TableUpdate, ...]
    discard: Callable[[], None] = lambda: None
    snapshot: int | None = None


class DirectCommits:
    """Publishes through PyIceberg's catalogs, without a JVM."""

    def __init__(
        self,
        tables: Tables,
        fence: Fence,
        stamp: Stamp,
        reader: Manifests,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._tables = tables
        self._fence = fence
        self._stamp = stamp
        self._reader = reader
        self._sleep = sleep

    def refs(self, change: RefChange) -> None:
        def attempt(table: Table) -> _Attempt:
            check_expected(table, change)
            return _Attempt(_at(change.uuid, change.expects), _ref_updates(table, change))

        self._publish(change.table, change.uuid, attempt)

    def rewrite(self, change: Rewrite, discard: Callable[[RewrittenGroup], None]) -> Rewritten:
        """Put new files in the place of old ones; outputs of groups that are sent back are discarded before."""
        left = {group.number: group for group in change.groups}
        landed: list[Rewritten] = []

        def attempt(table: Table) -> _Attempt | None:
            _check_format(table, change.table)
            head = table.snapshot_by_name(change.branch)
            files = Files(self._reader).of(table, head)
            for group in [group for group in left.values() if not _unchanged(group, files)]:
                discard(left.pop(group.number))
            if not left or head is None:
                return None
            gone = {path for group in left.values() for path in group.inputs}
            dangling = files.dangling(gone)
            draft = Draft(table, head, self._stamp, self._reader)
            try:
                draft.remove(_by_manifest([*(files.by_path[path] for path in gone), *dangling]))
                draft.add([added for group in left.values() for added in group.added])
                updates = draft.updates(change.branch, change.facts)
            except BaseException:
                draft.discard()
                raise
            sent_back = tuple(group.number for group in change.groups if group.number not in left)
            landed[:] = [Rewritten(draft.snapshot_id, sent_back, len(dangling))]
            return _Attempt(
                _at(change.uuid, {change.branch: head.snapshot_id}), updates, draft.discard, draft.snapshot_id
            )

        if self._publish(change.table, change.uuid, attempt):
            return landed[0]
        return Rewritten(None, tuple(group.number for group in change.groups))

    def merge_manifests(self, change: ManifestMerge) -> int | None:
        """Write each bundle of manifests as one; bundles of which one is no longer there are left as they are."""
        made: list[int] = []

        def attempt(table: Table) -> _Attempt | None:
            _check_format(table, change.table)
            head = table.snapshot_by_name(change.branch)
            if head is None:
                return None
            there = {manifest.manifest_path: manifest for manifest in head.manifests(table.io)}
            bundles = [bundle for bundle in change.bundles if all(path in there for path in bundle)]
            if not bundles:
                return None
            draft = Draft(table, head, self._stamp, self._reader)
            try:
                for bundle in bundles:
                    draft.merge([there[path] for path in bundle])
                facts = {"manifests-created": str(len(bundles)), "manifests-replaced": str(sum(map(len, bundles)))}
                updates = draft.updates(change.branch, facts)
            except BaseException:
                draft.discard()
                raise
            made[:] = [draft.snapshot_id]
            return _Attempt(
                _at(change.uuid, {change.branch: head.snapshot_id}), updates, draft.discard, draft.snapshot_id
            )

        return made[0] if self._publish(change.table, change.uuid, attempt) else None

    def expire(self, change: Expiry, check: Callable[[Table], None]) -> None:
        """Let snapshots and tags go, all of them or none; `check` looks right before what else needs them."""

        def attempt(table: Table) -> _Attempt | None:
            metadata = table.metadata
            refs = {name: ref.snapshot_id for name, ref in metadata.refs.items()}
            needed = still_needed(metadata, change.snapshots, change.tags)
            if needed:
                raise StalePlan(f"the plan is stale: {'; '.join(needed)}", "Nothing was expired. Plan again.")
            check(table)
            updates = expiry_updates(table, change.snapshots, tuple(change.tags))
            return _Attempt(_at(change.uuid, refs), updates) if updates else None

        self._publish(change.table, change.uuid, attempt)
        self._give_back(change)

    def _give_back(self, change: Expiry) -> None:
        """Undo an expiry that took a name along which somebody had made in the very moment."""
        found = taken_along(self._tables.load(change.table), change.snapshots, change.tags)
        if found is None:
            return

        def attempt(table: Table) -> _Attempt | None:
            updates = found.updates(table)
            return _Attempt(_at(change.uuid, dict.fromkeys(found.lost_refs(table))), updates) if updates else None

        self._publish(change.table, change.uuid, attempt)
        raise StalePlan(
            f"the plan is stale: {'; '.join(found.says)}, which was to expire",
            "Everything that had expired is back. Plan again.",
        )

    def _is_there(self, name: str, attempt: _Attempt | None) -> bool:
        """Whether a commit landed that was refused: something on the way to the catalog had sent it twice."""
        made = attempt.snapshot if attempt else None
        return made is not None and self._tables.load(name).snapshot_by_id(made) is not None

    def _publish(self, name: str, uuid: str, make: Callable[[Table], _Attempt | None]) -> bool:
        """Try until it lands; whether there was anything to publish."""
        from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException

        for number in range(ATTEMPTS):
            attempt: _Attempt | None = None
            is_sent = False
            try:
                table = self._tables.load(name)
                check_identity(table, name, uuid)
                attempt = make(table)
                if attempt is None:
                    return False
                reach("commit.ready")
                self._fence()
                reach("commit.fenced")
                is_sent = True
                with naming(self._stamp):
                    table.catalog.commit_table(table, (*attempt.requires, *_unmoved(table)), attempt.updates)
                reach("commit.landed")
                return True
            except CommitFailedException:  # either what we require moved, or only something beside it: look again
                if self._is_there(name, attempt):
                    return True
            except CommitStateUnknownException as error:
                raise _unknown(name) from error
            except Exception as error:
                if not _passes(error, name):
                    if is_sent and _may_have_landed(error, name):
                        raise _unknown(name) from error  # what was written for it may be in use: it stays
                    _take_back(attempt)
                    if is_sent and is_refusal(error):
                        raise CommitRefused(
                            f"{name}: the catalog refuses the commit: {first_line(error)}", "Nothing was written."
                        ) from error
                    with told(f"table {name}"):
                        raise
            _take_back(attempt)
            self._sleep(min(0.02 * 2**number, 1.0) * (0.5 + random.random()))
        _take_back(make(self._tables.load(name)))  # says what moved, where something we require did
        raise CommitRefused(
            f"{name}: {ATTEMPTS} attempts to commit lost against other writers",
            "Nothing was written. Try again when fewer write to it.",
        )


def _take_back(attempt: _Attempt | None) -> None:
    if attempt is not None:
        attempt.discard()


def _unchanged(group: RewrittenGroup, files: SnapshotFiles) -> bool:
    """Whether each input is live, with exactly the deletes that it was read with."""
    return all(
        path in files.by_path and files.by_path[path].deletes_identity == deletes
        for path, deletes in group.inputs.items()
    )


def _by_manifest(files: Sequence[LiveFile | DeleteFile]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for file in files:
        found.setdefault(file.manifest, set()).add(file.path)
    return found


def _at(uuid: str, refs: Mapping[str, int | None]) -> tuple[TableRequirement, ...]:
    """What the catalog itself must find to be so: the table of this uuid, with each of these refs where it is."""
    from pyiceberg.table.update import AssertRefSnapshotId, AssertTableUUID

    asserted = [AssertRefSnapshotId.model_validate({"ref": r, "snapshot-id": s}) for r, s in refs.items()]
    return (AssertTableUUID.model_validate({"uuid": uuid}), *asserted)


def check_identity(table: Table, name: str, uuid: str) -> None:
    """Refuse as stale where another table has the name now."""
    if str(table.metadata.table_uuid) != uuid:
        raise StalePlan(
            f"the plan is stale: {name} was table {uuid} and is now {table.metadata.table_uuid}",
            "Nothing was written. Plan again.",
        )


def _check_format(table: Table, name: str) -> None:
    """Manifests of some formats are not ours to write, and a table may have become one of these since the plan."""
    route = route_of_manifests(Route(PUBLISH), table)
    if route.needs_spark:
        raise StalePlan(f"the plan is stale: {name} is now in {route.because}", "Nothing was written. Plan again.")


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


def _may_have_landed(error: Exception, table: str) -> bool:
    """Whether the answer was lost: a database that refuses says so, one whose connection breaks may have done it."""
    unreadable = type(error).__module__.startswith("pydantic")  # an answer of the catalog's that is none
    lost = unreadable or (isinstance(translate(error, table), CatalogUnavailable) and not is_refusal(error))
    is_database = type(error).__module__.startswith("sqlalchemy")
    return bool(getattr(error, "connection_invalidated", False)) if is_database else lost


def _unknown(table: str) -> CatalogUnavailable:
    return CatalogUnavailable(
        f"{table}: the catalog did not say whether the commit landed",
        "lakewarden operation resume ID looks whether it did, and goes on from there.",
    )
