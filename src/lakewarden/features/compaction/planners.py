"""Compaction's parts of upkeep: manifests are merged, and small files rewritten into larger ones."""

from __future__ import annotations

from collections.abc import Mapping

from lakewarden.features.compaction import compacting, manifest_merge
from lakewarden.features.compaction.survey import Survey, survey
from lakewarden.features.shared.planner import Place, Planner, TableUpkeep
from lakewarden.lifecycle.plan import Plan

_COMPACTION, _COMPACT, _MERGE = "compaction", "compaction compact", "compaction manifests"


def _surveyed(on: TableUpkeep) -> Survey:
    return survey(on.lake, on.name, {}, table=on.table)


def _plan_files(on: TableUpkeep) -> Plan:
    return on.planned(*compacting.actions_for(on.once(_surveyed)))


def _plan_manifests(on: TableUpkeep) -> Plan:
    return on.planned(*manifest_merge.actions_for(on.lake, on.name, _about_to_come(on)))


def _about_to_come(on: TableUpkeep) -> int:
    """How many manifests the compaction of this run will add: one for each partition spec that it writes files of."""
    if _COMPACTION not in on.round.only or not _plan_files(on).actions:
        return 0
    return len({file.partition[0] for bin in on.once(_surveyed).packing.bins for file in bin.files})


def _files(on: TableUpkeep) -> Mapping[str, int]:
    found = on.once(_surveyed)
    files, packing = found.files, found.packing
    return {
        "files": len(files.data),
        "small_files": sum(file.bytes < found.policy.small for file in files.data),
        "delete_files": len({delete.path for delete in files.deletes}),
        "files_saved": max(packing.files - packing.files_after(found.policy), 0),
        "rows": sum(file.rows for file in files.data),
        "rows_masked": sum(files.masked(file) for file in files.data if file.deletes),
        "rows_dropped": sum(bin.masked for bin in packing.bins),
        "unsafe_files": sum(file.lacks_nan_counts for bin in packing.bins for file in bin.files),
    }


def _manifests(on: TableUpkeep) -> Mapping[str, int]:
    found = on.once(_surveyed).files.manifests
    return {
        "manifests": len(found),
        "manifests_saved": sum(len(bundle) - 1 for bundle in manifest_merge.bundles(found)),
    }


_FILES = (compacting.COMPACT, compacting.SORT)
PLANNERS = (
    Planner("manifests", Place.METADATA, (manifest_merge.MERGE,), manifest_merge, _plan_manifests, _MERGE, _manifests),
    Planner(_COMPACTION, Place.REWRITE, _FILES, compacting, _plan_files, _COMPACT, _files),
)
