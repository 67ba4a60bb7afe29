"""SQL over HTTP: `POST /api/v1/query`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Body, FastAPI, Response
from pydantic import BaseModel, ConfigDict, Field

from lakewarden.doors.rest.shapes import Document, ErrorAnswer, PlanDocument
from lakewarden.warden import Warden

TAG = "query"


class QueryBody(BaseModel):
    """One SELECT."""

    model_config = ConfigDict(extra="forbid")

    sql: str = Field(description="One SELECT statement.")
    engine: Literal["duckdb", "spark"] = Field("duckdb", description="What runs it, and whose SQL it is.")
    apply: bool = Field(False, description="Run what its functions change, instead of only planning it.")


class ColumnDocument(BaseModel):
    name: str
    type: str = Field(description="Its Arrow type.")


class QueryAnswer(BaseModel):
    """The rows of a statement."""

    columns: list[ColumnDocument]
    rows: list[list[Any]] = Field(description="The values of each row, in the order of the columns.")
    notes: list[str] = Field(description="What was left out.")
    plans: list[PlanDocument] = Field([], description='What functions would change; empty with `"apply": true`.')


def install(app: FastAPI, warden: Warden) -> None:
    """Add the route."""

    @app.post(
        "/api/v1/query",
        tags=[TAG],
        summary="Run one SELECT over tables and lists",
        description='Functions that change something only plan their operations, unless `"apply": true` is given.',
        operation_id="query",
        response_model=QueryAnswer,
        responses={
            status: {"model": ErrorAnswer, "description": text}
            for status, text in (
                (400, "The statement is invalid."),
                (404, "No such table."),
                ("default", "Any other error."),
            )
        },
    )
    def query(asked: Annotated[QueryBody, Body()]) -> Response:
        found = warden.queried(asked.sql, asked.engine, not asked.apply)
        columns = [{"name": column.name, "type": str(column.type)} for column in found.rows.schema]
        values = [column.to_pylist() for column in found.rows.columns]
        document: dict[str, Any] = {
            "columns": columns,
            "rows": [list(row) for row in zip(*values, strict=True)],
            "notes": list(found.notes),
            "plans": [plan.document(False) for plan in found.plans],
        }
        return Document(document)
