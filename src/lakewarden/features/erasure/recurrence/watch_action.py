"""Searches new data for erased values that came back.

Of closed requests only digests of the values are known. The key columns of new files are read once; if an erased value
is found, its request and the number of rows are reported. A file with such values is searched again each time, until
a new request covers them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from lakewarden.engine.rows.new_since import Arrival, Mark, arrivals, fingerprint
from lakewarden.engine.rows.redaction import Redaction
from lakewarden.errors import StalePlan, TracesLeft
from lakewarden.features.erasure.recurrence.returned_values import Returned, read_all, register
from lakewarden.lifecycle.action import Action, Estimate, Outcome
from lakewarden.lifecycle.failpoints import reach
from lakewarden.lifecycle.plan import Plan
from lakewarden.lifecycle.planned_files import FileList, PlannedFile
from lakewarden.lifecycle.requirement import TableIs, table_lease
from lakewarden.quantities import counted
from lakewarden.records.erasure import ErasureRequest, ErasureState, Evidence, EvidenceKind

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from lakewarden.config import Declared, Settings
    from lakewarden.engine.base.table_name import TableName
    from lakewarden.lifecycle.ground import Reader, Writer
    from lakewarden.records.erasure import Recognizer

WATCH = "watch"
_BYTES_A_SECOND = 50_000_000
_MARGIN = timedelta(hours=1)  # a search may not have known requests that were closed shortly before it
_NAMED = 3  # requests that a message names


@dataclass(frozen=True)
class ToWatch:
    """The new files of a table, and the requests to search for."""

    table: Table
    recognizer: Recognizer
    since: Mark
    files: Sequence[Arrival]
    recent: Sequence[ErasureRequest]
    """Recently closed requests."""

    @property
    def fields(self) -> frozenset[int]:
        return frozenset(field for field, _ in self.recognizer.keys)


def declared(settings: Settings, name: TableName) -> Declared:
    """Whether the policy says to watch a table, and its source. The default is yes, because it costs little."""
    return settings.resolve(name.lake, name.within_lake, "erasure")["watch"]


def look(lake: Reader, name: TableName | str) -> ToWatch | None:
    """What to search; none if the table has no closed requests."""
    table = lake.tables.load(name)
    before = _before(lake, table)
    recognizer = lake.state.erasure.recognizer(str(table.metadata.table_uuid))  # last, to include all of them
    if not recognizer.keys:
        return None
    files = arrivals(table, before.since, before.unsettled)
    return ToWatch(table, recognizer, before.since, files, before.recent)


def plan_for(lake: Reader, kind: str, name: TableName, again: bool = False) -> Plan:
    """One action that searches all new files of a table; none if there are no new files."""
    sight = look(lake, name)
    if sight is None:
        return Plan(kind, str(name))
    target, metadata = str(name), sight.table.metadata
    redaction = Redaction.of(metadata, sight.fields)
    files = FileList.of(PlannedFile(redaction.path(file.path), file.bytes, file.content) for file in sight.files)
    if not files.count:
        return Plan(kind, target)
    now = Mark.now(metadata, Mark())
    head = metadata.current_snapshot_id
    uuid = str(metadata.table_uuid)
    action = Action(
        verb=WATCH,
        subject=target,
        lease=table_lease(uuid),
        says=f"search {counted(files.count, 'new file')} for erased values",
        arguments={
            "uuid": uuid,
            "sequence": now.sequence,
            "head": None if head is None else str(head),
            "again": again,
        },
        requires=(TableIs(target, uuid),),
        estimate=Estimate(
            files=files.count,
            bytes=files.bytes,
            rows=sum(file.rows for file in sight.files),
            seconds=round(files.bytes / _BYTES_A_SECOND, 1),
        ),
        files=files,
    )
    return Plan(kind, target, (action,))


def holds(action: Action, lake: Reader) -> bool:
    """Whether everything up to the plan was searched, and every value that came back has a new request."""
    before = _before(lake, lake.tables.load(action.subject))
    head = None if action.arguments["head"] is None else action.number("head")
    return not before.unsettled and before.since.covers(action.number("sequence"), head)


def apply(action: Action, lake: Writer) -> Outcome:
    """Search and record how far; values that came back raise an error unless new requests are registered for them."""
    at = lake.clock()  # requests that close later are for the next search
    sight = look(lake, action.subject)
    if sight is None:
        raise StalePlan(f"{action.subject} has no closed requests any more", "Plan again.")
    redaction = Redaction.of(sight.table.metadata, sight.fields)
    with redaction.of_errors():
        seen = read_all(lake, action.subject, sight.recognizer, sight.files, sight.since)
    uuid = str(sight.table.metadata.table_uuid)
    came_back = seen.without(lake.state.erasure.hidden(uuid) if seen.returned else ())
    name = lake.tables.name(action.subject)
    asked = register(lake, name, uuid, came_back, at) if action.arguments["again"] else {}
    reach("erasure.asked-again")
    document = _document(sight, came_back, asked, redaction, at) | {"not_read": seen.unreadable}
    requests = tuple(sorted(came_back))
    lake.state.erasure.record(
        Evidence(
            EvidenceKind.WATCHED, action.subject, uuid, lake.stamp.operation, lake.stamp.action, at, requests, document
        )
    )
    if came_back.keys() - asked.keys():
        raise _came_back(action.subject, document)
    return Outcome(
        {
            "files_read": seen.files,
            "rows_read": seen.rows,
            "rows_came_back": sum(one.rows for one in came_back.values()),
            "requests_registered": len(asked),
            **({"registered": ", ".join(asked.values())} if asked else {}),
        }
    )


@dataclass(frozen=True)
class _Before:
    """How far a table was searched for all closed requests, and the files with values that came back."""

    since: Mark
    unsettled: frozenset[str]
    recent: Sequence[ErasureRequest]


def _before(lake: Reader, table: Table) -> _Before:
    uuid = str(table.metadata.table_uuid)
    watched = lake.state.erasure.evidence([EvidenceKind.WATCHED], uuid=uuid)
    last = watched[-1] if watched else None
    recent = lake.state.erasure.list([ErasureState.CLOSED], uuid, last.at - _MARGIN if last else None)
    if last is None:
        return _Before(Mark.earliest(_proofs(lake, table, {request.id for request in recent})), frozenset(), recent)
    unknown = {request.id for request in recent} - set(last.document["recent"])
    mark = Mark(last.document["sequence"], frozenset(last.document["snapshots"]))
    since = Mark.earliest([mark, *_proofs(lake, table, unknown)])
    return _Before(since, frozenset(last.document["unsettled"]), recent)


def _proofs(lake: Reader, table: Table, requests: Collection[str]) -> list[Mark]:
    """The state of the table at the proofs that closed the requests."""
    if not requests:
        return []
    marks: dict[str, Mark] = {}
    for proof in lake.state.erasure.evidence([EvidenceKind.PROVED], uuid=str(table.metadata.table_uuid)):
        if proof.document.get("clean"):
            marks |= dict.fromkeys(proof.requests, _proof_mark(table, proof.document))
    return [marks.get(request, Mark()) for request in requests]


def _proof_mark(table: Table, document: Mapping[str, Any]) -> Mark:
    if document.get("sequence"):
        return Mark(int(document["sequence"]))
    return Mark.at(table, document.get("refs", {}).values())


def _document(
    sight: ToWatch, came_back: Mapping[str, Returned], asked: Mapping[str, str], redaction: Redaction, at: datetime
) -> dict[str, Any]:
    """The evidence: how far was searched, and what came back, without values."""
    mark = Mark.now(sight.table.metadata, sight.since, sight.files)
    unsettled = {path for id, one in came_back.items() if id not in asked for path in one.files}
    return {
        "sequence": mark.sequence,
        "snapshots": sorted(mark.snapshots),
        "recent": [one.id for one in sight.recent if one.closed_at and one.closed_at > at - _MARGIN],
        "files": len(sight.files),
        "bytes": sum(file.bytes for file in sight.files),
        "came_back": [
            {
                "request": id,
                "rows": one.rows,
                "values": one.number,
                "files": sorted(redaction.path(path) for path in one.files),
                "again": asked.get(id, ""),
            }
            for id, one in sorted(came_back.items())
        ],
        "unsettled": sorted(fingerprint(path) for path in unsettled),
    }


def _came_back(table: str, document: Mapping[str, Any]) -> TracesLeft:
    found = [one for one in document["came_back"] if not one["again"]]
    rows, values = sum(one["rows"] for one in found), sum(one["values"] for one in found)
    files = {path for one in found for path in one["files"]}
    named = ", ".join(one["request"] for one in found[:_NAMED])
    more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    return TracesLeft(
        f"{table}: {counted(values, 'value')} came back after erasure ({named}{more}): "
        f"{counted(rows, 'row')} in {counted(len(files), 'new file')}",
        f"lakewarden erasure watch {table} --again registers new requests for them; "
        f"then lakewarden erasure purge {table} --apply.",
        came_back=found,
    )
