"""Resolves a setting for a table: the most specific source wins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakewarden.config.retention import PRESETS
from lakewarden.config.section import FromProperty, Section

Source = tuple[str, Mapping[str, Any]]
"""The name of a source, and its values."""


@dataclass(frozen=True)
class Declared:
    """A resolved setting, and its source."""

    name: str
    value: Any
    source: str


def values_of(source: str, section: Section | None, with_defaults: bool = False) -> list[Source]:
    """The values of a section; separately, those that come from a preset."""
    if section is None:
        return []
    values = {**vars(section)} if with_defaults else {name: getattr(section, name) for name in section.model_fields_set}
    preset = values.pop("preset", None)
    meant = PRESETS.get(preset, {})
    by_preset = {name: value for name, value in values.items() if meant.get(name) == value}
    own = {name: value for name, value in values.items() if name not in by_preset}
    return [(source, own), (f"{source} (preset {preset})", by_preset)]


def from_properties(section: type[Section], properties: Mapping[str, str]) -> Source:
    """The values in a table's properties."""
    marks = [(name, mark) for name, field in section.model_fields.items() for mark in field.metadata]
    known = {name: mark for name, mark in marks if isinstance(mark, FromProperty)}
    return "table property", {name: mark.read(properties.get(mark.key, "")) for name, mark in known.items()}


def nearest(names: Iterable[str], sources: Sequence[Source]) -> dict[str, Declared]:
    """The first value of each name, with its source."""
    return {
        name: next(Declared(name, values[name], source) for source, values in sources if values.get(name) is not None)
        for name in names
    }
