"""The section `layers`: settings for tables by a part of their namespace."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from lakewarden.config.compaction import CompactionSettings
from lakewarden.config.retention import RetentionSettings
from lakewarden.config.section import Section


class LayerSettings(Section):
    """Settings for the tables of a layer, unless something more specific overrides them."""

    production: bool | None = None
    retention: RetentionSettings | None = None
    compaction: CompactionSettings | None = None


def default_layers() -> dict[str, LayerSettings]:
    return {
        "bronze": LayerSettings(retention=RetentionSettings(keep_days=30)),
        "silver": LayerSettings(retention=RetentionSettings(keep_days=90)),
        "gold": LayerSettings(production=True),
        "platinum": LayerSettings(production=True),
    }


def merged(usual: LayerSettings | None, given: LayerSettings | None) -> LayerSettings:
    """A layer with missing values taken from the default layer."""
    if usual is None or given is None:
        return given or usual or LayerSettings()
    values: dict[str, Any] = {}
    for name in given.model_fields_set:
        before, now = getattr(usual, name), getattr(given, name)
        if isinstance(before, BaseModel) and isinstance(now, BaseModel):
            now = before.model_copy(update={key: getattr(now, key) for key in now.model_fields_set})
        values[name] = now
    return usual.model_copy(update=values)
