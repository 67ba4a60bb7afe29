"""Evidence of erasures in the control database: what was done or found for requests, by table.

The queries are at the end, each with a docstring.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from datetime import datetime
from itertools import groupby
from typing import Any

from sqlalchemy import Connection, Delete, Select, delete, insert, select

from lakewarden.errors import Conflict
from lakewarden.records.erasure import Evidence, EvidenceKind
from lakewarden.state.tables import erasure_evidence, erasure_evidence_requests, leases

FEW = 1_000  # ids per query; databases limit the number of parameters


def read_evidence(
    connection: Connection,
    kinds: Sequence[EvidenceKind],
    request: str = "",
    uuid: str = "",
    operation: str = "",
    documents: bool = True,
) -> list[Evidence]:
    """What was done or found, oldest first, optionally without documents."""
    wanted = _evidence_about(kinds, request, uuid, operation)
    requests = _requests_of(connection, wanted)
    if not documents:
        wanted = wanted.with_only_columns(*(each for each in erasure_evidence.c if each.name != "packed"))
    return [_evidence(row, requests.get(row.number, ()), documents) for row in connection.execute(wanted)]


def write_evidence(connection: Connection, evidence: Evidence) -> None:
    """Record evidence, replacing what the same action recorded before."""
    row = {name: getattr(evidence, name) for name in ("table", "uuid", "operation", "action", "at")}
    packed = zlib.compress(json.dumps(evidence.document).encode(), level=1)
    connection.execute(_recorded_before(evidence))
    made = connection.execute(
        insert(erasure_evidence).returning(erasure_evidence.c.number),
        {**row, "kind": str(evidence.kind), "packed": packed},
    ).scalar_one()
    links = [{"evidence": made, "request": request} for request in evidence.requests]
    if links:
        connection.execute(insert(erasure_evidence_requests), links)


def refuse_erased(connection: Connection, request: str, harmless: Sequence[Evidence]) -> None:
    """Refuse if a purge was about to erase rows of a request, or did, except for evidence known to be harmless."""
    kinds = [EvidenceKind.INTENT, EvidenceKind.PURGED]
    known = {_identity(each) for each in harmless}
    new = [each for each in read_evidence(connection, kinds, request, documents=False) if _identity(each) not in known]
    if new:
        raise Conflict(
            f"a purge is erasing rows of request {request} in {new[0].table}, or has just done so",
            f"See: lakewarden operation show {new[0].operation}",
        )


def forget_intents(connection: Connection, requests: Sequence[str]) -> None:
    """Delete the intents of ended requests, whose paths may contain a value, unless other requests need them."""
    for start in range(0, len(requests), FEW):
        connection.execute(_links_of_intents(requests[start : start + FEW]))
    connection.execute(_unneeded_intents())


def operations_at_work(connection: Connection, request: str, now: datetime) -> list[str]:
    return list(connection.execute(_leases_of_intents(request, now)).scalars())


def _identity(evidence: Evidence) -> tuple[object, ...]:
    """Identifies a record; row numbers are reused after the last row is deleted."""
    return evidence.kind, evidence.operation, evidence.action, evidence.at


def _evidence(row: Any, requests: tuple[str, ...], documents: bool) -> Evidence:
    document: dict[str, Any] = json.loads(zlib.decompress(row.packed)) if documents else {}
    kind = EvidenceKind(row.kind)
    return Evidence(kind, row.table, row.uuid, row.operation, row.action, row.at, requests, document)


def _requests_of(connection: Connection, about: Select[Any]) -> dict[int, tuple[str, ...]]:
    link = erasure_evidence_requests.c
    numbers = about.with_only_columns(erasure_evidence.c.number).order_by(None)
    order = (link.evidence, link.request)
    rows = connection.execute(
        select(erasure_evidence_requests).where(link.evidence.in_(numbers)).order_by(*order)
    ).all()
    return {
        number: tuple(row.request for row in group) for number, group in groupby(rows, key=lambda row: row.evidence)
    }


def _evidence_about(kinds: Sequence[EvidenceKind], request: str, uuid: str, operation: str) -> Select[Any]:
    """Evidence of some kinds, about a request or a table, or by an operation, oldest first."""
    query = select(erasure_evidence).order_by(erasure_evidence.c.number)
    if kinds:
        query = query.where(erasure_evidence.c.kind.in_([str(kind) for kind in kinds]))
    if request:
        link = erasure_evidence_requests.c
        query = query.where(erasure_evidence.c.number.in_(select(link.evidence).where(link.request == request)))
    if uuid:
        query = query.where(erasure_evidence.c.uuid == uuid)
    if operation:
        query = query.where(erasure_evidence.c.operation == operation)
    return query


def _recorded_before(evidence: Evidence) -> Delete:
    """Evidence of the same kind from the same action."""
    same = erasure_evidence.c
    return delete(erasure_evidence).where(
        same.operation == evidence.operation, same.action == evidence.action, same.kind == str(evidence.kind)
    )


def _links_of_intents(requests: Sequence[str]) -> Delete:
    """The links between intents and some requests."""
    link = erasure_evidence_requests.c
    intents = select(erasure_evidence.c.number).where(erasure_evidence.c.kind == str(EvidenceKind.INTENT))
    return delete(erasure_evidence_requests).where(link.request.in_(requests), link.evidence.in_(intents))


def _unneeded_intents() -> Delete:
    """Intents that were purged since for each of their requests, or have no requests left."""
    link, purged = erasure_evidence_requests.alias("link"), erasure_evidence.alias("purged")
    about = erasure_evidence_requests.alias("about")
    since = (
        select(purged.c.number)
        .join(about, about.c.evidence == purged.c.number)
        .where(purged.c.kind == str(EvidenceKind.PURGED), purged.c.uuid == erasure_evidence.c.uuid)
        .where(purged.c.number > erasure_evidence.c.number, about.c.request == link.c.request)
    )
    waiting = select(link.c.request).where(link.c.evidence == erasure_evidence.c.number)
    waiting = waiting.where(~since.correlate(erasure_evidence, link).exists()).correlate(erasure_evidence)
    return delete(erasure_evidence).where(erasure_evidence.c.kind == str(EvidenceKind.INTENT), ~waiting.exists())


def _leases_of_intents(request: str, now: datetime) -> Select[Any]:
    """The operations that hold the lease of a table for which they recorded an intent for a request."""
    link = erasure_evidence_requests.c
    about = erasure_evidence.c.number.in_(select(link.evidence).where(link.request == request))
    held = (leases.c.operation == erasure_evidence.c.operation) & (leases.c.key == "table:" + erasure_evidence.c.uuid)
    operations = select(leases.c.operation).join(erasure_evidence, held).where(leases.c.expires_at > now).distinct()
    intents = erasure_evidence.c.kind == str(EvidenceKind.INTENT)
    return operations.where(intents, about).order_by(leases.c.operation)
