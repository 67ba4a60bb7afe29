"""What every section of `lakewarden.yaml` has in common: only known keys, and no change after reading."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
