"""Creates a certificate of erasure from a request and the evidence of purges, proofs and watch runs.

Evidence may lack optional facts; evidence of a newer version is refused. A certificate holds no values.
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
from lakewarden.features.erasure.requests.request_part import part_for, proof_result, rows_and_values
from lakewarden.quantities import counted
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
    "secret key that only the installation has. Values cannot be found by trying; the installation can check whether "
    "a given value is one of these (lakewarden erasure recognise)."
)
_TOGETHER = f" For more than {_MOST_HASHES:,} values there is one hash per key: SHA-256 over all these hashes, sorted."
_SPELLINGS = "Other spellings of the values that were in no data file or delete file at the time of the proof."
_NOT_COVERED = (
    "Backups and copies of the storage, the catalog or databases outside of these tables.",
    "The databases and systems that the rows came from, and rows that they send again.",
    "Exports, reports, models and other tables that were created from these tables and are not named here.",
    "Caches and temporary files of query engines and personal computers.",
    "Logs and audit trails of other systems.",
    "Rows about the same person that have none of the values in a key column named here.",
    "Data that was written to these tables after the proof.",
)


@dataclass(frozen=True)
class Issue:
    """When and with which software a certificate is created, and the key that will sign it."""

    at: datetime
    software: Mapping[str, str]
    public_key: str
    fingerprint: str
    other_tables: Sequence[str]
    """Sentences about tables that may have to be covered too."""


def attest(
    request: ErasureRequest, evidence: Sequence[Evidence], digests: Mapping[int, Sequence[bytes]], issue: Issue
) -> Attested:
    """The unsigned certificate of a request; refused unless clean proofs of all its tables closed it."""
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
            *_without_keys(last.values(), request.id),
            *(f"Files that may be left of {table}." for table in gone),
            *issue.other_tables,
        ],
        software=dict(issue.software),
        public_key=issue.public_key,
        fingerprint=issue.fingerprint,
    )


def _without_keys(proofs: Iterable[Evidence], request: str) -> Iterator[str]:
    """What the proofs say about rows that others rewrote without a key column of a request."""
    for proof in proofs:
        yield from (str(each) for each in proof.document.get("not_covered", ()) if f" {request} " in str(each))


def closed_by_proof(request: ErasureRequest, evidence: Iterable[Evidence]) -> datetime:
    """When clean proofs closed a request; an error if they did not."""
    if request.state is ErasureState.WITHDRAWN:
        raise Conflict(f"request {request.id} was withdrawn", "There is nothing to certify.")
    last = {}
    for each in evidence:
        if each.document.get("version", _EVIDENCE_VERSION) != _EVIDENCE_VERSION:
            newer = f"a newer Lakewarden wrote the evidence of {each.operation} about {each.table}"
            raise Conflict(newer, "Issue the certificate with that version.")
        if each.kind is EvidenceKind.PROVED:
            last[each.uuid] = each
    unproved = sorted({key.table for key in request.keys if not _is_clean(last.get(key.uuid))})
    if unproved:
        message = f"request {request.id} is not proved: no clean proof of {', '.join(unproved)}"
        raise Conflict(message, f"Purge it: lakewarden erasure purge --request {request.id} --apply", tables=unproved)
    if request.state is not ErasureState.CLOSED or request.closed_at is None:
        message = f"request {request.id} is still {request.state}"
        raise Conflict(message, f"Prove it, which closes it: lakewarden erasure prove {request.id}")
    return request.closed_at


def _is_clean(evidence: Evidence | None) -> bool:
    return evidence is not None and evidence.document.get("clean") is True


def _table(request: ErasureRequest, table: str, uuid: str, purged: Sequence[Evidence]) -> TableErased:
    rows, occurred = rows_and_values([run for run in purged if run.uuid == uuid], request.id)
    return TableErased(table, request.values, occurred, rows)


def _says(
    request: ErasureRequest, tables: Sequence[TableErased], purged: Sequence[Evidence], gone: Collection[str]
) -> Iterator[str]:
    """The summary of the certificate."""
    there = [table for table in tables if table.table not in gone]
    uuids = {key.table: key.uuid for key in request.keys}
    for table in there:
        yield _erased(table)
        yield from _copies(table, [run for run in purged if run.uuid == uuids[table.table]])
    if there:
        yield (
            "Afterwards, everything stored for these tables was searched, and none of the values was found. The search "
            f"ended at {request.closed_at:%Y-%m-%d %H:%M} UTC."
        )
    outside = len(list(_left_outside(purged)))
    if outside:
        yield (
            f"{counted(outside, 'file')} outside of the tables' locations {'was' if outside == 1 else 'were'} not "
            "deleted, because other tables may own them: see what is not covered."
        )
    if gone:
        count, verb = counted(len(gone), "table"), "is" if len(gone) == 1 else "are"
        yield f"{count} ({', '.join(gone)}) {verb} no longer in the catalog: files that may be left were not searched."


def _erased(table: TableErased) -> str:
    values = counted(table.values, "key value")
    if table.rows_erased is None:
        return f"The rows of {values} and of other requests were erased from every version of {table.table} together."
    rows = f"{counted(table.rows_erased, 'row')} {'was' if table.rows_erased == 1 else 'were'} erased"
    if table.occurred is None:
        return f"Of {values}, {rows} from every version of {table.table}; how many values occurred was not recorded."
    if not table.occurred:
        return f"Of {values}, none was found in {table.table} when it was purged: no row was erased."
    return f"Of {values}, {table.occurred:,} occurred in {table.table}: {rows} from every version."


def _copies(table: TableErased, runs: Sequence[Evidence]) -> Iterator[str]:
    """A sentence about unreferenced files, for which it is unknown whose values they held."""
    removed = sum(_number(run.document, "copies_removed") for run in runs)
    if removed:
        whose = "the values" if all(len(run.requests) == 1 for run in runs) else "values of this or other requests"
        files, verb = counted(removed, "unreferenced file"), "was" if removed == 1 else "were"
        yield f"{files} of {table.table} with traces of {whose} {verb} deleted as well."


def _hashes(request: ErasureRequest, digests: Mapping[int, Sequence[bytes]]) -> tuple[list[ValueHash], str]:
    """The values of each key as salted hashes, and a description of the hashing."""
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
    """A sentence about each file that was not deleted because it is outside of its table's location, once per file."""
    known: set[tuple[str, str]] = set()
    for run in purged:
        files = [(_text(file, "path"), _number(file, "rows")) for file in run.document.get("outside", ())]
        for path, rows in files:
            if not rows and (run.uuid, path) in known:
                continue
            holds = f"still holds {counted(rows, 'erased row')}" if rows else "may hold or mention erased rows"
            yield (
                f"The file {path}, which is outside of the location of {run.table} and was not deleted because another "
                f"table may own it: it {holds}."
            )
        known.update((run.uuid, path) for path, _ in files)


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
        result=proof_result(evidence),
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
    """A fact as text; also ids of snapshots, which are too large for the numbers of many JSON readers."""
    found = document.get(name)
    return "" if found is None else str(found)
