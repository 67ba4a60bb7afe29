"""Plans and applies the merging of small manifests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lakewarden.engine.base.route import route_of_manifests
from lakewarden.engine.catalog.snapshots import MAIN, notes_of
from lakewarden.engine.commit.merged_manifests import ManifestMerge
from lakewarden.lifecycle.action import Action, Estimate, Outcome
from lakewarden.lifecycle.basics import SPARK_SQL
from lakewarden.lifecycle.planned_files import FileList, PlannedFile
from lakewarden.lifecycle.requirement import TableIs, table_lease

if TYPE_CHECKING:
    from pyiceberg.manifest import ManifestFile

    from lakewarden.engine.base.table_name import TableName
    from lakewarden.lifecycle.ground import Reader, Writer

MERGE = "merge-manifests"
_TARGET = 8 << 20
_WORTH = 10  # manifests to merge into one: fewer cost readers next to nothing


def bundles(
    manifests: Sequence[ManifestFile], target: int = _TARGET, about_to_come: int = 0
) -> list[list[ManifestFile]]:
    """Groups of data manifests to merge: each of one partition spec and at most of the target size.

    If this run is about to add manifests, that many fewer are enough: otherwise the next run would merge again.
    """
    from pyiceberg.manifest import ManifestContent

    found: list[list[ManifestFile]] = []
    data = [manifest for manifest in manifests if manifest.content == ManifestContent.DATA]
    for spec in sorted({manifest.partition_spec_id for manifest in data}):
        current: list[ManifestFile] = []
        size = 0
        for manifest in (m for m in data if m.partition_spec_id == spec and m.manifest_length < target):
            if current and size + manifest.manifest_length > target:
                found.append(current)
                current, size = [], 0
            current.append(manifest)
            size += manifest.manifest_length
        found.append(current)
    return [bundle for bundle in found if len(bundle) >= max(_WORTH - about_to_come, 2)]


def actions_for(lake: Reader, name: TableName, about_to_come: int = 0) -> tuple[Action, ...]:
    """One action that merges all groups; none if no group is worth it."""
    table = lake.tables.load(name)
    route = route_of_manifests(lake.tables.route(table, name), table)
    files = lake.files.of(table, table.snapshot_by_name(MAIN))
    found = bundles(files.manifests, about_to_come=about_to_come)
    if not found:
        return ()
    target, uuid = str(name), str(table.metadata.table_uuid)
    listed = FileList.of(
        PlannedFile(manifest.manifest_path, manifest.manifest_length, "manifest", group)
        for group, bundle in enumerate(found)
        for manifest in bundle
    )
    return (
        Action(
            verb=MERGE,
            subject=target,
            lease=table_lease(uuid),
            says=f"merge {listed.count} manifests into {len(found)}",
            arguments={"uuid": uuid},
            requires=(TableIs(target, uuid),),
            estimate=Estimate(files=len(found), bytes=listed.bytes),
            files=listed,
            route=route.name,
            because=route.because,
        ),
    )


def holds(action: Action, lake: Reader) -> bool:
    """Whether no planned group is in use as a whole any more."""
    table = lake.tables.load(action.subject)
    used = {manifest.manifest_path for manifest in lake.files.of(table, table.snapshot_by_name(MAIN)).manifests}
    return not any(used.issuperset(bundle) for bundle in _bundles(action))


def apply(action: Action, lake: Writer) -> Outcome:
    if action.route == SPARK_SQL:
        done = lake.procedures.rewrite_manifests(action.subject)
        replaced, written = done.get("rewritten_manifests_count", 0), done.get("added_manifests_count", 0)
    else:
        change = ManifestMerge(action.subject, str(action.arguments["uuid"]), _bundles(action))
        made = lake.commits.publish(change)
        summary = {} if made is None else notes_of(lake.tables.load(action.subject).snapshot_by_id(made))
        replaced, written = summary.get("manifests-replaced", 0), summary.get("manifests-created", 0)
    return Outcome({"manifests_replaced": int(replaced), "manifests_written": int(written)})


def _bundles(action: Action) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(paths) for paths in action.files.groups().values())
