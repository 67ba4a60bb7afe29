"""`specimen preview`: a question about a document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from lakewarden.lifecycle.request import Document, Question

if TYPE_CHECKING:
    from lakewarden.lifecycle.ground import Reader


class Preview(Question[list[dict[str, Any]]]):
    """Preview a specimen."""

    definition: Annotated[dict[str, Any] | None, Document()] = Field(None, description="What it is.")

    def ask(self, lake: Reader) -> list[dict[str, Any]]:
        return [self.definition] if self.definition is not None else []
