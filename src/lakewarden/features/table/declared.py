"""Where a setting of a table comes from: an option, the configuration, the table itself, its layer, or the defaults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from lakewarden.config.settings import RETENTION_PRESETS

if TYPE_CHECKING:
    from lakewarden.config import Settings
    from lakewarden.engine.reference import TableName

Section = Literal["retention", "compaction"]
Source = tuple[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Declared:
    """One setting that holds for a table, and where it was said."""

    name: str
    value: Any
    source: str


def declarations(
    settings: Settings, name: TableName, section: Section, options: Mapping[str, Any], properties: Mapping[str, Any]
) -> list[Source]:
    """What is said of a table in one section, the nearest first: each names only what it says itself."""
    sources: list[Source] = [("option", {key: value for key, value in options.items() if value is not None})]
    for pattern, declared in settings.declared(name.lake, name.within_lake):
        sources += _said(f"tables: {pattern}", getattr(declared, section))
    sources.append(("table property", properties))
    layer = settings.layer(name.within_lake)
    if layer is not None:
        sources += _said(f"layer {layer[0]}", getattr(layer[1], section))
    return [*sources, *_said("defaults", getattr(settings.defaults, section), unset=True)]


def resolve(names: Sequence[str], sources: Sequence[Source]) -> list[Declared]:
    """The nearest value of each setting."""
    return [
        next(Declared(name, said[name], source) for source, said in sources if said.get(name) is not None)
        for name in names
    ]


def production(settings: Settings, name: TableName) -> Declared:
    """Whether a table counts as production."""
    for pattern, declared in settings.declared(name.lake, name.within_lake):
        if declared.production is not None:
            return Declared("production", declared.production, f"tables: {pattern}")
    layer = settings.layer(name.within_lake)
    if layer is not None and layer[1].production is not None:
        return Declared("production", layer[1].production, f"layer {layer[0]}")
    return Declared("production", False, "defaults")


def whole_number(properties: Mapping[str, str], key: str, per: int = 1) -> int | None:
    """A table property as a number of something larger, rounded up; none where it is not set or not a number."""
    text = properties.get(key, "")
    return -(-int(text) // per) if text.isascii() and text.isdigit() else None


def _said(source: str, section: Any, unset: bool = False) -> list[Source]:
    """What a section says, and apart from it what it says by the name of a preset."""
    if section is None:
        return []
    said = section.model_dump(exclude_unset=not unset)
    preset = said.pop("preset", None)
    meant = RETENTION_PRESETS.get(preset, {})
    by_preset = {name: value for name, value in said.items() if meant.get(name) == value}
    own = {name: value for name, value in said.items() if name not in by_preset}
    return [(source, own), (f"{source} (preset {preset})", by_preset)]
