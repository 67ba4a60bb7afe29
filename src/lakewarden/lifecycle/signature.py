"""The signature of a capability as a Python method, as shown by `help`."""

from __future__ import annotations

from datetime import timedelta
from functools import reduce
from inspect import Parameter, Signature
from operator import or_
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin

from lakewarden.lifecycle.request import Request


def signature_of(declared: type[Request]) -> Signature:
    """A declaration's fields as parameters: arguments by position, options by keyword only."""
    parameters = [
        Parameter(
            name,
            Parameter.POSITIONAL_OR_KEYWORD if name in declared.positional() else Parameter.KEYWORD_ONLY,
            default=Parameter.empty if field.is_required() else field.get_default(call_default_factory=True),
            annotation=_plain(field.annotation),
        )
        for name, field in declared.fields().items()
    ]
    return Signature(sorted(parameters, key=lambda parameter: parameter.kind))  # a mixin's options may come first


def _plain(annotation: Any) -> Any:
    """A type as a person would write it: without validators; durations and paths may be given as text."""
    if hasattr(annotation, "__metadata__"):
        return _plain(get_args(annotation)[0])
    if annotation in (timedelta, Path):
        return str | annotation
    if get_origin(annotation) in (Union, UnionType):
        return reduce(or_, (_plain(inner) for inner in get_args(annotation)))
    if get_origin(annotation) in (list, tuple):
        return get_origin(annotation)[tuple(_plain(inner) for inner in get_args(annotation))]
    return annotation
