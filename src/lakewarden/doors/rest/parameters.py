"""The parameters of requests over REST: the declaration's fields and, for operations, whether to apply.

A field that names a file means a file of the machine where the command runs. Over REST that would be the server's, so
such fields are refused.
"""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, TypeVar, cast, get_args

from pydantic import BeforeValidator, Field, create_model, model_validator

from lakewarden.lifecycle.request import Control, Operation, Request, Setup
from lakewarden.quantities import Duration

Declared = TypeVar("Declared", bound=Request)

_NO_FILES = "Only on the command line: REST does not read or write files of the server."
_LARGEST = 2**63 - 1


def works_on_this_machine(declared: type[Request]) -> bool:
    """Whether a capability only works on the machine itself: it sets up an installation, or requires a file."""
    return issubclass(declared, Setup) or any(
        f.is_required() and _names_a_file(f.annotation) for f in declared.model_fields.values()
    )


def accepted(declared: type[Request]) -> type[Request]:
    """The model for a query or a body: the declaration, adapted to REST."""
    fields: dict[str, Any] = {
        name: (
            Annotated[None, BeforeValidator(_refuse_file)],
            Field(None, description=_NO_FILES, json_schema_extra={"x-command-line-only": True}),
        )
        for name, field in declared.model_fields.items()
        if _names_a_file(field.annotation)
    }
    if issubclass(declared, Control):
        fields["rest_apply"] = (bool, Field(False, alias="apply", description="Accepted, but without effect."))
    if issubclass(declared, Operation):  # under other names in Python, where `apply` is a method
        fields["rest_apply"] = (bool, Field(False, alias="apply", description="Apply the plan; otherwise only plan."))
        lists = "List every file of the plan, not only their number."
        fields["rest_files"] = (bool, Field(False, alias="files", description=lists))
        waits = "How long to wait for tables that other operations hold."
        shown: dict[str, Any] = {"default": "0s"}  # pydantic would show it in a form that is not accepted
        fields["rest_wait"] = (Duration, Field(timedelta(), alias="wait", description=waits, json_schema_extra=shown))
    address = declared.address()
    words = f"{address.noun}-{address.verb}".split("-")
    model: type[Request] = create_model(
        "".join(word.capitalize() for word in words),
        __base__=declared,
        __module__=declared.__module__,
        __validators__={
            "rest_is_unicode": model_validator(mode="before")(_only_unicode),  # type: ignore[dict-item]
            "rest_is_bounded": model_validator(mode="after")(_bounded),  # type: ignore[dict-item]
        },
        **fields,
    )
    return model


def declared_part(declared: type[Declared], asked: Request) -> Declared:
    """The request as other doors create it, from the validated parameters."""
    own = {name: getattr(asked, name) for name in declared.model_fields if name in asked.model_fields_set}
    return cast(Declared, declared.model_construct(set(own), **own))


def _names_a_file(annotation: Any) -> bool:
    if isinstance(annotation, type) and issubclass(annotation, Path):
        return True
    return any(_names_a_file(inner) for inner in get_args(annotation))


def _refuse_file(given: Any) -> None:
    if given is not None:
        raise ValueError("REST does not read or write files of the server; remove it")


def _only_unicode(given: Any) -> Any:
    """Refuse lone surrogates, which JSON can express and databases do not accept."""
    try:
        json.dumps(given, ensure_ascii=False, default=str).encode()
    except UnicodeEncodeError:
        raise ValueError("it contains text that is not valid Unicode") from None
    return given


def _bounded(asked: Request) -> Request:
    for name, value in asked:
        if isinstance(value, int) and abs(value) > _LARGEST:
            raise ValueError(f"{name} is too large")
    return asked
