"""Which request each row of a purge belongs to, for the certificates of a run for several requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lakewarden.engine.rows.shares import Share, shares
from lakewarden.features.erasure.purging.intent import Intent

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from lakewarden.engine.rows.search import Searched
    from lakewarden.features.erasure.purging.intent import RefBefore
    from lakewarden.lifecycle.ground import Reader


_DIGITS = 16  # of a digest, to identify the values of one request


@dataclass(frozen=True)
class RowOwners:
    """The rows and values that were found for each request, and the digests of those values."""

    by_request: Mapping[str, Share]
    digests: Mapping[str, frozenset[str]]

    @staticmethod
    def of(lake: Reader, name: str, table: Table, found: Searched, requests: Sequence[str]) -> RowOwners:
        """Search the matching data files again, for each request separately."""
        uuid = str(table.metadata.table_uuid)
        keys = {request: lake.state.erasure.hidden(uuid, [request]) for request in requests}
        files = [match.file for match in found.matches.values() if match.content == "data"]
        by_request = shares(table, keys, files, lake.storage(lake.tables.name(name).lake))
        folding = {request.id: request.folding for request in lake.state.erasure.many(sorted(by_request))}
        digests = {}
        for request, share in by_request.items():
            asked = sorted({folding[request].of(text) for text in share.values})
            digests[request] = frozenset(each.hex()[:_DIGITS] for each in lake.state.erasure.digested("value", asked))
        return RowOwners(by_request, digests)

    def in_refs(self, lake: Reader, table: Table, refs: Mapping[str, RefBefore]) -> dict[str, RefBefore]:
        """Branches and tags with their rows by request."""
        rows: dict[int, dict[str, int]] = {}
        for ref in refs.values():
            if ref.rows and ref.before not in rows:
                live = lake.files.of(table, table.snapshot_by_id(ref.before)).by_path
                found = {
                    id: sum(n for p, n in share.rows.items() if p in live) for id, share in self.by_request.items()
                }
                rows[ref.before] = {request: count for request, count in found.items() if count}
        return {name: replace(ref, by_request=rows.get(ref.before, {})) for name, ref in refs.items()}

    def intent(self) -> Intent:
        return Intent(shares={id: share.rows for id, share in self.by_request.items()}, occurred=self.digests)
