"""Requests that were carried out, for the tests of certificates: evidence as a purge and a proof record it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from lakewarden.features.erasure.certificates import signing_key
from lakewarden.features.erasure.certificates.signing_key import SigningKey
from lakewarden.records.erasure import ErasureRequest, ErasureState, Evidence, EvidenceKind
from tests.small_lake import SmallLake

PURGED: dict[str, Any] = {
    "refs": [
        {"name": "main", "kind": "branch", "before": 8_000_000_000_000_000_001, "after": 12, "rows": 3},
        {"name": "quarter-1", "kind": "tag", "before": 10, "after": 13, "rows": 2},
    ],
    "snapshots_expired": 2,
    "files": [
        {"path": "file:///wh/crm/people/data/email=*/0.parquet", "kind": "data", "bytes": 5000, "sha256": "aa" * 32},
        {"path": "file:///wh/crm/people/metadata/1.avro", "kind": "metadata", "bytes": 400, "sha256": ""},
    ],
    "new_files": [
        {
            "path": "file:///wh/crm/people/data/1.parquet",
            "bytes": 4800,
            "sha256": "bb" * 32,
            "instead_of": "file:///wh/crm/people/data/email=*/0.parquet",
        }
    ],
    "counts": {
        "tombstones_applied": 2,
        "rows_dropped_by_tombstones": 3,
        "files_rewritten": 1,
        "refs_repointed": 2,
        "snapshots_expired": 2,
        "bytes_removed": 5400,
    },
    "metadata_before": "file:///wh/crm/people/metadata/00002.metadata.json",
    "metadata_after": "file:///wh/crm/people/metadata/00003.metadata.json",
    "route": "direct",
}
PROVED: dict[str, Any] = {
    "clean": True,
    "places": [],
    "objects": 9,
    "bytes": 123_456,
    "by_kind": {"data": 4, "manifest": 2, "metadata": 3},
    "method": ["Key columns of data and delete files, decoded by type.", "Text also as bytes, in every object."],
    "snapshots": 2,
    "metadata": "file:///wh/crm/people/metadata/00003.metadata.json",
    "young": 0,
    "refs": {"main": 12, "quarter-1": 13},
}


def tell(
    lake: SmallLake,
    request: str,
    kind: EvidenceKind,
    document: dict[str, Any],
    uuid: str | None = None,
    others: Sequence[str] = (),
    operation: str = "op-20261115-120000-a1b2c3",
) -> None:
    """Record evidence about a request: in one of its tables, or in each."""
    asked = lake.warden.ground.state.erasure.get(request)
    if document is PURGED:
        document = {**PURGED, "by_request": {request: {"rows": 3, "values": ["00" * 8, "11" * 8]}}}
    for key in {key.uuid: key for key in asked.keys}.values():
        if uuid in (None, key.uuid):
            at = datetime.now(UTC)
            action = f"{kind}-{key.uuid}-{request}"
            made = Evidence(kind, key.table, key.uuid, operation, action, at, (request, *others), document)
            lake.warden.ground.state.erasure.record(made)


def close(lake: SmallLake, request: str, after: timedelta = timedelta()) -> ErasureRequest:
    return lake.warden.ground.state.erasure.move(request, ErasureState.CLOSED, datetime.now(UTC) + after)


def carried_out(lake: SmallLake, table: str = "crm.people", key: str = "email", **asked: Any) -> str:
    """A request that was erased, proved and closed; answers with its id."""
    given = {"value": ["p1@example.org", "p2@example.org"], **asked}
    subject = {} if "subject" in given else {"table": table, "key": key}
    request: str = lake.warden.erasure.request(**subject, **given).id
    tell(lake, request, EvidenceKind.PURGED, PURGED)
    tell(lake, request, EvidenceKind.PROVED, PROVED)
    close(lake, request)
    return request


def document(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def another_key(folder: Path) -> SigningKey:
    signing_key.make(folder / "another.pem")
    return signing_key.load(folder / "another.pem")
