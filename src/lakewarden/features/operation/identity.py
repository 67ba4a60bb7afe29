"""How an operation is named: by its own id, or by the id of its plan."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from lakewarden.lifecycle.request import Completes, Positional

OperationId = Annotated[
    str, Positional(), Completes("operations"), Field(description="The id of an operation or of its plan.")
]
