"""`specimen define`: a control that takes a document, leaves a record, and draws its answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from lakewarden.display import Shown
from lakewarden.lifecycle.request import Control, Document, Positional

if TYPE_CHECKING:
    from lakewarden.lifecycle.desk import ControlDesk


class Definition(BaseModel):
    """What a specimen is."""

    model_config = ConfigDict(extra="forbid")

    name: str
    parts: list[str] = []


@dataclass(frozen=True)
class Defined(Shown):
    name: str
    parts: int
    operation: str

    media_type: ClassVar[str] = "image/svg+xml"

    def drawn(self) -> bytes:
        return f"<svg><text>{self.name}</text></svg>".encode()

    def __rich__(self) -> str:
        return f"[{self.name}] {'*' * self.parts}"


class Define(Control[Defined]):
    """Define a specimen."""

    definition: Annotated[Definition, Positional(), Document()] = Field(description="What it is.")
    is_copy: bool = Field(False, alias="copy", description="Whether it is a copy.")

    def act(self, desk: ControlDesk) -> Defined:
        name = self.definition.name
        request = self.model_dump_json()
        operation = desk.record(name, f"defined {name}", request, {"copy": self.is_copy})
        return Defined(name, len(self.definition.parts), operation)
