"""`specimen list`: a list in pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import Field

from lakewarden.lifecycle.page import Page
from lakewarden.lifecycle.request import Question

if TYPE_CHECKING:
    from lakewarden.lifecycle.ground import Reader

ALL = [f"s{number}" for number in range(5)]


@dataclass(frozen=True)
class Specimen:
    name: str


class List(Question[Page[Specimen]]):
    """List the specimens."""

    after: str = Field("", description="Begin after this one.")

    def ask(self, lake: Reader) -> Page[Specimen]:
        left = [name for name in ALL if name > self.after]
        return Page([Specimen(name) for name in left[:3]], left[2] if left[3:] else None, len(ALL))
