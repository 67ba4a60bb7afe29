"""The settings in `lakewarden.yaml`, and their resolution for a table."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationInfo, field_validator

from lakewarden.config.backfills import BackfillSettings
from lakewarden.config.compare import CompareSettings
from lakewarden.config.erasure import ErasureSettings
from lakewarden.config.lakes import LakeSettings
from lakewarden.config.layers import LayerSettings, default_layers, merged
from lakewarden.config.leases import LeaseSettings
from lakewarden.config.orphans import QuarantineSettings
from lakewarden.config.query import QuerySettings
from lakewarden.config.resolution import Declared, Source, from_properties, nearest, values_of
from lakewarden.config.section import Section
from lakewarden.config.sequences import SequenceSettings
from lakewarden.config.spark import SparkSettings
from lakewarden.config.tables import Defaults, TableSettings
from lakewarden.errors import LakeNotFound, did_you_mean

TableSection = Literal["retention", "compaction", "erasure", "table"]
_LAKE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,62}")
_USUAL: dict[str, Section] = {
    "erasure": ErasureSettings(),
    "table": TableSettings(production=False, skip=False),
}


class Settings(Section):
    """The whole configuration file."""

    sequences: SequenceSettings | None = None
    lakes: dict[str, LakeSettings] = Field(default_factory=dict, validate_default=True)
    """May be empty if there are sequences: a database can be maintained without a lake."""
    spark: SparkSettings = SparkSettings()
    state: str = Field("sqlite:///lakewarden.db", repr=False)
    signing_key: Path = Path("signing-key.pem")
    leases: LeaseSettings = LeaseSettings()
    quarantine: QuarantineSettings = QuarantineSettings()
    compare: CompareSettings = CompareSettings()
    backfills: BackfillSettings = BackfillSettings()
    query: QuerySettings = QuerySettings()
    defaults: Defaults = Defaults()
    layers: dict[str, LayerSettings] = Field(default_factory=default_layers)
    tables: dict[str, TableSettings] = Field(default_factory=dict)
    subjects: dict[str, dict[str, str]] = Field(default_factory=dict)

    @field_validator("layers")
    @classmethod
    def _with_default_layers(cls, layers: dict[str, LayerSettings]) -> dict[str, LayerSettings]:
        """Bronze, silver, gold and platinum exist by default; configured values override theirs."""
        usual = default_layers()
        return {name: merged(usual.get(name), layers.get(name)) for name in {**usual, **layers}}

    @field_validator("lakes")
    @classmethod
    def _names(cls, lakes: dict[str, LakeSettings], info: ValidationInfo) -> dict[str, LakeSettings]:
        if not lakes and info.data.get("sequences") is None:
            raise ValueError("at least one lake is needed, or the section sequences")
        for name in lakes:
            if not _LAKE_NAME.fullmatch(name):
                raise ValueError(f"{name!r} is not a valid lake name: letters, digits and _, a letter first")
        return lakes

    @property
    def default_lake(self) -> str:
        """The lake to use if none is named: the first in the file."""
        if not self.lakes:
            raise LakeNotFound("the configuration has no lake", "Add one under lakes: in lakewarden.yaml.")
        return next(iter(self.lakes))

    @property
    def uses_s3(self) -> bool:
        return any(not lake.is_local or lake.type == "glue" for lake in self.lakes.values())

    def lake(self, name: str) -> LakeSettings:
        if name not in self.lakes:
            hint = did_you_mean(name, self.lakes, f"Configured: {', '.join(self.lakes)}.")
            raise LakeNotFound(f"no lake {name!r} in the configuration", hint)
        return self.lakes[name]

    def declared(self, lake: str, table: str) -> list[tuple[str, TableSettings]]:
        """The sections that match a table (`namespace.table`), each with its pattern, the most specific first."""
        names = (table, f"{lake}.{table}")
        patterns = sorted(self.tables, key=_specificity, reverse=True)
        return [(p, self.tables[p]) for p in patterns if any(fnmatch.fnmatchcase(name, p) for name in names)]

    def layer(self, table: str) -> tuple[str, LayerSettings] | None:
        """The layer of a table (`namespace.table`), by a part of its namespace."""
        for part in table.split(".")[:-1]:
            if part in self.layers:
                return part, self.layers[part]
        return None

    def resolve(
        self,
        lake: str,
        table: str,
        section: TableSection,
        options: Mapping[str, Any] | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> dict[str, Declared]:
        """Each setting of a section for a table (`namespace.table`), with its source: the most specific wins.

        The order is: options, patterns under `tables` with the most specific first, table properties, the layer, the
        defaults.
        """
        sources: list[Source] = [("option", options or {})]
        for pattern, declared in self.declared(lake, table):
            sources += values_of(f"tables: {pattern}", _part(declared, section))
        usual = getattr(self.defaults, section, None) or _USUAL[section]
        sources.append(from_properties(type(usual), properties or {}))
        layer = self.layer(table)
        if layer is not None:
            sources += values_of(f"layer {layer[0]}", _part(layer[1], section))
        names = [name for name, value in usual if value is not None and name != "preset"]
        return nearest(names, [*sources, *values_of("defaults", usual, with_defaults=True)])

    def is_production(self, lake: str, table: str) -> Declared:
        """Whether a table (`namespace.table`) is a production table."""
        return self.resolve(lake, table, "table")["production"]

    def skips(self, lake: str, table: str) -> bool:
        """Whether the configuration excludes this table (`namespace.table`)."""
        return bool(self.resolve(lake, table, "table")["skip"].value)

    def erasure(self, lake: str, table: str) -> ErasureSettings:
        """The erasure settings of a table (`namespace.table`)."""
        values = self.resolve(lake, table, "erasure")
        return ErasureSettings.model_construct(**{name: value.value for name, value in values.items()})


def _part(declared: TableSettings | LayerSettings, section: TableSection) -> Section | None:
    """The values of one source in a section; `table` means those outside any section."""
    return declared if section == "table" else getattr(declared, section, None)


def _specificity(pattern: str) -> tuple[bool, int]:
    return (not any(c in pattern for c in "*?["), len(pattern.replace("*", "")))
