"""The recorded proofs of requests, and which of them still count.

A table may have many proofs, each for many requests. The list of proofs is read once per table, and only the newest
proof of each request is read in full.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lakewarden.engine.rows.redaction import Redaction
from lakewarden.errors import LakewardenError
from lakewarden.records.erasure import ErasureState, Evidence, EvidenceKind

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from lakewarden.lifecycle.ground import Reader
    from lakewarden.records.erasure import ErasureRequest, KeyAsked

log = logging.getLogger(__name__)

_FEW = 10  # operations that are read one by one
_NAMED = 3  # requests that a result names
NOT_SEARCHED: dict[str, Any] = {
    "places": [],
    "not_read": [],
    "young": 0,
    "objects": 0,
    "bytes": 0,
    "by_kind": {},
    "snapshots": 0,
    "metadata": "",
    "refs": {},
}
"""What the document of a proof says of a table that was not searched."""


@dataclass
class ThisRun:
    """The proofs of one run of an operation; a resumed operation has several runs."""

    proved: set[str] = field(default_factory=set)
    """The actions whose proof this run made, or found to be up to date."""
    outdated: dict[str, str] = field(default_factory=dict)
    """Requests that stay open because a table changed after an earlier run proved it, and that table."""

    def concluded(self, result: dict[str, Any]) -> dict[str, Any]:
        """The result of the run, with what to do about requests that stay open."""
        if not self.outdated:
            return result
        some = sorted(self.outdated)[:_NAMED]
        more = f" and {len(self.outdated) - _NAMED} more" if len(self.outdated) > _NAMED else ""
        tables = ", ".join(sorted(set(self.outdated.values())))
        named = " ".join(f"--request {id}" for id in some)
        left = (
            f"{', '.join(some)}{more}, because {tables} changed after an earlier run proved it; "
            f"lakewarden erasure purge {named} --apply proves it again"
        )
        log.info("left open: %s", left)  # operation resume does not show the result
        return {**result, "left_open": left}


class Proofs:
    """The newest proofs of some requests, read when first needed."""

    def __init__(self, lake: Reader, requests: Collection[str]) -> None:
        self._lake = lake
        self._requests = frozenset(requests)
        self._by_table: dict[str, dict[str, Evidence]] = {}
        self._keys: dict[str, Sequence[KeyAsked]] = {}
        self._tables: dict[str, Table | None] = {}
        self._is_of: dict[tuple[str, str, str], bool] = {}

    def clean(self, request: str, uuid: str) -> Evidence | None:
        """The newest proof of a request in a table, if it is clean."""
        if uuid not in self._by_table:
            self._by_table[uuid] = self._newest(uuid)
        newest = self._by_table[uuid].get(request)
        return newest if newest is not None and newest.document["clean"] else None

    def still_counts(self, proof: Evidence) -> bool:
        """Whether the table has not changed since a proof."""
        if proof.document.get("gone"):
            return self._lake.tables.uuid(proof.table) != proof.uuid
        if proof.table not in self._tables:
            self._tables[proof.table] = self._loaded(proof.table)
        table = self._tables[proof.table]
        return table is not None and self.is_of(proof, table)

    def are_current(self, uuid: str) -> bool:
        """Whether all open requests have a clean proof of this table that still counts."""
        found = self._lake.state.erasure.many(sorted(self._requests))
        newest = [self.clean(request.id, uuid) for request in found if request.state is ErasureState.OPEN]
        return all(proof is not None and self.still_counts(proof) for proof in newest)

    def is_of(self, proof: Evidence, table: Table) -> bool:
        """Whether a proof is of exactly this state of a table."""
        if str(table.metadata.table_uuid) != proof.uuid:
            return False
        where = (proof.operation, proof.action, table.metadata_location)
        if where not in self._is_of:
            keys = [key for request in proof.requests for key in self._keys[request] if key.uuid == proof.uuid]
            redaction = Redaction.of(table.metadata, [key.field_id for key in keys])
            self._is_of[where] = bool(proof.document["metadata"] == redaction.path(table.metadata_location))
        return self._is_of[where]

    def _loaded(self, table: str) -> Table | None:
        try:
            return self._lake.tables.load(table)
        except LakewardenError:
            return None

    def _newest(self, uuid: str) -> dict[str, Evidence]:
        proved = [EvidenceKind.PROVED]
        proofs = self._lake.state.erasure.evidence(proved, uuid=uuid, documents=False)
        last = {request: proof for proof in proofs for request in proof.requests if request in self._requests}
        operations = {proof.operation for proof in last.values()}
        asked = operations if len(operations) <= _FEW else {""}
        found = [proof for by in asked for proof in self._lake.state.erasure.evidence(proved, uuid=uuid, operation=by)]
        full = {(proof.operation, proof.action): proof for proof in found}
        known = {request: full.get((proof.operation, proof.action)) for request, proof in last.items()}
        newest = {request: proof for request, proof in known.items() if proof is not None}
        about = {request for proof in found for request in proof.requests} - self._keys.keys()
        self._keys |= {request.id: request.keys for request in self._lake.state.erasure.many(sorted(about))}
        return newest


def to_close(
    lake: Reader, requests: Sequence[str], together: Collection[str], operation: str, run: ThisRun
) -> list[ErasureRequest]:
    """The open requests whose tables all have a clean proof that counts.

    Proofs of this run always count, since other writers may change a table before the last table is proved. Proofs of
    an earlier run or another operation count only if the table has not changed since. For tables in `together`, by
    uuid, only proofs of this operation count. Requests that only need a new proof of a table that an earlier run had
    proved are noted in `run`.
    """
    proofs = Proofs(lake, requests)

    def counts(proof: Evidence) -> bool:
        own = proof.operation == operation
        if own and proof.action in run.proved:
            return True
        return (own or proof.uuid not in together) and proofs.still_counts(proof)

    ready = []
    for request in lake.state.erasure.many(requests):
        newest = [proofs.clean(request.id, uuid) for uuid in sorted({key.uuid for key in request.keys})]
        clean = [proof for proof in newest if proof is not None]
        if request.state is not ErasureState.OPEN or len(clean) < len(newest):
            continue
        outdated = [proof for proof in clean if not counts(proof)]
        if not outdated:
            ready.append(request)
            run.outdated.pop(request.id, None)
        elif all(proof.operation == operation for proof in outdated):
            run.outdated[request.id] = outdated[0].table
    return ready
