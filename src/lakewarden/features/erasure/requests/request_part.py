"""What a run that purged for several requests did for one of them: a certificate lists no rows of others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from lakewarden.records.erasure import Evidence


def part_for(run: Evidence, request: str) -> Evidence:
    """A run as far as it is about one request: its rows, the branches, tags and files that had them.

    Files without rows, such as metadata, may mention any request, and are kept where it had rows at all. Versions that
    expired are those of the run. What an earlier Lakewarden recorded is not split by request, and stays as it is.
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
    """How many rows of a request runs in one table erased, and how many of its values were in them, where known."""
    told = [run.document.get("by_request", {}).get(request) for run in runs]
    rows = sum(int(run.document.get("counts", {}).get("rows_dropped_by_tombstones") or 0) for run in runs)
    if any(own is None for own in told):
        alone = all(len(run.requests) == 1 for run in runs)
        return rows if alone else None, None
    values = len({value for own in told for value in own["values"]})
    return rows, values if values or not rows else None


def _is_about(rows: Mapping[str, int] | None, request: str) -> bool:
    """Whether a file has rows of a request, or none that are known to be another's."""
    return not rows or request in rows
