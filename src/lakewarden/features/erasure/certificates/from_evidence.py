"""Puts a certificate of erasure together from a request and the evidence that purges, proofs and watching recorded.

Evidence may lack what an earlier version did not record; what a newer one recorded is refused. No value is in it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lakewarden.errors import Conflict
from lakewarden.features.erasure.certificates.content import (
    FORMAT,
    VERSION,
    Attested,
    CameBack,
    FileRemoved,
    FileWritten,
    HowProved,
    KeyErased,
    KindRead,
    Proved,
    Purged,
    RefMoved,
    RefProved,
    TableErased,
    ValueHash,
)
from lakewarden.features.erasure.requests.current_names import tables_of
from lakewarden.features.erasure.requests.request_part import part_for, rows_and_values
from lakewarden.records.erasure import ErasureRequest, ErasureState, Evidence, EvidenceKind

_EVIDENCE_VERSION = 1
_MOST_HASHES = 1000
_COUNTS = (
    "tombstones_applied",
    "rows_dropped_by_tombstones",
    "files_rewritten",
    "refs_repointed",
    "snapshots_expired",
    "bytes_removed",
)
_HASHING = (
    "Each hash is SHA-256 over the request's id, a colon, and the HMAC-SHA-256 of the value's type and text under a "
    "secret key that only the installation has. Nobody can find a value from it by trying; the installation can tell "
    "whether a value that is shown to it is one of these (lakewarden erasure recognise)."
)
_TOGETHER = f" Of more than {_MOST_HASHES:,} values there is one hash a key: SHA-256 over all of these hashes, sorted."
_SPELLINGS = "Other spellings of the values that were in no data file or file of deletes when the proof was made."
_NOT_COVERED = (
    "Backups and copies of the storage, the catalog or databases that were made outside of these tables.",
    "The databases and systems that the rows came from, and rows that they send again.",
    "Exports, reports, models and other tables that were made from these tables and are not named here.",
    "Caches and temporary files of query engines and of people's own machines.",
    "Logs and audit trails of other systems.",
    "Rows about the same person that have none of the values in a key column named here.",
    "Whatever was written to these tables after the proof.",
)


@dataclass(frozen=True)
class Issue:
    """When and with what a certificate is made, and by which key it will be signed."""

    at: datetime
    software: Mapping[str, str]
    public_key: str
    fingerprint: str
    other_tables: Sequence[str]
    """Tables that look as if they should have been covered, each in a sentence."""


def attest(
    request: ErasureRequest, evidence: Sequence[Evidence], digests: Mapping[int, Sequence[bytes]], issue: Issue
) -> Attested:
    """The certificate of a request, not signed yet; refused unless clean proofs of all its tables closed it."""
    closed_at = closed_by_proof(request, evidence)
    purged = [part_for(each, request.id) for each in evidence if each.kind is EvidenceKind.PURGED]
    proved = [each for each in evidence if each.kind is EvidenceKind.PROVED]
    watched = [each for each in evidence if each.kind is EvidenceKind.WATCHED]
    last = {each.uuid: each for each in proved}
    hashes, hashing = _hashes(request, digests)
    counts = {name: sum(_number(each.document.get("counts", {}), name) for each in purged) for name in _COUNTS}
    gone = sorted({key.table for key in request.keys if last[key.uuid].document.get("gone")})
    tables = [_table(request, table, uuid, purged) for table, uuid in tables_of(request)]
    return Attested(
        format=FORMAT,
        version=VERSION,
        request=request.id,
        says=" ".join(_says(request, tables, purged, gone)),
        issued_at=issue.at,
        state=str(request.state),
        requester=request.requester,
        reason=request.reason,
        subject=request.subject,
        values=request.values,
        ignoring=str(request.folding),
        created_at=request.created_at,
        grace_until=request.grace_until,
        deadline=request.deadline,
        closed_at=closed_at,
        deadline_met=closed_at <= request.deadline if request.deadline else None,
        keys=[
            KeyErased(key.table, key.uuid, key.path, key.field_id, key.kind, len(digests.get(place, ())))
            for place, key in enumerate(request.keys)
        ],
        tables=tables,
        value_hashes=hashes,
        hashing=hashing,
        counts=counts,
        purges=[_purge(each) for each in purged],
        refs=[ref for each in purged for ref in _refs(each)],
        removed_files=[file for each in purged for file in _removed(each)],
        new_files=[file for each in purged for file in _written(each)],
        proofs=[_proof(each) for each in proved],
        proved_refs=[ref for each in last.values() for ref in _refs_proved(each)],
        objects_read=[kind for each in last.values() for kind in _kinds(each)],
        came_back=[CameBack(each.table, each.operation, each.at) for each in watched],
        method=[HowProved(each.table, str(step)) for each in last.values() for step in each.document.get("method", ())],
        not_covered=[
            *_NOT_COVERED,
            *([_SPELLINGS] if request.folding else []),
            *_left_outside(purged),
            *(f"What may be left of the files of {table}." for table in gone),
            *issue.other_tables,
        ],
        software=dict(issue.software),
        public_key=issue.public_key,
        fingerprint=issue.fingerprint,
    )


def closed_by_proof(request: ErasureRequest, evidence: Iterable[Evidence]) -> datetime:
    """When clean proofs closed a request; refused where they did not."""
    if request.state is ErasureState.WITHDRAWN:
        raise Conflict(f"request {request.id} was withdrawn", "There is nothing to certify.")
    last = {}
    for each in evidence:
        if each.document.get("version", _EVIDENCE_VERSION) != _EVIDENCE_VERSION:
            told = f"what {each.operation} recorded of {each.table} was written by a newer Lakewarden"
            raise Conflict(told, "Issue the certificate with that one.")
        if each.kind is EvidenceKind.PROVED:
            last[each.uuid] = each
    unproved = sorted({key.table for key in request.keys if not _is_clean(last.get(key.uuid))})
    if unproved:
        told = f"request {request.id} is not proved: no clean proof of {', '.join(unproved)}"
        raise Conflict(told, f"lakewarden erasure purge --request {request.id} erases and proves.", tables=unproved)
    if request.state is not ErasureState.CLOSED or request.closed_at is None:
        told = f"request {request.id} is still {request.state}"
        raise Conflict(told, f"lakewarden erasure prove {request.id} closes it, if nothing is left.")
    return request.closed_at


def _is_clean(evidence: Evidence | None) -> bool:
    return evidence is not None and evidence.document.get("clean") is True


def _table(request: ErasureRequest, table: str, uuid: str, purged: Sequence[Evidence]) -> TableErased:
    rows, occurred = rows_and_values([run for run in purged if run.uuid == uuid], request.id)
    return TableErased(table, request.values, occurred, rows)


def _says(
    request: ErasureRequest, tables: Sequence[TableErased], purged: Sequence[Evidence], gone: Collection[str]
) -> Iterator[str]:
    """The certificate in a few sentences."""
    there = [table for table in tables if table.table not in gone]
    uuids = {key.table: key.uuid for key in request.keys}
    for table in there:
        yield _what_went(table)
        yield from _copies(table, [run for run in purged if run.uuid == uuids[table.table]])
    if there:
        yield (
            "After that everything that was stored of these tables was looked through, until "
            f"{request.closed_at:%Y-%m-%d %H:%M} UTC, and none of the values was found."
        )
    outside = len(list(_left_outside(purged)))
    if outside:
        files = "1 file" if outside == 1 else f"{outside:,} files"
        yield (
            f"Not removed {'was' if outside == 1 else 'were'} {files} outside of the tables' locations, which other "
            "tables may own: see what is not covered."
        )
    if gone:
        is_not = "is" if len(gone) == 1 else "are"
        yield f"{_tables(gone)} {is_not} in the catalog no more: what may be left of its files was not looked through."


def _what_went(table: TableErased) -> str:
    """What went from one table; that none of the values was there is said in as many words."""
    whose = f"{table.values:,} key value{'s' if table.values != 1 else ''}"
    if table.rows_erased is None:
        return f"The rows of {whose} and of other requests were erased from every version of {table.table} together."
    rows = f"{table.rows_erased:,} row{' was' if table.rows_erased == 1 else 's were'} erased from every version"
    if table.occurred is None:
        return f"Of {whose}, {rows} of {table.table}; how many of the values occurred was not recorded."
    if not table.occurred:
        return f"Of {whose}, none was found in {table.table} when it was purged: no row was erased."
    whose_rows = "its" if table.occurred == 1 else "their"
    return f"Of {whose}, {table.occurred:,} occurred in {table.table}: {whose_rows} {rows}."


def _copies(table: TableErased, runs: Sequence[Evidence]) -> Iterator[str]:
    """Files that no version references are searched as they are: whose values they hold is not known."""
    removed = sum(_number(run.document, "copies_removed") for run in runs)
    if removed:
        whose = "them" if all(len(run.requests) == 1 for run in runs) else "them or values of requests purged with it"
        files = "1 file that no version references" if removed == 1 else f"{removed:,} files that no version references"
        yield f"Of {table.table} {files}, with traces of {whose}, {'was' if removed == 1 else 'were'} removed as well."


def _tables(names: Collection[str]) -> str:
    return f"{len(names)} table{'s' if len(names) != 1 else ''} ({', '.join(names)})"


def _hashes(request: ErasureRequest, digests: Mapping[int, Sequence[bytes]]) -> tuple[list[ValueHash], str]:
    """The values of each key as salted hashes, and how these are made."""
    salt = f"{request.id}:".encode()
    hashed = {place: sorted(hashlib.sha256(salt + each).digest() for each in some) for place, some in digests.items()}
    if sum(map(len, hashed.values())) <= _MOST_HASHES:
        each_alone = [
            ValueHash(key.table, key.path, 1, one.hex())
            for place, key in enumerate(request.keys)
            for one in hashed.get(place, ())
        ]
        return each_alone, _HASHING
    together = [
        ValueHash(key.table, key.path, len(hashed[place]), hashlib.sha256(b"".join(hashed[place])).hexdigest())
        for place, key in enumerate(request.keys)
        if hashed.get(place)
    ]
    return together, _HASHING + _TOGETHER


def _purge(evidence: Evidence) -> Purged:
    document = evidence.document
    counts = document.get("counts", {})
    return Purged(
        table=evidence.table,
        operation=evidence.operation,
        at=evidence.at,
        other_requests=len(evidence.requests) - 1,
        rows=_number(counts, "rows_dropped_by_tombstones"),
        files_rewritten=_number(counts, "files_rewritten"),
        refs_repointed=_number(counts, "refs_repointed"),
        snapshots_expired=_number(counts, "snapshots_expired"),
        bytes_removed=_number(counts, "bytes_removed"),
        route=_text(document, "route"),
        metadata_before=_text(document, "metadata_before"),
        metadata_after=_text(document, "metadata_after"),
    )


def _refs(evidence: Evidence) -> Iterator[RefMoved]:
    for ref in evidence.document.get("refs", ()):
        name, kind, before, after = (_text(ref, fact) for fact in ("name", "kind", "before", "after"))
        yield RefMoved(evidence.table, name, kind, before, after, _number(ref, "rows"))


def _removed(evidence: Evidence) -> Iterator[FileRemoved]:
    for file in evidence.document.get("files", ()):
        sizes = (_number(file, "bytes"), _text(file, "sha256"))
        yield FileRemoved(evidence.table, _text(file, "path"), _text(file, "kind"), *sizes)


def _left_outside(purged: Sequence[Evidence]) -> Iterator[str]:
    """Files that tables led to and that stay where they are, each in a sentence; later runs tell of them again."""
    told: set[tuple[str, str]] = set()
    for run in purged:
        files = [(_text(file, "path"), _number(file, "rows")) for file in run.document.get("outside", ())]
        for path, rows in files:
            if not rows and (run.uuid, path) in told:
                continue
            such = f"still holds {rows:,} such" if rows else "may hold or tell of such"
            yield (
                f"The file {path}, which lies outside of the location of {run.table} and was not removed, since "
                f"another table may own it: it {such} {'row' if rows == 1 else 'rows'}."
            )
        told.update((run.uuid, path) for path, _ in files)


def _written(evidence: Evidence) -> Iterator[FileWritten]:
    for file in evidence.document.get("new_files", ()):
        sizes = (_number(file, "bytes"), _text(file, "sha256"))
        yield FileWritten(evidence.table, _text(file, "path"), *sizes, _text(file, "instead_of"))


def _proof(evidence: Evidence) -> Proved:
    document = evidence.document
    return Proved(
        table=evidence.table,
        operation=evidence.operation,
        at=evidence.at,
        result="traces" if not _is_clean(evidence) else "gone" if document.get("gone") else "clean",
        places=len(document.get("places", ())),
        not_read=len(document.get("not_read", ())),
        objects=_number(document, "objects"),
        bytes=_number(document, "bytes"),
        snapshots=_number(document, "snapshots"),
        metadata=_text(document, "metadata"),
    )


def _refs_proved(evidence: Evidence) -> Iterator[RefProved]:
    for name, snapshot in sorted(evidence.document.get("refs", {}).items()):
        yield RefProved(evidence.table, name, str(snapshot))


def _kinds(evidence: Evidence) -> Iterator[KindRead]:
    for kind, count in sorted(evidence.document.get("by_kind", {}).items()):
        yield KindRead(evidence.table, kind, int(count))


def _number(document: Mapping[str, Any], name: str) -> int:
    return int(document.get(name) or 0)


def _text(document: Mapping[str, Any], name: str) -> str:
    """A fact as text; so are the ids of snapshots, which are too large for the numbers of many JSON readers."""
    found = document.get(name)
    return "" if found is None else str(found)
