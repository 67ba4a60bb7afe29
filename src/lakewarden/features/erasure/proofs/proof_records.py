"""Which proofs there are about requests, and which of them still count.

A table may have been proved very often, and each proof may be about very many requests: what proofs are there is read
once for a table, and in full only the newest about each request.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lakewarden.engine.rows.redaction import Veil
from lakewarden.errors import LakewardenError
from lakewarden.records.erasure import ErasureState, Evidence, EvidenceKind

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from lakewarden.lifecycle.ground import Reader
    from lakewarden.records.erasure import ErasureRequest, KeyAsked

log = logging.getLogger(__name__)

_FEW = 10  # operations that are asked for one by one
_TOLD = 3  # requests that a result names


@dataclass
class ThisRun:
    """What one run of an operation knows of proofs. The operation may have had others before, and was resumed."""

    proved: set[str] = field(default_factory=set)
    """The actions whose proof this run made, or found to be of the table as it was then."""
    outdated: dict[str, str] = field(default_factory=dict)
    """Requests that stay open since an earlier run had proved a table, and it has changed: which table."""

    def concluded(self, result: dict[str, Any]) -> dict[str, Any]:
        """The result of the run, with what is to be done about requests that stay open."""
        if not self.outdated:
            return result
        some = sorted(self.outdated)[:_TOLD]
        more = f" and {len(self.outdated) - _TOLD} more" if len(self.outdated) > _TOLD else ""
        tables = ", ".join(sorted(set(self.outdated.values())))
        told = f"{', '.join(some)}{more}, as {tables} changed since it was proved in an earlier run"
        named = " ".join(f"--request {id}" for id in some)
        left = f"{told}; lakewarden erasure purge {named} --apply looks again"
        log.info("left open: %s", left)  # who resumes an operation is not shown its result
        return {**result, "left_open": left}


class Proofs:
    """The newest proofs about some requests, as they are when they are first asked for."""

    def __init__(self, lake: Reader, requests: Collection[str]) -> None:
        self._lake = lake
        self._requests = frozenset(requests)
        self._by_table: dict[str, dict[str, Evidence]] = {}
        self._keys: dict[str, Sequence[KeyAsked]] = {}
        self._tables: dict[str, Table | None] = {}
        self._is_of: dict[tuple[str, str, str], bool] = {}

    def clean(self, request: str, uuid: str) -> Evidence | None:
        """The newest proof about a request in a table, if it was clean."""
        if uuid not in self._by_table:
            self._by_table[uuid] = self._newest(uuid)
        newest = self._by_table[uuid].get(request)
        return newest if newest is not None and newest.document["clean"] else None

    def still_counts(self, proof: Evidence) -> bool:
        """Whether a proof is of the table as it is now."""
        if proof.document.get("gone"):
            return self._lake.tables.uuid(proof.table) != proof.uuid
        if proof.table not in self._tables:
            self._tables[proof.table] = self._loaded(proof.table)
        table = self._tables[proof.table]
        return table is not None and self.is_of(proof, table)

    def are_current(self, uuid: str) -> bool:
        """Whether what is still open of the requests has a clean proof of this table as it is now."""
        found = self._lake.state.erasure.many(sorted(self._requests))
        newest = [self.clean(request.id, uuid) for request in found if request.state is ErasureState.OPEN]
        return all(proof is not None and self.still_counts(proof) for proof in newest)

    def is_of(self, proof: Evidence, table: Table) -> bool:
        """Whether a proof is of a table in this very state."""
        if str(table.metadata.table_uuid) != proof.uuid:
            return False
        where = (proof.operation, proof.action, table.metadata_location)
        if where not in self._is_of:
            keys = [key for request in proof.requests for key in self._keys[request] if key.uuid == proof.uuid]
            veil = Veil.of(table.metadata, [key.field_id for key in keys])
            self._is_of[where] = bool(proof.document["metadata"] == veil.path(table.metadata_location))
        return self._is_of[where]

    def _loaded(self, table: str) -> Table | None:
        try:
            return self._lake.tables.load(table)
        except LakewardenError:
            return None

    def _newest(self, uuid: str) -> dict[str, Evidence]:
        proved = [EvidenceKind.PROVED]
        told = self._lake.state.erasure.evidence(proved, uuid=uuid, documents=False)
        last = {request: proof for proof in told for request in proof.requests if request in self._requests}
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
    """The open requests of which each table has a clean proof: by this run, or of the table as it is.

    Others may write to a table between its proof and that of the last one, so what this run proved counts as it is.
    An operation that is resumed may have made a proof days ago, which counts like anybody's. Of tables in `together`,
    by their uuid, only proofs by this operation count. Requests that wait for nothing but a new proof of a table that
    an earlier run had proved are noted in `run`.
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
