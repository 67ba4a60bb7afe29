"""Commits of table metadata outside Spark: refs, rewritten files, merged manifests, expired versions.

One change is one `commit_table` call with explicit requirements: the table's uuid, and for every ref
that is touched where it must still be. One whose requirements no longer hold is refused as stale. Nothing that
somebody else made in between is ever overwritten. The fence is looked at right before each attempt, so a runner
whose lease was taken over publishes nothing. How attempts are sent, and sent again, is in `publish.py`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from lakewarden.engine import cleansing, masking
from lakewarden.engine.changes import (
    Cleansed,
    Cleansing,
    Expiry,
    ManifestMerge,
    Mask,
    RefChange,
    Rewrite,
    Rewritten,
    RewrittenGroup,
    SetSchema,
    ShortenedLog,
    Unmask,
)
from lakewarden.engine.draft import Draft
from lakewarden.engine.expiry import expiry_updates, still_needed
from lakewarden.engine.live_files import Files, SnapshotFiles
from lakewarden.engine.manifests import Manifests
from lakewarden.engine.metadata_log import dead_entries, drop_entries, shorten
from lakewarden.engine.publish import Attempt, Publisher, at_refs, by_client, check_format
from lakewarden.engine.tables import Tables
from lakewarden.engine.taken_along import taken_along
from lakewarden.errors import StalePlan
from lakewarden.lifecycle.ground import Fence, Stamp
from lakewarden.lifecycle.plan import PUBLISH

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.update import TableRequirement, TableUpdate

    from lakewarden.engine.live_files import DeleteFile, LiveFile


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
        self._stamp = stamp
        self._reader = reader
        self._publisher = Publisher(tables, fence, stamp, sleep)

    def refs(self, change: RefChange) -> None:
        def attempt(table: Table) -> Attempt:
            check_expected(table, change)
            requires = (*at_refs(change.uuid, change.expects), *_at_layout(change.schema))
            return Attempt(requires, _ref_updates(table, change))

        self._publisher.publish(change.table, change.uuid, attempt)

    def rewrite(self, change: Rewrite, discard: Callable[[RewrittenGroup], None]) -> Rewritten:
        """Put new files in the place of old ones; outputs of groups that are sent back are discarded before."""
        left = {group.number: group for group in change.groups}
        landed: list[Rewritten] = []

        def attempt(table: Table) -> Attempt | None:
            check_format(table, change.table)
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
            return Attempt(
                at_refs(change.uuid, {change.branch: head.snapshot_id}), updates, draft.discard, draft.snapshot_id
            )

        if self._publisher.publish(change.table, change.uuid, attempt):
            return landed[0]
        return Rewritten(None, tuple(group.number for group in change.groups))

    def merge_manifests(self, change: ManifestMerge) -> int | None:
        """Write each bundle of manifests as one; bundles of which one is no longer there are left as they are."""
        made: list[int] = []

        def attempt(table: Table) -> Attempt | None:
            check_format(table, change.table)
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
            return Attempt(
                at_refs(change.uuid, {change.branch: head.snapshot_id}), updates, draft.discard, draft.snapshot_id
            )

        return made[0] if self._publisher.publish(change.table, change.uuid, attempt) else None

    def expire(self, change: Expiry, check: Callable[[Table], None]) -> None:
        """Let snapshots and tags go, all of them or none; `check` looks right before what else needs them."""

        def attempt(table: Table) -> Attempt | None:
            metadata = table.metadata
            refs = {name: ref.snapshot_id for name, ref in metadata.refs.items()}
            needed = still_needed(metadata, change.snapshots, change.tags)
            if needed:
                raise StalePlan(f"the plan is stale: {'; '.join(needed)}", "Nothing was expired. Plan again.")
            check(table)
            updates = expiry_updates(table, change.snapshots, tuple(change.tags), metadata_files=change.metadata_files)
            return Attempt(at_refs(change.uuid, refs), updates) if updates else None

        self._publisher.publish(change.table, change.uuid, attempt)
        self._give_back(change)

    def shorten_log(self, change: ShortenedLog) -> int:
        """Drop entries of the metadata log; answers with how many the catalog keeps all the same."""

        def attempt(table: Table) -> Attempt | None:
            dead = dead_entries(table, change.files)
            return Attempt(at_refs(change.uuid, {}), (drop_entries(dead),)) if dead else None

        if by_client(self._tables.load(change.table)):
            self._publisher.publish(change.table, change.uuid, attempt)
        else:
            shorten(lambda: self._tables.load(change.table), self.refs, change, PUBLISH)
        return len(dead_entries(self._tables.load(change.table), change.files))

    def cleanse(self, change: Cleansing, about_to: Callable[[Sequence[str]], None]) -> Cleansed | None:
        """Replace files in every version at once, and let the versions that had them go; None where none has them."""
        return cleansing.cleanse(self._publisher, self._stamp, self._reader, change, about_to)

    def mask(self, change: Mask) -> int | None:
        """Add position deletes to a branch; answers with the new snapshot. Refused where an input was changed."""
        return masking.mask(self._publisher, self._stamp, self._reader, change)

    def unmask(self, change: Unmask) -> int:
        """Take deletes away wherever they are live; answers with how many branches had them."""
        return masking.unmask(self._publisher, self._stamp, self._reader, change)

    def _give_back(self, change: Expiry) -> None:
        """Undo an expiry that took a name along which somebody had made in the very moment."""
        found = taken_along(self._tables.load(change.table), change.snapshots, change.tags)
        if found is None:
            return

        def attempt(table: Table) -> Attempt | None:
            updates = found.updates(table)
            return Attempt(at_refs(change.uuid, dict.fromkeys(found.lost_refs(table))), updates) if updates else None

        self._publisher.publish(change.table, change.uuid, attempt)
        raise StalePlan(
            f"the plan is stale: {'; '.join(found.says)}, which was to expire",
            "Everything that had expired is back. Plan again.",
        )


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
    if change.schema is not None and table.metadata.current_schema_id != change.schema.expects:
        now = table.metadata.current_schema_id
        moved.append(f"the schema of {change.table} was {change.schema.expects} and is now {now}")
    if moved:
        raise StalePlan(f"the plan is stale: {'; '.join(moved)}", "Nothing was written. Plan again.")


def _at_layout(schema: SetSchema | None) -> tuple[TableRequirement, ...]:
    """What the catalog itself must find where another schema becomes the current one."""
    from pyiceberg.table.update import AssertCurrentSchemaId, AssertDefaultSortOrderId, AssertDefaultSpecId

    if schema is None:
        return ()
    return (
        AssertCurrentSchemaId.model_validate({"current-schema-id": schema.expects}),
        AssertDefaultSpecId.model_validate({"default-spec-id": schema.spec}),
        AssertDefaultSortOrderId.model_validate({"default-sort-order-id": schema.order}),
    )


def _ref_updates(table: Table, change: RefChange) -> tuple[TableUpdate, ...]:
    from pyiceberg.table.update import (
        RemovePropertiesUpdate,
        RemoveSnapshotRefUpdate,
        SetCurrentSchemaUpdate,
        SetPropertiesUpdate,
        SetSnapshotRefUpdate,
    )

    updates: list[TableUpdate] = []
    if change.schema is not None:
        updates.append(SetCurrentSchemaUpdate.model_validate({"schema-id": change.schema.to}))
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
