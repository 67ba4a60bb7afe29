"""Routes, derived from declarations: questions are GET, operations and controls are POST.

Endpoints are plain functions, which FastAPI runs on threads: what they call waits for catalogs and storage.
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
from lakewarden.doors.rest.parameters import (
    accepted,
    declared_part,
    said_to_apply,
    said_to_list_files,
    time_to_wait,
    works_on_this_machine,
)
from lakewarden.doors.rest.shapes import Document, ErrorAnswer, PlanAnswer, ReportAnswer
from lakewarden.lifecycle.report import Report
from lakewarden.lifecycle.request import Control, Operation, Question, Request, Setup
from lakewarden.warden import Warden

PREFIX = "/api/v1"
_ERRORS: dict[int | str, str] = {
    400: "The request is not as it should be.",
    404: "No such lake, table, version or operation.",
    409: "The lake's or the journal's state forbids it: a plan gone stale, a table held by another operation.",
    503: "A catalog, the storage, Spark or the control database does not answer.",
    500: "It failed, or a table is broken.",
    "default": "Any other error.",
}
_ONLY_LOCAL = "Done on the command line only, on the machine that it is for: here it always answers 403."

Endpoint = Callable[..., Response]


def add_capability(app: FastAPI, warden: Warden, declared: type[Request]) -> None:
    """Give one declaration its route."""
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
        response_description=_ONLY_LOCAL if local else "What came of it.",
        responses={status: {"model": ErrorAnswer, "description": text} for status, text in errors.items()},
        openapi_extra={"x-command-line-only": True} if local else None,
    )


def path_of(declared: type[Request]) -> str:
    address = declared.address()
    return f"{PREFIX}/{address.noun}/{address.verb}"


def method_of(declared: type[Request]) -> str:
    """Questions are GET, unless they take a document, which only a body can hold."""
    return "GET" if issubclass(declared, Question) and not declared.documents() else "POST"


def _answer_model(declared: type[Request]) -> Any:
    """What the answer looks like, for OpenAPI."""
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
        return f'{text}\n\n{kind}Answers with its plan and changes nothing without `"apply": true`.'
    return text


def _endpoint(warden: Warden, declared: type[Request]) -> Endpoint:
    if issubclass(declared, Question):
        place = Query() if method_of(declared) == "GET" else Body()
        return _taking(accepted(declared), place, _asking(warden, declared))
    if issubclass(declared, Operation):
        return _taking(accepted(declared), Body(), _operating(warden, declared))
    assert issubclass(declared, Control)
    return _taking(accepted(declared), Body(), _steering(warden, declared))


def _asking(warden: Warden, declared: type[Question[Any]]) -> Endpoint:
    def ask(asked: Question[Any], accept: str) -> Response:
        return _response(warden.ask(declared_part(declared, asked).to_show()), declared.answer_type(), accept)

    return ask


def _operating(warden: Warden, declared: type[Operation]) -> Endpoint:
    def operate(asked: Operation, accept: str) -> Response:
        planned = warden.plan(declared_part(declared, asked))
        if said_to_apply(asked):
            return Document(planned.apply(wait=time_to_wait(asked)).document())
        if not planned.is_empty:
            planned.store()
        return Document({"plan": planned.plan.document(said_to_list_files(asked))})

    return operate


def _steering(warden: Warden, declared: type[Control[Any]]) -> Endpoint:
    def steer(asked: Control[Any], accept: str) -> Response:
        return _response(warden.steer(declared_part(declared, asked)), declared.answer_type(), accept)

    return steer


def _response(answer: Any, kind: Any, accept: str) -> Response:
    """The JSON document of an answer; one that draws itself comes as it does, unless JSON is asked for."""
    if isinstance(answer, Drawn) and Document.media_type not in accept:
        return Response(answer.drawn(), media_type=answer.media_type)
    return Document(answered(answer, kind))


def _refusing(declared: type[Request]) -> Endpoint:
    def refuse() -> Response:
        address = declared.address()
        raise NotOverRest(f"{address} is not done over REST", f"On the machine it is for: lakewarden {address} --help")

    return refuse


def _taking(model: type[Request], place: Any, act: Endpoint) -> Endpoint:
    """The same function with the parameters that FastAPI reads a request into."""
    optional = not any(field.is_required() for field in model.model_fields.values())

    def endpoint(asked: Request, sent: fastapi.Request) -> Response:
        return act(asked, sent.headers.get("accept", ""))

    default = model() if optional and not issubclass(model, Question) else Parameter.empty
    asked = Parameter("asked", Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[model, place])
    sent = Parameter("sent", Parameter.KEYWORD_ONLY, annotation=fastapi.Request)
    endpoint.__signature__ = Signature([sent, asked])  # type: ignore[attr-defined]
    return endpoint
