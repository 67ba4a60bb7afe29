"""Health checks of the server: whether it is alive, and whether it is ready."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from fastapi import FastAPI, Response
from pydantic import BaseModel

from lakewarden.doors.rest.shapes import Document
from lakewarden.errors import LakewardenError
from lakewarden.lifecycle.basics import Check
from lakewarden.warden import Warden

TAG = "health"
log = logging.getLogger(__name__)


class Alive(BaseModel):
    alive: bool


class Readiness(BaseModel):
    """Whether all dependencies answer; `checks` lists each of them."""

    ready: bool
    checks: list[Check]


def install(app: FastAPI, warden: Warden) -> None:
    """Add the two health routes."""

    @app.get(
        "/healthz", tags=[TAG], summary="Whether the process is alive", operation_id="healthz", response_model=Alive
    )
    def healthz() -> Response:
        return Document({"alive": True})

    @app.get(
        "/readyz",
        tags=[TAG],
        summary="Whether every lake's catalog answers and the control database opens",
        operation_id="readyz",
        response_model=Readiness,
        responses={503: {"model": Readiness, "description": "Something does not answer."}},
    )
    def readyz() -> Response:
        found = readiness(warden)
        return Document(found.model_dump(), status_code=200 if found.ready else 503)


def readiness(warden: Warden) -> Readiness:
    """Check each dependency with its cheapest call."""
    ground = warden.ground
    checks = [_check(f"{lake}: catalog", partial(ground.catalogs.namespaces, lake)) for lake in ground.settings.lakes]
    checks.append(_check("control database", lambda: ground.journal.list(limit=1)))
    return Readiness(ready=all(check.state == "ok" for check in checks), checks=checks)


def _check(part: str, look: Callable[[], Any]) -> Check:
    try:
        look()
    except LakewardenError as error:
        return Check(part, "failed", error.message, error.hint)
    except Exception as defect:
        log.exception("%s does not answer", part)
        return Check(part, "failed", type(defect).__name__, "The server's log has the details.")
    return Check(part, "ok", "answers")
