"""The snapshots that unfinished operations still need, so that nothing expires what another operation reads.

A failed operation can be resumed, too. It keeps what it reads, unless the same was planned again and begun since.
"""

from __future__ import annotations

from lakewarden.lifecycle.action import Action
from lakewarden.lifecycle.journal import JournalReader, Progress, Record
from lakewarden.lifecycle.requirement import RefAt, SnapshotKept, TableIs
from lakewarden.lifecycle.states import UNFINISHED, State

_ALL = 10**9


def snapshots_in_use(journal: JournalReader, besides: str = "") -> dict[str, dict[int, str]]:
    """For each table, the snapshots that unfinished operations require, each with an operation's id.

    Tables are keyed by name and by UUID. The operation `besides` is ignored. One query serves all tables.
    """
    in_use: dict[str, dict[int, str]] = {}
    for record in [*journal.list(states=sorted(UNFINISHED), limit=_ALL), *journal.failed_requiring(SnapshotKept.kind)]:
        if record.id != besides:
            for action in _not_yet_verified(record):
                for table, snapshot in _required(action, also_heads=record.state is not State.FAILED):
                    in_use.setdefault(table, {})[snapshot] = record.id
    return in_use


def _not_yet_verified(record: Record) -> list[Action]:
    verified = {step.action for step in record.steps if step.progress is Progress.VERIFIED}
    return [action for action in record.plan.actions if action.id not in verified]


def _required(action: Action, also_heads: bool) -> list[tuple[str, int]]:
    uuids = {need.table: need.uuid for need in action.requires if isinstance(need, TableIs)}
    needed = [
        (need.table, need.snapshot)
        for need in action.requires
        if isinstance(need, SnapshotKept | RefAt if also_heads else SnapshotKept) and need.snapshot is not None
    ]
    return needed + [(uuids[table], snapshot) for table, snapshot in needed if table in uuids]
