"""The part of a purge that concerns one request: its certificate must not list rows of other requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from lakewarden.records.erasure import Evidence


def part_for(run: Evidence, request: str) -> Evidence:
    """The evidence of a run, narrowed to one request: its rows, and the branches, tags and files that had them.

    Files without rows, such as metadata, may mention any request and are kept if it had rows at all. Expired versions
    are those of the whole run. Evidence that is not split by request is returned unchanged.
    """
    own = run.document.get("by_request", {}).get(request)
    if own is None:
        return run
    counts = {**run.document.get("counts", {}), "tombstones_applied": len(own["values"])}
    if len(run.requests) == 1:
        return replace(run, document={**run.document, "counts": counts})
    refs = [
        {**ref, "rows": rows}
        for ref in run.document.get("refs", ())
        if (rows := ref.get("by_request", {}).get(request))
    ]
    files = (
        [file for file in run.document.get("files", ()) if _is_about(file.get("rows"), request)] if own["rows"] else []
    )
    paths = {file["path"] for file in files}
    outside = [
        {**file, "rows": file.get("by_request", {}).get(request, 0)}
        for file in run.document.get("outside", ())
        if _is_about(file.get("by_request"), request)
    ]
    narrowed = {
        "refs": refs,
        "files": files,
        "new_files": [file for file in run.document.get("new_files", ()) if file["instead_of"] in paths],
        "outside": outside,
        "counts": {
            **counts,
            "rows_dropped_by_tombstones": own["rows"],
            "files_rewritten": sum(bool(file.get("rows")) for file in files),
            "refs_repointed": len(refs),
            "bytes_removed": sum(file["bytes"] for file in files),
        },
    }
    return replace(run, document={**run.document, **narrowed})


def rows_and_values(runs: Sequence[Evidence], request: str) -> tuple[int | None, int | None]:
    """How many rows of a request runs in one table erased, and how many of its values occurred, if known."""
    parts = [run.document.get("by_request", {}).get(request) for run in runs]
    rows = sum(int(run.document.get("counts", {}).get("rows_dropped_by_tombstones") or 0) for run in runs)
    if any(own is None for own in parts):
        alone = all(len(run.requests) == 1 for run in runs)
        return rows if alone else None, None
    values = len({value for own in parts for value in own["values"]})
    return rows, values if values or not rows else None


def proof_result(proof: Evidence) -> str:
    if not proof.document.get("clean"):
        return "traces"
    return "gone" if proof.document.get("gone") else "clean"


def _is_about(rows: Mapping[str, int] | None, request: str) -> bool:
    """Whether a file has rows of a request, or no rows at all."""
    return not rows or request in rows
