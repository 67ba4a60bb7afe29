"""Comparisons over HTTP at the addresses that scripts already use: `/api/v1/compare/datasets/NAMESPACE/TABLE/…`."""

from __future__ import annotations

from typing import Annotated

from fastapi import FastAPI, Query, Response

from lakewarden.display import json_bytes
from lakewarden.doors.compat.iceberg_catalog import version_of
from lakewarden.doors.documents import answered
from lakewarden.features.compare.answer import DataComparison
from lakewarden.features.compare.data import Data
from lakewarden.features.compare.schema import Schema, SchemaComparison
from lakewarden.warden import Warden

_PATH = "/api/v1/compare/datasets/{namespace}/{table}"
_FROM = Query(description="A tag, branch, snapshot id or ISO time.")
_TO = Query(description="A tag, branch, snapshot id or ISO time; the head of main by default.")


def install(app: FastAPI, warden: Warden) -> None:
    """Add the two routes to an application."""

    @app.get(
        f"{_PATH}/schema",
        tags=["compare"],
        summary="Compare the schemas of two versions of a table",
        operation_id="compare_dataset_schema",
        response_model=SchemaComparison,
    )
    def schema(
        namespace: str,
        table: str,
        from_version: Annotated[str, _FROM],
        to_version: Annotated[str | None, _TO] = None,
    ) -> Response:
        asked = Schema(table=version_of(namespace, table, None), from_version=from_version, to_version=to_version)
        return _response(answered(warden.ask(asked), SchemaComparison))

    @app.get(
        f"{_PATH}/data",
        tags=["compare"],
        summary="Compare the rows of two versions of a table",
        operation_id="compare_dataset_data",
        response_model=DataComparison,
    )
    def data(
        namespace: str,
        table: str,
        from_version: Annotated[str, _FROM],
        to_version: Annotated[str | None, _TO] = None,
        sample_size: Annotated[int, Query(ge=0, le=1_000)] = 10,
    ) -> Response:
        asked = Data(
            table=version_of(namespace, table, None),
            from_version=from_version,
            to_version=to_version,
            sample_size=sample_size,
        )
        return _response(answered(warden.ask(asked), DataComparison))


def _response(document: object) -> Response:
    return Response(json_bytes(document), media_type="application/json")
