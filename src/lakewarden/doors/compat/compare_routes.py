"""Comparisons over HTTP at the addresses that scripts already use: `/api/v1/compare/datasets/NAMESPACE/TABLE/…`."""

from __future__ import annotations

from typing import Annotated

from fastapi import FastAPI, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from lakewarden.display import json_bytes
from lakewarden.doors.compat.iceberg_catalog import version_of
from lakewarden.doors.documents import answered
from lakewarden.features.compare.answer import DataComparison
from lakewarden.features.compare.data import Data
from lakewarden.features.compare.schema import Schema, SchemaComparison
from lakewarden.warden import Warden

_PATH = "/api/v1/compare/datasets/{namespace}/{table}"


class Versions(BaseModel):
    """Two versions of a table."""

    model_config = ConfigDict(extra="forbid")

    from_version: str = Field(description="A tag, branch, snapshot id or ISO time.")
    to_version: str | None = Field(
        None, description="A tag, branch, snapshot id or ISO time; the head of main by default."
    )


class VersionsAndSample(Versions):
    """Two versions of a table, and how many differing rows to show."""

    sample_size: int = Field(10, ge=0, le=1_000, description="Show at most this many differing rows of each kind.")


def install(app: FastAPI, warden: Warden) -> None:
    """Add the two routes to an application."""

    @app.get(
        f"{_PATH}/schema",
        tags=["compare"],
        summary="Compare the schemas of two versions of a table",
        operation_id="compare_dataset_schema",
        response_model=SchemaComparison,
    )
    def schema(namespace: str, table: str, asked: Annotated[Versions, Query()]) -> Response:
        given = Schema(table=version_of(namespace, table, None), **asked.model_dump())
        return _response(answered(warden.ask(given), SchemaComparison))

    @app.get(
        f"{_PATH}/data",
        tags=["compare"],
        summary="Compare the rows of two versions of a table",
        operation_id="compare_dataset_data",
        response_model=DataComparison,
    )
    def data(namespace: str, table: str, asked: Annotated[VersionsAndSample, Query()]) -> Response:
        given = Data(table=version_of(namespace, table, None), **asked.model_dump())
        return _response(answered(warden.ask(given), DataComparison))


def _response(document: object) -> Response:
    return Response(json_bytes(document), media_type="application/json")
