"""Hidden rows that do not come back when a request is withdrawn: others have written their files anew meanwhile.

What a branch had when rows were hidden is known from evidence; what became of it is looked up in its history. Told is
which snapshot did it, and which is the last that has the rows. Nothing is decided by it: where a file cannot be read
that would tell, that is said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from lakewarden.engine.base.locations import place_digest
from lakewarden.engine.catalog.snapshots import ancestors, stamped
from lakewarden.engine.rows.position_deletes import is_hide, named_positions
from lakewarden.engine.rows.redaction import Veil
from lakewarden.errors import LakewardenError, OperationNotFound
from lakewarden.features.erasure.requests.request_keys import fields_of
from lakewarden.lifecycle.basics import SPARK_SQL, Stamp
from lakewarden.lifecycle.journal import Progress
from lakewarden.records.erasure import Evidence, EvidenceKind

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from lakewarden.lifecycle.ground import Reader

_EXPIRED = -1  # stands for a snapshot that has expired before anybody wrote its id down
_Moment = tuple[int | None, int | None]  # the snapshot that did it, and the last one before


def lost_rows(lake: Reader, name: str, table: Table, request: str) -> list[str]:
    """In words, for each branch, how many rows of a request do not come back, and why."""
    uuid = str(table.metadata.table_uuid)
    told = lake.state.erasure.evidence([EvidenceKind.HIDDEN], request=request, uuid=uuid)
    veil = Veil.of(table.metadata, fields_of(lake, uuid, [request]))
    found: Counter[tuple[str, _Moment]] = Counter()
    unknown: dict[str, str] = {}
    for evidence in (each for each in told if not each.document.get("carried")):
        branch = str(evidence.document["branch"])
        since = hidden_by(lake, table, evidence)
        line = line_of(table, branch, since)
        if since is None or since not in line:
            if since is not None and table.snapshot_by_id(since) is None and _are_gone(lake, table, branch, told):
                unknown[branch] = "the version that hid them has expired, and so have files that had them"
            continue  # never hidden there after all, or the branch went back to before: then nothing is lost
        try:
            for moment, rows in _lost(lake, name, table, request, evidence, line):
                found[branch, moment] += rows
        except LakewardenError as error:
            unknown[branch] = veil.text(error.message)
    lost = [_told(name, table, branch, moment, rows) for (branch, moment), rows in found.items() if rows]
    return lost + [
        f"{name}: it cannot be told whether all rows come back on branch {branch}: {why}"
        for branch, why in unknown.items()
    ]


def _are_gone(lake: Reader, table: Table, branch: str, told: Sequence[Evidence]) -> bool:
    """Whether a branch no longer has a data file in which rows were hidden, and none is known to have replaced it."""
    if any(evidence.document.get("carried") for evidence in told):
        return False
    live = {place_digest(file.path) for file in lake.files.of(table, table.snapshot_by_name(branch)).bare}
    files = [file for evidence in told if evidence.document["branch"] == branch for file in evidence.document["files"]]
    return any(file["data"] not in live for file in files if "data" in file)


def _lost(
    lake: Reader, name: str, table: Table, request: str, evidence: Evidence, line: Sequence[int]
) -> Iterator[tuple[_Moment, int]]:
    """When how many rows were lost, of those that one action hid."""
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
        except LakewardenError:
            continue  # the hide file is gone, with the last version that had it: what it named is not known
        for data in hidden_in.keys() & files.by_path.keys():
            for delete in (delete for delete in files.by_path[data].deletes if not is_hide(delete.path)):
                named_positions(storage, delete, [data])  # one that cannot be read may name rows that were hidden
        for data in hidden_in.keys() - files.by_path.keys():
            yield _moment(lake, table, line, data), int(file.get("hides", {}).get(request, 0))


def _moment(lake: Reader, table: Table, line: Sequence[int], path: str) -> _Moment:
    """The snapshot of a line, newest first, that let a file go, and the last that has it."""
    after = None
    for snapshot in line:
        files = lake.files.of(table, table.snapshot_by_id(snapshot))
        if path in {*(file.path for file in files.bare), *(delete.path for delete in files.deletes)}:
            return after, snapshot
        after = snapshot
    return after, None


def line_of(table: Table, branch: str, since: int | None) -> list[int]:
    """A branch's history, newest first, back to a snapshot; empty where there is no such branch."""
    ref = table.metadata.refs.get(branch)
    line: list[int] = []
    for snapshot in ancestors(table, ref.snapshot_id) if ref else ():
        line.append(snapshot)
        if snapshot == since:
            break
    return line


def hidden_by(lake: Reader, table: Table, evidence: Evidence) -> int | None:
    """The snapshot that hid the rows; none where that never came about.

    A run that was killed right after its commit could not write it down. Once that snapshot has expired, the journal
    tells that the action was found done.
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


def _told(name: str, table: Table, branch: str, moment: _Moment, rows: int) -> str:
    by, last = moment
    snapshot = table.snapshot_by_id(by) if by is not None else None
    what = f" ({snapshot.summary.operation.value})" if snapshot and snapshot.summary else ""
    before = f"snapshot {last} still has them" if last is not None else "the versions before have expired"
    counted = f"{rows:,} row{'' if rows == 1 else 's'}"
    return f"{name}: {counted} on branch {branch} do not come back: snapshot {by}{what} wrote them anew; {before}"
