"""How users name an operation: by its id or by the id of its plan."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from lakewarden.lifecycle.request import Completes, Positional

_marks = (Positional(), Completes("operations"), Field(description="The id of an operation or of its plan."))

OperationId = Annotated[str, *_marks]
AnyOperationId = Annotated[str | None, *_marks]
