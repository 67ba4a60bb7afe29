"""The requests of a planned action, and the evidence it records for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lakewarden.errors import StalePlan
from lakewarden.lifecycle.action import Action
from lakewarden.lifecycle.ground import Reader, Writer
from lakewarden.records.erasure import ErasureState, Evidence, EvidenceKind


def still_open(action: Action, lake: Reader) -> tuple[str, ...]:
    """The requests of an action; an error if one is no longer open, since its values were deleted."""
    requests = action.texts("requests")
    for request in lake.state.erasure.many(requests):
        if request.state is not ErasureState.OPEN:
            raise StalePlan(
                f"the plan is stale: request {request.id} is {request.state}", "Nothing more was done. Plan again."
            )
    return requests


def record_evidence(
    lake: Writer, action: Action, kind: EvidenceKind, requests: Sequence[str], document: Mapping[str, Any]
) -> None:
    """Record what an action did or found for requests in its table."""
    uuid, stamp = str(action.arguments["uuid"]), lake.stamp
    lake.state.erasure.record(
        Evidence(kind, action.subject, uuid, stamp.operation, action.id, lake.clock(), tuple(requests), document)
    )
