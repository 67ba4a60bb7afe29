"""What every section of `lakewarden.yaml` has in common: only known keys, and no change after reading."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True)
class FromProperty:
    """Marks a setting that a table may have as an Iceberg property, there in a smaller unit."""

    key: str
    per: int = 1
    least: int = 0

    def read(self, text: str) -> int | None:
        """The setting's value, rounded up; none where the property is no number, or less than makes sense."""
        value = -(-int(text) // self.per) if text.isascii() and text.isdigit() else None
        return value if value is not None and value >= self.least else None
