"""Records what a purge did, as the evidence from which certificates are made. It holds no values."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from lakewarden.errors import LakewardenError
from lakewarden.features.erasure.requests.action_requests import record_evidence
from lakewarden.lifecycle.action import Action, Outcome
from lakewarden.lifecycle.failpoints import reach
from lakewarden.records.erasure import EvidenceKind

if TYPE_CHECKING:
    from lakewarden.engine.rows.redaction import Redaction
    from lakewarden.engine.storage.storage import StoredFiles
    from lakewarden.features.erasure.purging.intent import Intent, OldFile
    from lakewarden.lifecycle.ground import Writer
    from lakewarden.records.erasure import HiddenKey

NOTHING: dict[str, Any] = dict.fromkeys(
    (
        "tombstones_applied",
        "rows_dropped_by_tombstones",
        "files_rewritten",
        "bytes_with_rows",
        "refs_repointed",
        "snapshots_expired",
        "bytes_removed",
    ),
    0,
)


def record(
    action: Action,
    lake: Writer,
    requests: Sequence[str],
    keys: Sequence[HiddenKey],
    intent: Intent,
    stray: Sequence[OldFile],
    redaction: Redaction,
) -> Outcome:
    """Record what was done; returns the counts."""
    table = lake.tables.load(action.subject)
    storage = lake.storage(lake.tables.name(action.subject).lake)
    sizes, outside = storage.sizes(intent.new_files), _there(storage, intent.outside)
    now = {name: ref.snapshot_id for name, ref in table.metadata.refs.items()}
    there = {snapshot.snapshot_id for snapshot in table.metadata.snapshots}
    with_rows = {*intent.rows_dropped, *intent.rows_expired}
    moved = [ref for ref in intent.refs.values() if now.get(ref.name) not in (None, ref.before)]
    counts = {
        "tombstones_applied": sum(len(key.values) for key in keys),
        "rows_dropped_by_tombstones": sum(intent.rows_dropped.values()) + sum(intent.rows_expired.values()),
        "files_rewritten": len(intent.rows_dropped),
        "bytes_with_rows": sum(f.bytes for p, f in intent.files.items() if p in with_rows),
        "refs_repointed": len(moved),
        "snapshots_expired": len(intent.snapshots - there),
        "bytes_removed": sum(file.bytes for file in (*intent.files.values(), *stray)),
    }
    document = {
        "refs": [
            {
                "name": ref.name,
                "kind": ref.kind,
                "before": ref.before,
                "after": now.get(ref.name),
                "rows": ref.rows,
                "by_request": dict(ref.by_request),
            }
            for ref in moved
        ],
        "by_request": {
            request: {
                "rows": sum(intent.shares.get(request, {}).values()),
                "values": sorted(intent.occurred.get(request, ())),
            }
            for request in requests
        },
        "snapshots_expired": counts["snapshots_expired"],
        "files": [
            {**vars(file), "path": redaction.path(file.path), "rows": intent.rows_of(file.path)}
            for file in (*intent.files.values(), *stray)
        ],
        "copies_removed": len(stray),
        "outside": [
            {**vars(file), "path": redaction.path(file.path), "by_request": intent.rows_of(file.path)}
            for file in intent.outside.values()
            if file.path in outside  # otherwise its owner has removed it, or its path was redacted
        ],
        "new_files": [
            {**vars(file), "path": redaction.path(file.path), "instead_of": redaction.path(file.instead_of)}
            for file in intent.new_files.values()
            if sizes[file.path] is not None  # otherwise from an attempt that was never committed
        ],
        "counts": counts,
        "metadata_before": redaction.path(intent.metadata_before or table.metadata_location),
        "metadata_after": redaction.path(table.metadata_location),
        "route": action.route,
    }
    record_evidence(lake, action, EvidenceKind.PURGED, requests, document)
    reach("purge.recorded")
    return Outcome(counts)


def _there(storage: StoredFiles, paths: Collection[str]) -> Collection[str]:
    """The files outside that exist; all of them if that is unknown, such as in a bucket without access."""
    try:
        return {path for path, size in storage.sizes(paths).items() if size is not None}
    except LakewardenError:
        return paths
