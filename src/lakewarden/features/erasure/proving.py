"""Proving that a table holds nothing more of what requests ask to erase, and closing those that are proved everywhere.

The scan is `engine/proof.py`'s, separate from the search that finds what to rewrite. What was found is written down
either way. A request is closed only when the newest proof of each of its tables is clean; its values are forgotten
then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from lakewarden.engine.proof import prove, size
from lakewarden.engine.publish import check_identity
from lakewarden.engine.veil import Veil
from lakewarden.errors import BrokenTable, LakewardenError, StalePlan, TableNotFound
from lakewarden.features.erasure.forgetting import forget_paths
from lakewarden.features.erasure.intent import evidence
from lakewarden.features.erasure.proofs import Proofs, fields_of, to_close
from lakewarden.features.erasure.spelling import respell
from lakewarden.features.erasure.traces import traces_left
from lakewarden.features.orphan.age import age_of_orphans
from lakewarden.lifecycle.failpoints import reach
from lakewarden.lifecycle.plan import Action, Estimate, Outcome
from lakewarden.lifecycle.requirement import TableIs
from lakewarden.lifecycle.tombstones import ErasureState, EvidenceKind
from lakewarden.quantities import show_size

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from lakewarden.engine.proof import Proof
    from lakewarden.engine.reference import TableName
    from lakewarden.features.erasure.proofs import ThisRun
    from lakewarden.lifecycle.ground import Reader, Writer
    from lakewarden.lifecycle.tombstones import ErasureRequest

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
        table=str(name),
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
        table=table,
        says="write down that the table is gone, and that nothing of it was looked through",
        arguments={**_arguments(lake, uuid, requests, together), "gone": True},
    )


def where_is(lake: Reader, table: str, uuid: str) -> TableName | None:
    """The name that a table has now: the one it had when it was asked for, or another one in its lake.

    None only where it is gone for sure: a table that cannot be read may be the one.
    """
    if lake.tables.uuid(table) == uuid:
        return lake.tables.name(table)
    names = lake.tables.names(lake.tables.name(table).lake)
    read = list(lake.tables.read_all(names, lambda name: (name, _uuid_or_why(lake, name))))
    found = next((name for name, what in read if what == uuid), None)
    unread = [(name, what) for name, what in read if isinstance(what, LakewardenError)]
    if found is None and unread:
        name, error = unread[0]
        why = f"{name} cannot be read: {error.message}"
        raise BrokenTable(
            f"{table} has another name now or is gone, which cannot be told while {why}",
            error.hint or "Mend that table, or drop it.",
        )
    return found


def is_proved(lake: Reader, table: Table, requests: Sequence[str]) -> bool:
    """Whether the newest proof about each of these requests was clean, and the table is what it was then."""
    proofs, uuid = Proofs(lake, requests), str(table.metadata.table_uuid)
    newest = (proofs.clean(request, uuid) for request in requests)
    return all(proof is not None and proofs.is_of(proof, table) for proof in newest)


def holds(action: Action, lake: Reader, run: ThisRun) -> bool:
    """Whether this very proof was made and was clean, and every request is closed that it completes.

    One that an earlier run made is made again where it is needed still and the table is not what it was.
    """
    proved, uuid = [EvidenceKind.PROVED], str(action.arguments["uuid"])
    told = lake.tombstones.evidence(proved, uuid=uuid, documents=False)
    operations = dict.fromkeys(proof.operation for proof in told if proof.action == action.id)
    full = [proof for by in operations for proof in lake.tombstones.evidence(proved, uuid=uuid, operation=by)]
    mine = [proof for proof in full if proof.action == action.id and proof.document["clean"]]
    if not mine:
        return False
    operation = mine[-1].operation
    known = run.of(operation).proved
    if action.id not in known and not Proofs(lake, requests_of(action)).are_current(uuid):
        return False
    known.add(action.id)
    return not _to_close(lake, action, operation, run)


def apply(action: Action, lake: Writer, run: ThisRun) -> Outcome:
    """Look, write down what was found, and close what is proved; traces are an error that tells where they are."""
    requests = still_open(action, lake)
    if action.arguments.get("gone"):
        return _gone(action, lake, requests, run)
    table = lake.tables.load(action.table)
    proof = _looked(action, lake, table, requests)
    if proof.clean:
        forget_paths(
            lake, action.table, table.metadata, lake.tombstones.hidden(str(table.metadata.table_uuid), requests)
        )
    evidence(lake, action, EvidenceKind.PROVED, requests, _document(table, proof))
    reach("prove.recorded")
    if not proof.clean:
        raise traces_left(action.table, table, proof, requests, age_of_orphans(lake))
    closed = _close(lake, action, run)
    return Outcome({"objects_read": proof.objects, "bytes_read": proof.bytes, "requests_closed": closed})


def _gone(action: Action, lake: Writer, requests: Sequence[str], run: ThisRun) -> Outcome:
    found = where_is(lake, action.table, str(action.arguments["uuid"]))
    if found is not None:
        raise StalePlan(f"the plan is stale: {action.table} is there, as {found}", "Plan again.")
    method = [f"{action.table} is no longer in the catalog: what may be left of its files was not looked through"]
    nothing = {"places": [], "not_read": [], "young": 0, "objects": 0, "bytes": 0, "by_kind": {}, "snapshots": 0}
    document = {"clean": True, "gone": True, **nothing, "method": method, "metadata": "", "refs": {}}
    evidence(lake, action, EvidenceKind.PROVED, requests, document)
    return Outcome({"objects_read": 0, "bytes_read": 0, "requests_closed": _close(lake, action, run)})


def _close(lake: Writer, action: Action, run: ThisRun) -> int:
    """Close the requests that are proved everywhere: their values are forgotten with that."""
    run.of(lake.stamp.operation).proved.add(action.id)
    ready = _to_close(lake, action, lake.stamp.operation, run)
    if ready:
        lake.tombstones.move_all([request.id for request in ready], ErasureState.CLOSED, lake.clock())
        reach("prove.closed")
    return len(ready)


def _looked(action: Action, lake: Writer, table: Table, requests: Sequence[str]) -> Proof:
    uuid = str(action.arguments["uuid"])
    check_identity(table, action.table, uuid)
    respell(lake, lake.tables.name(action.table), table, requests, skip_unreadable=True)  # which the proof reports
    keys = lake.tombstones.hidden(uuid, requests)
    veil = Veil.of(table.metadata, [key.field_id for key in keys])
    with veil.over_errors():
        return prove(
            table,
            keys,
            lake.storage(lake.tables.name(action.table).lake),
            before=lake.clock() - age_of_orphans(lake),
            reload=lambda: lake.tables.load(action.table),
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


def _to_close(lake: Reader, action: Action, operation: str, run: ThisRun) -> list[ErasureRequest]:
    together = str(action.arguments.get("together", "")).split(",")
    return to_close(lake, requests_of(action), together, operation, run)


def _uuid_or_why(lake: Reader, table: TableName) -> str | LakewardenError | None:
    """Which table has this name, or why that cannot be told; nothing where there is none any more."""
    try:
        return str(lake.tables.load(table).metadata.table_uuid)
    except TableNotFound:
        return None
    except LakewardenError as error:
        return error


def _arguments(lake: Reader, uuid: str, requests: Sequence[str], together: Sequence[str]) -> dict[str, Any]:
    told = lake.tombstones.evidence([EvidenceKind.PROVED], uuid=uuid, documents=False)
    rounds = len(told)  # the same again is another proof
    return {"uuid": uuid, "requests": ",".join(requests), "together": ",".join(together), "round": rounds}


def requests_of(action: Action) -> tuple[str, ...]:
    """The requests that a planned action is for."""
    return tuple(str(action.arguments["requests"]).split(","))


def still_open(action: Action, lake: Reader) -> tuple[str, ...]:
    """The requests of an action; refused where one has ended since, as its values are known no more."""
    requests = requests_of(action)
    for request in lake.tombstones.many(requests):
        if request.state is not ErasureState.OPEN:
            raise StalePlan(
                f"the plan is stale: request {request.id} is {request.state}", "Nothing more was done. Plan again."
            )
    return requests
