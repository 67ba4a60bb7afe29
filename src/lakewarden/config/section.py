"""The base of all sections of `lakewarden.yaml`: unknown keys are refused, and values are frozen."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True)
class FromProperty:
    """Marks a setting that a table can override by an Iceberg property, in a smaller unit."""

    key: str
    per: int = 1
    least: int = 0

    def read(self, text: str) -> int | None:
        """The property as a setting, rounded up; None if it is not a number, or too small."""
        value = -(-int(text) // self.per) if text.isascii() and text.isdigit() else None
        return value if value is not None and value >= self.least else None
