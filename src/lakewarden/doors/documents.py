"""The JSON documents of answers: `--json` and REST return the same values."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter

from lakewarden.lifecycle.report import Report


def answered(answer: Any, kind: Any) -> Any:
    """The answer of a question or a control as plain values, serialised by its declared type."""
    return answer.document() if isinstance(answer, Report) else TypeAdapter(kind).dump_python(answer)
