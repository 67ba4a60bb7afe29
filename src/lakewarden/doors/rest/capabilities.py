"""Routes, derived from declarations: questions are GET, operations and controls are POST.

Endpoints are not async, so FastAPI runs them on threads: they wait for catalogs and storage.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, Signature, cleandoc
from typing import Annotated, Any

import fastapi
from fastapi import Body, FastAPI, Query, Response

from lakewarden import registry
from lakewarden.display import Drawn
from lakewarden.doors.documents import answered
from lakewarden.doors.rest.failures import NotOverRest
from lakewarden.doors.rest.parameters import accepted, declared_part, works_on_this_machine
from lakewarden.doors.rest.shapes import Document, ErrorAnswer, PlanAnswer, ReportAnswer
from lakewarden.lifecycle.report import Report
from lakewarden.lifecycle.request import Control, Operation, Question, Request, Setup
from lakewarden.warden import Planned, Warden

PREFIX = "/api/v1"
_ERRORS: dict[int | str, str] = {
    400: "The request is invalid.",
    404: "No such lake, table, version or operation.",
    409: "The state of the lake or the journal forbids it: a stale plan, a table that another operation holds.",
    503: "A catalog, the storage, Spark or the control database is unavailable.",
    500: "It failed, or a table is broken.",
    "default": "Any other error.",
}
_ONLY_LOCAL = "Only on the command line of the machine itself: this route always returns 403."

Endpoint = Callable[..., Response]


def add_capability(app: FastAPI, warden: Warden, declared: type[Request]) -> None:
    """Add the route of one declaration."""
    address, answer = declared.address(), _answer_model(declared)
    local = works_on_this_machine(declared)
    errors: dict[int | str, str] = {403: _ONLY_LOCAL} if local else _ERRORS
    endpoint, methods = _refusing(declared) if local else _endpoint(warden, declared), [method_of(declared)]
    for alias in registry.aliases(address.noun, address.verb):
        path = f"{PREFIX}/{address.noun}/{alias}"
        app.add_api_route(path, endpoint, methods=methods, response_model=None, include_in_schema=False)
    app.add_api_route(
        path_of(declared),
        endpoint,
        methods=methods,
        tags=[address.noun],
        summary=declared.says().rstrip("."),
        description=_description(declared, local),
        operation_id=f"{address.noun}_{address.verb}".replace("-", "_"),
        status_code=403 if local else 200,
        response_model=ErrorAnswer if local else answer,
        response_description=_ONLY_LOCAL if local else "The answer.",
        responses={status: {"model": ErrorAnswer, "description": text} for status, text in errors.items()},
        openapi_extra={"x-command-line-only": True} if local else None,
    )


def path_of(declared: type[Request]) -> str:
    address = declared.address()
    return f"{PREFIX}/{address.noun}/{address.verb}"


def method_of(declared: type[Request]) -> str:
    """GET for questions, unless they take a document, which requires a body."""
    return "GET" if issubclass(declared, Question) and not declared.documents() else "POST"


def _answer_model(declared: type[Request]) -> Any:
    """The type of the answer, for OpenAPI."""
    if issubclass(declared, Operation):
        return PlanAnswer | ReportAnswer
    assert issubclass(declared, Question | Control | Setup)
    kind = declared.answer_type()
    return ReportAnswer if kind is Report else kind


def _description(declared: type[Request], local: bool) -> str:
    text = cleandoc(declared.__doc__ or "")
    if local:
        return f"{text}\n\n{_ONLY_LOCAL}"
    if issubclass(declared, Operation):
        kind = "Destructive. " if declared.destructive else ""
        return f'{text}\n\n{kind}Returns its plan and changes nothing without `"apply": true`.'
    return text


def _endpoint(warden: Warden, declared: type[Request]) -> Endpoint:
    """A function with the parameters that FastAPI reads a request into."""
    model, place = accepted(declared), Query() if method_of(declared) == "GET" else Body()

    def endpoint(asked: Any, sent: fastapi.Request) -> Response:
        request, accept = declared_part(declared, asked), sent.headers.get("accept", "")
        match request:
            case Question():
                return _response(warden.ask(request.to_show()), request, accept)
            case Control():
                return _response(warden.steer(request), request, accept)
            case Operation():
                return _operated(warden.plan(request), asked)
        raise TypeError(f"{declared.__name__} has no endpoint")

    optional = not any(field.is_required() for field in model.model_fields.values())
    default = model() if optional and not issubclass(model, Question) else Parameter.empty
    asked = Parameter("asked", Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[model, place])
    sent = Parameter("sent", Parameter.KEYWORD_ONLY, annotation=fastapi.Request)
    endpoint.__signature__ = Signature([sent, asked])  # type: ignore[attr-defined]
    return endpoint


def _operated(planned: Planned, asked: Any) -> Response:
    if asked.rest_apply:
        return Document(planned.apply(wait=asked.rest_wait).document())
    if not planned.is_empty:
        planned.store()
    return Document({"plan": planned.plan.document(asked.rest_files)})


def _response(answer: Any, request: Question[Any] | Control[Any], accept: str) -> Response:
    """The JSON document of an answer; a drawn answer in its own media type, unless the caller accepts JSON."""
    if isinstance(answer, Drawn) and Document.media_type not in accept:
        return Response(answer.drawn(), media_type=answer.media_type)
    return Document(answered(answer, request.answer_type()))


def _refusing(declared: type[Request]) -> Endpoint:
    def refuse() -> Response:
        address = declared.address()
        raise NotOverRest(f"{address} is not available over REST", f"Use the command line: lakewarden {address} --help")

    return refuse
