"""Errors over HTTP: each has a status and a document `{"error": {"code", "message", "hint", …}}`."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from lakewarden.doors.logs import frames, redacted
from lakewarden.doors.rest.shapes import Document
from lakewarden.errors import BadValue, Conflict, LakewardenError, NotFound, Unavailable, WrongUse, did_you_mean

log = logging.getLogger(__name__)


class NotOverRest(WrongUse):
    """A capability that only works on the machine itself."""

    code = "not-over-rest"


class NoSuchRoute(NotFound):
    """An unknown path, or a method that it does not support."""

    code = "no-such-route"


_STATUS: tuple[tuple[type[LakewardenError], int], ...] = (  # the first that matches counts
    (NotOverRest, 403),
    (NotFound, 404),
    (WrongUse, 400),
    (Conflict, 409),
    (Unavailable, 503),
    (LakewardenError, 500),
)


def install(app: FastAPI) -> None:
    """Make an application answer every failure with a document."""

    @app.exception_handler(LakewardenError)
    def expected(request: Request, error: LakewardenError) -> Document:
        return _document(error, status_of(error))

    @app.exception_handler(RequestValidationError)
    def invalid(request: Request, error: RequestValidationError) -> Document:
        if isinstance(error.body, bytes):  # FastAPI does not parse a body without a JSON content type
            return _document(BadValue("the content type is not JSON", "Send Content-Type: application/json."), 400)
        problems = "; ".join(_described(problem) for problem in error.errors())
        return _document(BadValue(problems, f"/openapi.json describes the parameters of {request.url.path}."), 400)

    @app.exception_handler(HTTPException)
    def not_routed(request: Request, error: HTTPException) -> Document:
        return _document(_unrouted(app, request, error), error.status_code, error.headers)

    @app.exception_handler(Exception)
    def unexpected(request: Request, defect: Exception) -> Document:
        number = secrets.token_hex(4)
        log.error("incident %s at %s %s\n%s", number, request.method, request.url.path, redacted(frames(defect)))
        hint = f"The server's log has the details of incident {number}."
        return _document(LakewardenError("an unexpected error occurred", hint, incident=number), 500)


def status_of(error: LakewardenError) -> int:
    return next(status for kind, status in _STATUS if isinstance(error, kind))


def _document(error: LakewardenError, status: int, headers: Mapping[str, str] | None = None) -> Document:
    return Document({"error": error.document()}, status_code=status, headers=headers)


def _described(problem: Mapping[str, object]) -> str:
    """One problem with the name of its field, without whether it was in the query or the body."""
    place = problem["loc"]
    assert isinstance(place, tuple | list)
    field = ".".join(str(part) for part in place[1:]) if problem["type"] != "json_invalid" else ""
    return f"{field or 'request'}: {str(problem['msg']).removeprefix('Value error, ')}"


def _unrouted(app: FastAPI, request: Request, error: HTTPException) -> LakewardenError:
    path, known = request.url.path, list(app.openapi()["paths"])
    if error.status_code == 404:
        return NoSuchRoute(f"there is no {path}", did_you_mean(path, known, "/openapi.json lists all routes."))
    if error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "another method")
        return NoSuchRoute(f"{path} does not support {request.method}", f"Supported: {allowed}.")
    return LakewardenError(str(error.detail))
