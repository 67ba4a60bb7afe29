"""Operations of the journal, in the form in which answers show them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lakewarden.display import Shown
from lakewarden.lifecycle.journal import Progress, Record
from lakewarden.lifecycle.plan import Plan
from lakewarden.lifecycle.states import UNFINISHED, State, Stop
from lakewarden.quantities import Bytes


@dataclass(frozen=True)
class OperationRow(Shown):
    """One operation in a list; `done` counts applied actions, `who` applied it, or else planned it."""

    id: str
    kind: str
    target: str
    state: str
    done: int
    actions: int
    who: str
    created_at: datetime
    finished_at: datetime | None
    problem: str


@dataclass(frozen=True)
class StepRow:
    """One action of an operation, its progress, and the files it affects."""

    action: str
    subject: str
    says: str
    state: str
    at: datetime | None
    problem: str
    files: int | None
    bytes: Bytes | None


@dataclass(frozen=True)
class FileRow:
    """One file that an action affects."""

    action: str
    path: str
    bytes: Bytes
    kind: str
    group: int


@dataclass(frozen=True)
class OperationDetail(Shown):
    """One operation in full."""

    id: str
    plan_id: str
    kind: str
    target: str
    state: str
    planned_by: str
    applied_by: str
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    stop_requested: str | None
    request: dict[str, Any]
    steps: list[StepRow]
    findings: list[str]
    warnings: list[str]
    result: dict[str, Any]
    error: dict[str, Any]
    files: list[FileRow]
    """Only with --files."""


def row(record: Record) -> OperationRow:
    return OperationRow(
        id=record.id,
        kind=record.kind,
        target=record.target,
        state=str(record.state),
        done=sum(step.progress in (Progress.DONE, Progress.VERIFIED) for step in record.steps),
        actions=len(record.steps),
        who=record.applied_by or record.actor,
        created_at=record.created_at,
        finished_at=record.finished_at,
        problem=_problem(record.error) or _stop_requested(record),
    )


def detail(record: Record, with_files: Plan | None = None) -> OperationDetail:
    return OperationDetail(
        id=record.id,
        plan_id=record.plan.id,
        kind=record.kind,
        target=record.target,
        state=str(record.state),
        planned_by=record.actor,
        applied_by=record.applied_by,
        created_at=record.created_at,
        started_at=record.started_at,
        finished_at=record.finished_at,
        stop_requested=record.stop_requested and str(record.stop_requested),
        request=json.loads(record.request),
        steps=_steps(record),
        findings=[f"{finding.subject}: {finding.message}" for finding in record.findings],
        warnings=list(record.plan.warnings),
        result=dict(record.result or {}),
        error=dict(record.error or {}),
        files=[
            FileRow(action.id, file.path, file.bytes, file.kind, file.group)
            for action in (with_files.actions if with_files else ())
            for file in action.files.items
        ],
    )


def _steps(record: Record) -> list[StepRow]:
    files = {action.id: action.files for action in record.plan.actions if action.files.count}
    return [
        StepRow(
            action=step.action,
            subject=step.subject,
            says=step.says,
            state=str(step.progress),
            at=step.at,
            problem=_problem(step.error),
            files=files[step.action].count if step.action in files else None,
            bytes=files[step.action].bytes if step.action in files else None,
        )
        for step in record.steps
    ]


def _stop_requested(record: Record) -> str:
    if record.stop_requested is None or record.state not in UNFINISHED:
        return ""
    if record.state is State.PAUSED and record.stop_requested is Stop.PAUSE:
        return "paused until it is resumed by its id"
    return f"{record.stop_requested} requested"


def _problem(error: Any) -> str:
    return str(error["message"]) if error else ""
