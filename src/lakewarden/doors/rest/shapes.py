"""The documents that REST returns, for OpenAPI."""

from __future__ import annotations

from typing import Any

from fastapi import Response
from pydantic import BaseModel, ConfigDict, Field

from lakewarden.display import json_bytes
from lakewarden.lifecycle.action import Estimate, Finding, Verdict
from lakewarden.lifecycle.planned_files import PlannedFile
from lakewarden.quantities import Bytes


class Document(Response):
    """One JSON document, valid for all values of tables."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return json_bytes(content)


class _Shape(BaseModel):
    model_config = ConfigDict(extra="forbid")


class FilesDocument(_Shape):
    """The files that an action affects."""

    count: int
    bytes: Bytes
    digest: str = Field(description="A digest of all of them.")
    items: list[PlannedFile] = Field([], description='All files; only with `"files": true`.')


class RequirementDocument(_Shape):
    """A condition that must still hold, with further keys by kind, such as the table and its uuid."""

    model_config = ConfigDict(extra="allow")

    kind: str


class ActionDocument(_Shape):
    """One atomic step of a plan."""

    id: str
    verb: str
    subject: str = Field(description="What it changes: the full name of a table.")
    lease: str = Field(description="The lease that it holds while it runs, so that no other operation interferes.")
    says: str = Field(description="What it does, for people.")
    arguments: dict[str, Any]
    requires: list[RequirementDocument] = Field(description="Conditions that must still hold when it is applied.")
    expects: dict[str, Any]
    estimate: Estimate
    route: str
    because: str
    files: FilesDocument


class PlanSummary(_Shape):
    actions: int
    subjects: int
    estimate: Estimate


class PlanDocument(_Shape):
    """What an operation would do."""

    id: str = Field(description="Apply it with this id at /api/v1/operation/apply.")
    kind: str
    target: str
    actions: list[ActionDocument]
    summary: PlanSummary
    warnings: list[str]
    refused: list[Finding] = Field(description="Requested parts that are not possible; the rest is.")
    verdicts: list[Verdict] = Field([], description="The decision on each version, with all reasons.")
    details: dict[str, Any] = Field({}, description="What the plan is derived from, such as partitions of a database.")


class PlanAnswer(_Shape):
    """An operation that was planned and not applied."""

    plan: PlanDocument


class OperationDocument(_Shape):
    id: str | None = Field(description="Null if there was nothing to do.")
    kind: str
    state: str


class ReportAnswer(_Shape):
    """An operation that was applied and verified."""

    operation: OperationDocument
    result: dict[str, Any] = Field(description="Measured results, summed over all actions.")
    findings: list[Finding]
    left: list[str] = Field([], description="What was not started before the limit was reached; absent if none.")


class ErrorDocument(BaseModel):
    """An error; some errors have further keys."""

    model_config = ConfigDict(extra="allow")

    code: str = Field(description="Stable, for programs.")
    message: str
    hint: str = Field(description="What to do.")


class ErrorAnswer(_Shape):
    error: ErrorDocument
