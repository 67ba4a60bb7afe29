"""The section `retention` of defaults, layers and tables: how long versions are kept."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from lakewarden.config.section import FromProperty, Section
from lakewarden.quantities import Duration

_DAY_MS = 86_400_000
PRESETS: dict[str, dict[str, int]] = {
    "high-frequency": {"keep_last": 50, "keep_days": 30, "production_keep_days": 365},
    "compliance": {"keep_last": 100, "keep_days": 365, "production_keep_days": 2555},
}


class RetentionSettings(Section):
    """How long versions are kept. A preset sets three values; explicit ones override it."""

    preset: Literal["high-frequency", "compliance"] | None = None
    keep_last: Annotated[int, FromProperty("history.expire.min-snapshots-to-keep")] = Field(30, ge=1)
    keep_days: Annotated[int, FromProperty("history.expire.max-snapshot-age-ms", per=_DAY_MS)] = Field(90, ge=0)
    keep_tagged: bool = True
    production_keep_days: int = Field(730, ge=0)
    reader_grace: Duration = Field(timedelta(days=1), ge=timedelta(minutes=1))

    @model_validator(mode="before")
    @classmethod
    def _with_preset(cls, given: Any) -> Any:
        preset = given.get("preset") if isinstance(given, dict) else None
        return {**PRESETS.get(preset, {}), **given} if isinstance(preset, str) else given
