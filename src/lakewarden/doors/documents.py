"""The JSON documents that every door answers with: the same bytes by `--json` and over REST."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter

from lakewarden.display import as_json
from lakewarden.lifecycle.report import Report


def answered(answer: Any, kind: Any) -> Any:
    """The answer of a question or a control as plain values, by the declared type's own serialisers."""
    return answer.document() if isinstance(answer, Report) else TypeAdapter(kind).dump_python(answer)


def encode(document: Any, indent: int | None = None) -> bytes:
    """Valid JSON whatever values a table holds."""
    return as_json(document, indent)
