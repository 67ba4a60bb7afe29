"""Which proofs there are about requests, and which of them still count.

A table may have been proved very often, and each proof may be about very many requests: what proofs are there is read
once for a table, and in full only the newest about each request.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from lakewarden.engine.veil import Veil
from lakewarden.errors import LakewardenError
from lakewarden.lifecycle.tombstones import ErasureState, Evidence, EvidenceKind

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from lakewarden.lifecycle.ground import Reader
    from lakewarden.lifecycle.tombstones import ErasureRequest, KeyAsked

_FEW = 10  # operations that are asked for one by one


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
        told = self._lake.tombstones.evidence(proved, uuid=uuid, documents=False)
        last = {request: proof for proof in told for request in proof.requests if request in self._requests}
        operations = {proof.operation for proof in last.values()}
        asked = operations if len(operations) <= _FEW else {""}
        found = [proof for by in asked for proof in self._lake.tombstones.evidence(proved, uuid=uuid, operation=by)]
        full = {(proof.operation, proof.action): proof for proof in found}
        known = {request: full.get((proof.operation, proof.action)) for request, proof in last.items()}
        newest = {request: proof for request, proof in known.items() if proof is not None}
        about = {request for proof in found for request in proof.requests} - self._keys.keys()
        self._keys |= {request.id: request.keys for request in self._lake.tombstones.many(sorted(about))}
        return newest


def to_close(lake: Reader, requests: Sequence[str], together: Collection[str], operation: str) -> list[ErasureRequest]:
    """The open requests of which each table has a clean proof: by this operation, or of the table as it is.

    Of tables in `together`, by their uuid, only proofs by this operation count.
    """
    proofs = Proofs(lake, requests)

    def counts(request: str, uuid: str) -> bool:
        newest = proofs.clean(request, uuid)
        if newest is None:
            return False
        return newest.operation == operation or (uuid not in together and proofs.still_counts(newest))

    found = [request for request in lake.tombstones.many(requests) if request.state is ErasureState.OPEN]
    return [request for request in found if all(counts(request.id, uuid) for uuid in {k.uuid for k in request.keys})]


def fields_of(lake: Reader, uuid: str, requests: Sequence[str]) -> list[int]:
    """The columns of a table that requests are about, by field id."""
    keys = [key for request in lake.tombstones.many(requests) for key in request.keys]
    return sorted({key.field_id for key in keys if key.uuid == uuid})
