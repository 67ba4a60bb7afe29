"""Evidence of erasures in the control database: what was done or found about requests, and in which table.

The queries are at the end, each with a sentence.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from sqlalchemy import Connection, Delete, Select, delete, insert, select

from lakewarden.lifecycle.tombstones import Evidence, EvidenceKind
from lakewarden.state.tables import erasure_evidence, erasure_evidence_requests


@dataclass(frozen=True)
class About:
    """Which evidence is wanted: of some kinds, about a request, a table, or by an operation."""

    kinds: Sequence[EvidenceKind] = ()
    request: str = ""
    uuid: str = ""
    operation: str = ""


def read_evidence(connection: Connection, about: About, documents: bool = True) -> list[Evidence]:
    """What was done or found, oldest first; with its documents, unless nobody looks into them."""
    wanted = _evidence_about(about)
    requests = _requests_of(connection, wanted)
    if not documents:
        wanted = wanted.with_only_columns(*(each for each in erasure_evidence.c if each.name != "packed"))
    return [_evidence(row, requests.get(row.number, ()), documents) for row in connection.execute(wanted)]


def write_evidence(connection: Connection, told: Evidence) -> None:
    """Write down what was done or found, in the place of what the same action told before."""
    row = {name: getattr(told, name) for name in ("table", "uuid", "operation", "action", "at")}
    packed = zlib.compress(json.dumps(told.document).encode(), level=1)
    connection.execute(_told_before(told))
    made = connection.execute(
        insert(erasure_evidence).returning(erasure_evidence.c.number),
        {**row, "kind": str(told.kind), "packed": packed},
    ).scalar_one()
    links = [{"evidence": made, "request": request} for request in told.requests]
    if links:
        connection.execute(insert(erasure_evidence_requests), links)


def _evidence(row: Any, requests: tuple[str, ...], documents: bool) -> Evidence:
    document: dict[str, Any] = json.loads(zlib.decompress(row.packed)) if documents else {}
    kind = EvidenceKind(row.kind)
    return Evidence(kind, row.table, row.uuid, row.operation, row.action, row.at, requests, document)


def _requests_of(connection: Connection, about: Select[Any]) -> dict[int, tuple[str, ...]]:
    """Which requests pieces of evidence are about."""
    link = erasure_evidence_requests.c
    numbers = about.with_only_columns(erasure_evidence.c.number).order_by(None)
    order = (link.evidence, link.request)
    rows = connection.execute(
        select(erasure_evidence_requests).where(link.evidence.in_(numbers)).order_by(*order)
    ).all()
    return {
        number: tuple(row.request for row in group) for number, group in groupby(rows, key=lambda row: row.evidence)
    }


def _evidence_about(about: About) -> Select[Any]:
    """Evidence of some kinds about a request, a table or by an operation, oldest first."""
    query = select(erasure_evidence).order_by(erasure_evidence.c.number)
    if about.kinds:
        query = query.where(erasure_evidence.c.kind.in_([str(kind) for kind in about.kinds]))
    if about.request:
        link = erasure_evidence_requests.c
        query = query.where(erasure_evidence.c.number.in_(select(link.evidence).where(link.request == about.request)))
    if about.uuid:
        query = query.where(erasure_evidence.c.uuid == about.uuid)
    if about.operation:
        query = query.where(erasure_evidence.c.operation == about.operation)
    return query


def _told_before(evidence: Evidence) -> Delete:
    """What the same action told of the same kind."""
    same = erasure_evidence.c
    return delete(erasure_evidence).where(
        same.operation == evidence.operation, same.action == evidence.action, same.kind == str(evidence.kind)
    )


def intents_of(request: str) -> Delete:
    """What was about to be removed for a request: paths in it may tell of a value."""
    link = erasure_evidence_requests.c
    about = select(link.evidence).where(link.request == request)
    intents = erasure_evidence.c.kind == str(EvidenceKind.INTENT)
    return delete(erasure_evidence).where(intents, erasure_evidence.c.number.in_(about))
