"""Hidden rows that do not come back when a request is withdrawn, because other writers have rewritten their files.

Evidence records the files of a branch when rows were hidden; the branch's history shows what happened to them. The
report names the snapshot that rewrote them and the last one that has the rows. It is information only: a file that
cannot be read is reported as such.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lakewarden.engine.base.locations import place_digest
from lakewarden.engine.catalog.snapshots import ancestors, stamped
from lakewarden.engine.rows.position_deletes import is_hide, named_positions
from lakewarden.engine.rows.redaction import Redaction
from lakewarden.errors import LakewardenError, OperationNotFound
from lakewarden.features.erasure.requests.request_keys import fields_of
from lakewarden.lifecycle.basics import SPARK_SQL, Stamp
from lakewarden.lifecycle.journal import Progress
from lakewarden.quantities import counted
from lakewarden.records.erasure import Evidence, EvidenceKind

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from lakewarden.lifecycle.ground import Reader

_EXPIRED = -1  # a snapshot that expired before its id was recorded
_Moment = tuple[int | None, int | None]  # the snapshot that removed the rows, and the last one before it


def lost_rows(lake: Reader, name: str, table: Table, request: str) -> list[str]:
    """Sentences for each branch: how many rows of a request do not come back, and why."""
    uuid = str(table.metadata.table_uuid)
    recorded = lake.state.erasure.evidence([EvidenceKind.HIDDEN], request=request, uuid=uuid)
    redaction = Redaction.of(table.metadata, fields_of(lake, uuid, [request]))
    found: Counter[tuple[str, _Moment]] = Counter()
    unknown: dict[str, str] = {}
    for evidence in (each for each in recorded if not each.document.get("carried")):
        branch = str(evidence.document["branch"])
        since = hidden_by(lake, table, evidence)
        line = line_of(table, branch, since)
        if since is None or since not in line:
            if since is not None and (table.snapshot_by_id(since) is None or is_behind_gap(table, line, since)):
                for file in (f for f in evidence.document["files"] if _is_gone(lake, table, branch, recorded, f)):
                    found[branch, _moment(lake, table, line, file["data"])] += int(file["hides"].get(request, 0))
            continue  # never hidden there, or the branch was rolled back to before: nothing is lost
        try:
            for moment, rows in _lost(lake, name, table, request, evidence, line, recorded):
                found[branch, moment] += rows
        except LakewardenError as error:
            unknown[branch] = redaction.text(error.message)
    lost = [_sentence(name, table, branch, moment, rows) for (branch, moment), rows in found.items() if rows]
    return lost + [
        f"{name}: it is unknown whether all rows come back on branch {branch}: {why}" for branch, why in unknown.items()
    ]


def _is_gone(lake: Reader, table: Table, branch: str, recorded: Sequence[Evidence], file: Mapping[str, Any]) -> bool:
    """Whether a data file with hidden rows is no longer on a branch, and no known file replaced it."""
    if "data" not in file or any(evidence.document.get("carried") for evidence in recorded):
        return False
    return all(
        place_digest(data.path) != file["data"] for data in lake.files.of(table, table.snapshot_by_name(branch)).bare
    )


def _lost(
    lake: Reader,
    name: str,
    table: Table,
    request: str,
    evidence: Evidence,
    line: Sequence[int],
    recorded: Sequence[Evidence],
) -> Iterator[tuple[_Moment, int]]:
    """When rows that one action hid were lost, and how many."""
    if evidence.document["route"] == SPARK_SQL:
        deleted = table.snapshot_by_id(line[-1])
        before = deleted.parent_snapshot_id if deleted else None
        last = before if before is not None and table.snapshot_by_id(before) else None
        yield (line[-1], last), int(evidence.document["rows"][request])
        return
    files = lake.files.of(table, table.snapshot_by_id(line[0]))
    storage = lake.storage(lake.tables.name(name).lake)
    for file in evidence.document["files"]:
        try:
            hidden_in = named_positions(storage, file["path"])
        except LakewardenError:  # the hide file is gone with the last version that had it
            if _is_gone(lake, table, str(evidence.document["branch"]), recorded, file):
                yield _moment(lake, table, line, file["data"]), int(file.get("hides", {}).get(request, 0))
            continue
        for data in hidden_in.keys() & files.by_path.keys():
            for delete in (delete for delete in files.by_path[data].deletes if not is_hide(delete.path)):
                named_positions(storage, delete, [data])  # raises if unreadable: it may list hidden rows
        for data in hidden_in.keys() - files.by_path.keys():
            yield _moment(lake, table, line, place_digest(data)), int(file.get("hides", {}).get(request, 0))


def _moment(lake: Reader, table: Table, line: Sequence[int], data: str) -> _Moment:
    """The snapshot of a history, newest first, that removed a data file, and the last one that has it."""
    after = None
    for snapshot in line:
        files = lake.files.of(table, table.snapshot_by_id(snapshot))
        if any(place_digest(file.path) == data for file in files.bare):
            return after, snapshot
        after = snapshot
    return after, None


def line_of(table: Table, branch: str, since: int | None) -> list[int]:
    """A branch's history, newest first, back to a snapshot; empty if there is no such branch."""
    ref = table.metadata.refs.get(branch)
    line: list[int] = []
    for snapshot in ancestors(table, ref.snapshot_id) if ref else ():
        line.append(snapshot)
        if snapshot == since:
            break
    return line


def is_behind_gap(table: Table, line: Sequence[int], since: int) -> bool:
    """Whether a snapshot may be in a branch's history, before the oldest one that is known: others expired between."""
    oldest, found = table.snapshot_by_id(line[-1]) if line else None, table.snapshot_by_id(since)
    if oldest is None or found is None:
        return False
    return (oldest.sequence_number or oldest.timestamp_ms) > (found.sequence_number or found.timestamp_ms)


def hidden_by(lake: Reader, table: Table, evidence: Evidence) -> int | None:
    """The snapshot that hid the rows; none if it was never committed.

    A run that was killed right after its commit did not record it. If that snapshot has expired, the journal shows
    whether the action was verified.
    """
    known = evidence.document["snapshot"]
    if known is not None:
        return int(known)
    made = stamped(table, Stamp(evidence.operation, evidence.action, ""))
    return _EXPIRED if made is None and _is_verified(lake, evidence) else made


def _is_verified(lake: Reader, evidence: Evidence) -> bool:
    try:
        steps = lake.journal.get(evidence.operation).steps
    except OperationNotFound:
        return False
    return any(step.action == evidence.action and step.progress is Progress.VERIFIED for step in steps)


def _sentence(name: str, table: Table, branch: str, moment: _Moment, rows: int) -> str:
    by, last = moment
    snapshot = table.snapshot_by_id(by) if by is not None else None
    what = f" ({snapshot.summary.operation.value})" if snapshot and snapshot.summary else ""
    before = f"snapshot {last} still has them" if last is not None else "the versions before have expired"
    verb = "does" if rows == 1 else "do"
    lost = f"{name}: {counted(rows, 'row')} on branch {branch} {verb} not come back"
    return f"{lost}: snapshot {by}{what} rewrote the files; {before}"
