"""Proving that a table holds nothing more of what requests ask to erase, and closing those that are proved everywhere.

The scan is `engine/proof/scan.py`'s, separate from the search that finds what to rewrite. What was found is recorded
either way. A request is closed only when the newest proof of each of its tables is clean; its values are forgotten
then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from lakewarden.engine.commit.publish import check_identity
from lakewarden.engine.proof.scan import prove, size
from lakewarden.engine.rows.redaction import Veil
from lakewarden.errors import StalePlan
from lakewarden.features.erasure.proofs.journal_paths import redact_paths
from lakewarden.features.erasure.proofs.proof_records import Proofs, ThisRun, to_close
from lakewarden.features.erasure.proofs.traces import traces_left
from lakewarden.features.erasure.requests.action_requests import record_evidence, requests_of, still_open
from lakewarden.features.erasure.requests.current_names import find_table
from lakewarden.features.erasure.requests.request_keys import fields_of
from lakewarden.features.erasure.requests.spelling import respell
from lakewarden.features.orphan.age import age_of_orphans
from lakewarden.lifecycle.action import Action, Estimate, Outcome
from lakewarden.lifecycle.failpoints import reach
from lakewarden.lifecycle.requirement import TableIs, table_lease
from lakewarden.quantities import show_size
from lakewarden.records.erasure import ErasureState, EvidenceKind

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from lakewarden.engine.base.table_name import TableName
    from lakewarden.engine.proof.scan import Proof
    from lakewarden.lifecycle.ground import Reader, Writer
    from lakewarden.records.erasure import ErasureRequest

PROVE = "prove"
_BYTES_PER_SECOND = 50 << 20  # a guess, for the estimate only


def action_for(
    lake: Reader, name: TableName, table: Table, requests: Sequence[str], together: Sequence[str] = ()
) -> Action:
    """To look through all that is stored of a table for what these requests ask to erase.

    Tables in `together`, by their uuid, are looked through by the same operation: no earlier proof of them counts.
    """
    uuid = str(table.metadata.table_uuid)
    veil = Veil.of(table.metadata, fields_of(lake, uuid, requests))
    with veil.over_errors():
        objects, total = size(table, lake.storage(name.lake))
    return Action(
        verb=PROVE,
        subject=str(name),
        lease=table_lease(uuid),
        says=f"look through {objects:,} objects ({show_size(total)}) for what is to be erased",
        arguments=_arguments(lake, uuid, requests, together),
        requires=(TableIs(str(name), uuid),),
        estimate=Estimate(files=objects, bytes=total, seconds=round(total / _BYTES_PER_SECOND, 1)),
    )


def action_for_gone(
    lake: Reader, table: str, uuid: str, requests: Sequence[str], together: Sequence[str] = ()
) -> Action:
    """To write down that a table is no more, so that nothing can be proved of it."""
    return Action(
        verb=PROVE,
        subject=table,
        lease=table_lease(uuid),
        says="write down that the table is gone, and that nothing of it was looked through",
        arguments={**_arguments(lake, uuid, requests, together), "gone": True},
    )


def is_proved(lake: Reader, table: Table, requests: Sequence[str]) -> bool:
    """Whether the newest proof about each of these requests was clean, and the table is what it was then."""
    proofs, uuid = Proofs(lake, requests), str(table.metadata.table_uuid)
    newest = (proofs.clean(request, uuid) for request in requests)
    return all(proof is not None and proofs.is_of(proof, table) for proof in newest)


def holds(action: Action, lake: Reader) -> bool:
    """Whether this very proof was made and was clean, and every request is closed that it completes.

    One that an earlier run made is made again where it is needed still and the table is not what it was.
    """
    proved, uuid = [EvidenceKind.PROVED], str(action.arguments["uuid"])
    told = lake.state.erasure.evidence(proved, uuid=uuid, documents=False)
    operations = dict.fromkeys(proof.operation for proof in told if proof.action == action.id)
    full = [proof for by in operations for proof in lake.state.erasure.evidence(proved, uuid=uuid, operation=by)]
    mine = [proof for proof in full if proof.action == action.id and proof.document["clean"]]
    if not mine:
        return False
    operation = mine[-1].operation
    known = lake.kept(ThisRun).proved
    if action.id not in known and not Proofs(lake, requests_of(action)).are_current(uuid):
        return False
    known.add(action.id)
    return not _to_close(lake, action, operation)


def apply(action: Action, lake: Writer) -> Outcome:
    """Look, write down what was found, and close what is proved; traces are an error that tells where they are."""
    requests = still_open(action, lake)
    if action.arguments.get("gone"):
        return _gone(action, lake, requests)
    table = lake.tables.load(action.subject)
    proof = _looked(action, lake, table, requests)
    if proof.clean:
        redact_paths(
            lake, action.subject, table.metadata, lake.state.erasure.hidden(str(table.metadata.table_uuid), requests)
        )
    record_evidence(lake, action, EvidenceKind.PROVED, requests, _document(table, proof))
    reach("prove.recorded")
    if not proof.clean:
        raise traces_left(action.subject, table, proof, requests, age_of_orphans(lake))
    closed = _close(lake, action)
    return Outcome({"objects_read": proof.objects, "bytes_read": proof.bytes, "requests_closed": closed})


def _gone(action: Action, lake: Writer, requests: Sequence[str]) -> Outcome:
    found = find_table(lake, action.subject, str(action.arguments["uuid"]))
    if found is not None:
        raise StalePlan(f"the plan is stale: {action.subject} is there, as {found}", "Plan again.")
    method = [f"{action.subject} is no longer in the catalog: what may be left of its files was not looked through"]
    nothing = {"places": [], "not_read": [], "young": 0, "objects": 0, "bytes": 0, "by_kind": {}, "snapshots": 0}
    document = {"clean": True, "gone": True, **nothing, "method": method, "metadata": "", "refs": {}}
    record_evidence(lake, action, EvidenceKind.PROVED, requests, document)
    return Outcome({"objects_read": 0, "bytes_read": 0, "requests_closed": _close(lake, action)})


def _close(lake: Writer, action: Action) -> int:
    """Close the requests that are proved everywhere: their values are forgotten with that."""
    lake.kept(ThisRun).proved.add(action.id)
    ready = _to_close(lake, action, lake.stamp.operation)
    if ready:
        lake.state.erasure.move_all([request.id for request in ready], ErasureState.CLOSED, lake.clock())
        reach("prove.closed")
    return len(ready)


def _looked(action: Action, lake: Writer, table: Table, requests: Sequence[str]) -> Proof:
    uuid = str(action.arguments["uuid"])
    check_identity(table, action.subject, uuid)
    respell(lake, lake.tables.name(action.subject), table, requests, skip_unreadable=True)  # which the proof reports
    keys = lake.state.erasure.hidden(uuid, requests)
    veil = Veil.of(table.metadata, [key.field_id for key in keys])
    with veil.over_errors():
        return prove(
            table,
            keys,
            lake.storage(lake.tables.name(action.subject).lake),
            before=lake.clock() - age_of_orphans(lake),
            reload=lambda: lake.tables.load(action.subject),
            progress=lambda done, total: lake.progress(done, total, "bytes looked through"),
        )


def _document(table: Table, proof: Proof) -> dict[str, Any]:
    """What is written down: how it was looked, and all that was found. It holds no value."""
    return {
        "clean": proof.clean,
        "places": [asdict(place) for place in (*proof.places, *proof.young)],
        "not_read": [asdict(unread) for unread in proof.not_read],
        "young": len(proof.young),
        "objects": proof.objects,
        "bytes": proof.bytes,
        "by_kind": proof.by_kind,
        "method": proof.method,
        "snapshots": proof.snapshots,
        "metadata": proof.metadata,
        "refs": {name: ref.snapshot_id for name, ref in table.metadata.refs.items()},
        "sequence": getattr(table.metadata, "last_sequence_number", 0),  # format v1 has none
    }


def _to_close(lake: Reader, action: Action, operation: str) -> list[ErasureRequest]:
    return to_close(lake, requests_of(action), action.texts("together"), operation, lake.kept(ThisRun))


def _arguments(lake: Reader, uuid: str, requests: Sequence[str], together: Sequence[str]) -> dict[str, Any]:
    told = lake.state.erasure.evidence([EvidenceKind.PROVED], uuid=uuid, documents=False)
    rounds = len(told)  # the same again is another proof
    return {"uuid": uuid, "requests": tuple(requests), "together": tuple(together), "round": rounds}
