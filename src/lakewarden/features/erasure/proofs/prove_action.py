"""Proves that a table holds nothing of the values to erase, and closes requests that are proved in all their tables.

The scan is in `engine/proof/scan.py` and separate from the search that finds what to rewrite. Its result is always
recorded. A request is closed only if the newest proof of each of its tables is clean; then its values are deleted.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from lakewarden.engine.base.support import refuse_unsupported
from lakewarden.engine.commit.publish import check_identity
from lakewarden.engine.files.reachable import reachable_set
from lakewarden.engine.proof.scan import prove, size
from lakewarden.engine.rows.redaction import Redaction
from lakewarden.errors import BrokenTable, StalePlan, TracesLeft
from lakewarden.features.erasure.proofs.forgotten_values import values_of
from lakewarden.features.erasure.proofs.later_values import cover_and_refuse, later_values
from lakewarden.features.erasure.proofs.proof_records import NOT_SEARCHED, Proofs, ThisRun, to_close
from lakewarden.features.erasure.proofs.traces import traces_left
from lakewarden.features.erasure.requests.action_requests import record_evidence, still_open
from lakewarden.features.erasure.requests.checkpoints import checkpoints_elsewhere
from lakewarden.features.erasure.requests.current_names import find_table
from lakewarden.features.erasure.requests.mark_action import unmark
from lakewarden.features.erasure.requests.request_keys import fields_of, lost_keys
from lakewarden.features.erasure.requests.spelling import respell
from lakewarden.features.orphan.age import age_of_orphans
from lakewarden.lifecycle.action import Action, Estimate, Outcome
from lakewarden.lifecycle.failpoints import reach
from lakewarden.lifecycle.requirement import TableIs, table_lease
from lakewarden.quantities import show_size
from lakewarden.records.erasure import EvidenceKind

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from lakewarden.engine.base.table_name import TableName
    from lakewarden.engine.proof.scan import Proof
    from lakewarden.lifecycle.ground import Reader, Writer
    from lakewarden.records.erasure import ErasureRequest

PROVE = "prove"
_OWN_RECORDS = (
    "the control database and the log files of the machine that closed the request were searched in the same step, and "
    "the values replaced there: texts that stand out wherever they are, short texts and numbers where values are"
)
_BYTES_PER_SECOND = 50 << 20  # a guess, for the estimate only


def action_for(
    lake: Reader, name: TableName, table: Table, requests: Sequence[str], together: Sequence[str] = ()
) -> Action:
    """The action that searches everything stored for a table for the values of these requests.

    The same operation also proves the tables in `together`, by uuid: no earlier proof of them counts.
    """
    uuid = str(table.metadata.table_uuid)
    refuse_unsupported(table, name)
    with suppress(BrokenTable):  # the proof names what it cannot read
        reachable_set(table)  # refused if files are in a format that the proof does not read
    lost = lost_keys(table, lake.state.erasure.many(requests))
    redaction = Redaction.of(table.metadata, fields_of(lake, uuid, requests))
    with redaction.of_errors():
        objects, total = size(table, lake.storage(name.lake))
    return Action(
        verb=PROVE,
        subject=str(name),
        lease=table_lease(uuid),
        says=f"search {objects:,} objects ({show_size(total)}) for values to erase",
        arguments={
            **_arguments(lake, uuid, requests, together),
            **({"not_covered": tuple(lost)} if lost else {}),  # now: the purge expires the versions that show it
        },
        requires=(TableIs(str(name), uuid),),
        estimate=Estimate(files=objects, bytes=total, seconds=round(total / _BYTES_PER_SECOND, 1)),
    )


def action_for_gone(
    lake: Reader, table: str, uuid: str, requests: Sequence[str], together: Sequence[str] = ()
) -> Action:
    """The action that records that a table is gone, so that nothing can be proved about it."""
    return Action(
        verb=PROVE,
        subject=table,
        lease=table_lease(uuid),
        says="record that the table is gone and that its files were not searched",
        arguments={**_arguments(lake, uuid, requests, together), "gone": True},
    )


def is_proved(lake: Reader, table: Table, requests: Sequence[str]) -> bool:
    """Whether the newest proof of each of these requests is clean and the table has not changed since."""
    proofs, uuid = Proofs(lake, requests), str(table.metadata.table_uuid)
    newest = (proofs.clean(request, uuid) for request in requests)
    return all(proof is not None and proofs.is_of(proof, table) for proof in newest)


def holds(action: Action, lake: Reader) -> bool:
    """Whether this proof was made and clean, and every request that it completes is closed.

    A proof of an earlier run is made again if it is still needed and the table has changed since.
    """
    proved, uuid = [EvidenceKind.PROVED], str(action.arguments["uuid"])
    proofs = lake.state.erasure.evidence(proved, uuid=uuid, documents=False)
    operations = dict.fromkeys(proof.operation for proof in proofs if proof.action == action.id)
    full = [proof for by in operations for proof in lake.state.erasure.evidence(proved, uuid=uuid, operation=by)]
    mine = [proof for proof in full if proof.action == action.id and proof.document["clean"]]
    if not mine:
        return False
    operation = mine[-1].operation
    known = lake.kept(ThisRun).proved
    if action.id not in known and not Proofs(lake, action.texts("requests")).are_current(uuid):
        return False
    known.add(action.id)
    return not _to_close(lake, action, operation)


def apply(action: Action, lake: Writer) -> Outcome:
    """Search, record the result, and close requests that are proved; traces raise an error that lists the places."""
    requests = still_open(action, lake)
    if action.arguments.get("gone"):
        return _gone(action, lake, requests)
    table = lake.tables.load(action.subject)
    proof = _looked(action, lake, table, requests)
    record_evidence(lake, action, EvidenceKind.PROVED, requests, _document(action, table, proof))
    reach("prove.recorded")
    if not proof.clean:
        raise traces_left(action.subject, table, proof, requests, age_of_orphans(lake))
    closed = _close(lake, action)
    return Outcome({"objects_read": proof.objects, "bytes_read": proof.bytes, "requests_closed": closed})


def _gone(action: Action, lake: Writer, requests: Sequence[str]) -> Outcome:
    found = find_table(lake, action.subject, str(action.arguments["uuid"]))
    if found is not None:
        raise StalePlan(f"the plan is stale: {action.subject} exists, as {found}", "Plan again.")
    gone = f"{action.subject} is no longer in the catalog: files that may be left of it were not searched"
    method = [gone, _OWN_RECORDS]
    document = {"clean": True, "gone": True, **NOT_SEARCHED, "method": method}
    record_evidence(lake, action, EvidenceKind.PROVED, requests, document)
    return Outcome({"objects_read": 0, "bytes_read": 0, "requests_closed": _close(lake, action)})


def _close(lake: Writer, action: Action) -> int:
    """Close the requests that are proved in all tables, which forgets their values; returns how many."""
    lake.kept(ThisRun).proved.add(action.id)
    ready = _to_close(lake, action, lake.stamp.operation)
    if ready:
        _refuse_checkpoints(lake, [request.id for request in ready])
        later = later_values(lake, ready)
        ready = [request for request in ready if request.id not in later]
        if ready:
            values = values_of(lake, ready)
            lake.logs.forget(values)
            reach("prove.logs")
            lake.state.erasure.close([request.id for request in ready], lake.clock(), values)
            reach("prove.closed")
            unmark(lake, ready)
        if later:
            cover_and_refuse(lake, action, later)
    return len(ready)


def _refuse_checkpoints(lake: Writer, requests: Sequence[str]) -> None:
    """Refuse to close requests whose values are checkpoints in tables that were made of theirs."""
    found = checkpoints_elsewhere(lake, requests)
    if found:
        where = "checkpoint of a backfill, in a snapshot summary or table property"
        raise TracesLeft(
            f"{', '.join(map(str, found))}: checkpoints of backfills still have values of {', '.join(requests)}",
            f"lakewarden erasure purge {' '.join(f'--request {request}' for request in requests)}",
            places=[{"object": str(name), "where": where} for name in found],
        )


def _looked(action: Action, lake: Writer, table: Table, requests: Sequence[str]) -> Proof:
    uuid = str(action.arguments["uuid"])
    check_identity(table, action.subject, uuid)
    respell(lake, lake.tables.name(action.subject), table, requests, skip_unreadable=True)  # the proof reports them
    keys = lake.state.erasure.hidden(uuid, requests)
    redaction = Redaction.of(table.metadata, [key.field_id for key in keys])
    with redaction.of_errors():
        return prove(
            table,
            keys,
            lake.storage(lake.tables.name(action.subject).lake),
            before=lake.clock() - age_of_orphans(lake),
            reload=lambda: lake.tables.load(action.subject),
            progress=lambda done, total: lake.progress(done, total, "bytes searched"),
        )


def _document(action: Action, table: Table, proof: Proof) -> dict[str, Any]:
    """The evidence: the method and everything that was found, without values."""
    return {
        "clean": proof.clean,
        "places": [asdict(place) for place in (*proof.places, *proof.young)],
        "not_read": [asdict(unread) for unread in proof.not_read],
        "young": len(proof.young),
        "objects": proof.objects,
        "bytes": proof.bytes,
        "by_kind": proof.by_kind,
        "method": [*proof.method, _OWN_RECORDS],
        "not_covered": list(action.texts("not_covered")),
        "snapshots": proof.snapshots,
        "metadata": proof.metadata,
        "refs": {name: ref.snapshot_id for name, ref in table.metadata.refs.items()},
        "sequence": getattr(table.metadata, "last_sequence_number", 0),  # format v1 has none
    }


def _to_close(lake: Reader, action: Action, operation: str) -> list[ErasureRequest]:
    return to_close(lake, action.texts("requests"), action.texts("together"), operation, lake.kept(ThisRun))


def _arguments(lake: Reader, uuid: str, requests: Sequence[str], together: Sequence[str]) -> dict[str, Any]:
    rounds = len(lake.state.erasure.evidence([EvidenceKind.PROVED], uuid=uuid, documents=False))
    # the round makes a later proof a different action
    return {"uuid": uuid, "requests": tuple(requests), "together": tuple(together), "round": rounds}
