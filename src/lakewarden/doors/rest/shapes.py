"""The shape of the documents that REST answers with, for OpenAPI."""

from __future__ import annotations

from typing import Any

from fastapi import Response
from pydantic import BaseModel, ConfigDict, Field

from lakewarden.doors.documents import encode
from lakewarden.lifecycle.action import Estimate, Finding, Verdict
from lakewarden.lifecycle.planned_files import PlannedFile
from lakewarden.quantities import Bytes


class Document(Response):
    """One JSON document, valid whatever values a table holds."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return encode(content)


class _Shape(BaseModel):
    model_config = ConfigDict(extra="forbid")


class FilesDocument(_Shape):
    """The files that an action concerns."""

    count: int
    bytes: Bytes
    digest: str = Field(description="Stands for every one of them.")
    items: list[PlannedFile] = Field([], description='All of them; only with `"files": true`.')


class RequirementDocument(_Shape):
    """Something that must still be so, with what its kind tells: such as the table and its uuid."""

    model_config = ConfigDict(extra="allow")

    kind: str


class ActionDocument(_Shape):
    """One atomic step of a plan."""

    id: str
    verb: str
    subject: str = Field(description="What it is about: a table, by its full name.")
    lease: str = Field(description="What is held while it runs, so that no other operation changes it.")
    says: str = Field(description="What it does, for people.")
    arguments: dict[str, Any]
    requires: list[RequirementDocument] = Field(description="What must still be so when it is applied.")
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
    refused: list[Finding] = Field(description="What was asked for and cannot be done; the rest can.")
    verdicts: list[Verdict] = Field([], description="What was decided about each version, with every reason for it.")


class PlanAnswer(_Shape):
    """An operation that was planned and not applied."""

    plan: PlanDocument


class OperationDocument(_Shape):
    id: str | None = Field(description="None where there was nothing to do.")
    kind: str
    state: str


class ReportAnswer(_Shape):
    """An operation that was applied and verified."""

    operation: OperationDocument
    result: dict[str, Any] = Field(description="What was measured, added up over all actions.")
    findings: list[Finding]
    left: list[str] = Field([], description="What was not begun when the operation had enough; else not there.")


class ErrorDocument(BaseModel):
    """What went wrong; some errors tell more under further keys."""

    model_config = ConfigDict(extra="allow")

    code: str = Field(description="Stable, for programs.")
    message: str
    hint: str = Field(description="What to do.")


class ErrorAnswer(_Shape):
    error: ErrorDocument
