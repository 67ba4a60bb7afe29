"""What `lakewarden.yaml` may say, as typed settings: every section of it, and what holds for a table by name."""

from __future__ import annotations

import fnmatch
import re
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from lakewarden.errors import LakeNotFound, did_you_mean
from lakewarden.quantities import Duration

_LAKE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,62}")
_SQL_ADDRESS = re.compile(r"sqlite(\+\w+)?:///.|(?!sqlite)\w+(\+\w+)?://.")


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class StorageSettings(_Section):
    """How a lake's object storage is reached; nothing of it is needed for local files."""

    endpoint: str | None = None
    access_key: str | None = Field(None, repr=False)
    secret_key: str | None = Field(None, repr=False)
    session_token: str | None = Field(None, repr=False)
    region: str | None = None
    path_style: bool = True


def is_named_warehouse(catalog_type: str, warehouse: str) -> bool:
    """Whether a warehouse is no place but a name: only REST catalogs have such."""
    return catalog_type == "rest" and "://" not in warehouse and not warehouse.startswith(("file:", "/", "."))


class LakeSettings(_Section):
    """One Iceberg catalog with its storage."""

    catalog: dict[str, Any] = Field(repr=False)
    warehouse: str
    storage: StorageSettings = StorageSettings()
    spark: dict[str, str] = Field(default_factory=dict, repr=False)

    @field_validator("catalog")
    @classmethod
    def _known_type(cls, catalog: dict[str, Any]) -> dict[str, Any]:
        if catalog.get("type") not in get_args(CatalogType):
            raise ValueError(f"type must be one of {', '.join(get_args(CatalogType))}")
        if catalog["type"] in ("sql", "rest", "hive") and not catalog.get("uri"):
            raise ValueError(f"a catalog of type {catalog['type']} needs a uri")
        if catalog["type"] == "sql" and not _SQL_ADDRESS.match(str(catalog["uri"])):
            raise ValueError("the uri of a catalog of type sql begins as sqlite:///file or postgresql+psycopg://host")
        return catalog

    @property
    def type(self) -> str:
        return str(self.catalog["type"])

    @property
    def is_local(self) -> bool:
        return self.warehouse.startswith("file:")

    @property
    def has_named_warehouse(self) -> bool:
        """Whether the warehouse is a name, or an ARN, that only its REST catalog knows the place of."""
        return is_named_warehouse(self.type, self.warehouse)


CatalogType = Literal["sql", "rest", "hive", "glue"]


class SparkSettings(_Section):
    """Where Spark runs: in this process by default, on a cluster by `master`, elsewhere by `remote`."""

    master: str = "local[*]"
    memory: str = "4g"
    remote: str | None = Field(None, repr=False)
    conf: dict[str, str] = Field(default_factory=dict, repr=False)

    @property
    def place(self) -> str:
        """Where it runs, in words that hold no token."""
        return re.split(r"/?[;?]", self.remote, maxsplit=1)[0] if self.remote else self.master

    @field_validator("conf", mode="before")
    @classmethod
    def _as_text(cls, conf: Any) -> Any:
        if not isinstance(conf, dict):
            return conf
        return {k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in conf.items()}


class LeaseSettings(_Section):
    timeout: Duration = Field(
        timedelta(seconds=60), gt=timedelta(), description="How long a dead holder keeps a table."
    )


RETENTION_PRESETS: dict[str, dict[str, int]] = {
    "high-frequency": {"keep_last": 50, "keep_days": 30, "production_keep_days": 365},
    "compliance": {"keep_last": 100, "keep_days": 365, "production_keep_days": 2555},
}


class RetentionSettings(_Section):
    """How long versions are kept. A preset gives three values by one name; those given beside it win."""

    preset: Literal["high-frequency", "compliance"] | None = None
    keep_last: int = Field(30, ge=1)
    keep_days: int = Field(90, ge=0)
    keep_tagged: bool = True
    production_keep_days: int = Field(730, ge=0)
    reader_grace: Duration = Field(timedelta(days=1), ge=timedelta(minutes=1))

    @model_validator(mode="before")
    @classmethod
    def _with_preset(cls, given: Any) -> Any:
        preset = given.get("preset") if isinstance(given, dict) else None
        return {**RETENTION_PRESETS.get(preset, {}), **given} if isinstance(preset, str) else given


class CompactionSettings(_Section):
    target_file_size_mb: int = Field(512, ge=1)
    min_file_size_mb: int = Field(10, ge=1)
    max_concurrent_files: int = Field(100, ge=1)
    rewrite_all: bool = False
    verify: Literal["counts", "full"] = "counts"
    task_memory_mb: int = Field(512, ge=256)
    delta_encoding: bool = False


class OrphanSettings(_Section):
    older_than: Duration = timedelta(days=3)


class QuarantineSettings(_Section):
    """What becomes of files that no version needs any more before they are deleted."""

    grace: Duration = timedelta(days=7)
    expired_files: Literal["auto", "always", "never"] = "auto"


class LayerSettings(_Section):
    """What holds for the tables of a layer, unless something nearer to a table says otherwise."""

    production: bool | None = None
    retention: RetentionSettings | None = None
    compaction: CompactionSettings | None = None


def _usual_layers() -> dict[str, LayerSettings]:
    return {
        "bronze": LayerSettings(retention=RetentionSettings(keep_days=30)),
        "silver": LayerSettings(retention=RetentionSettings(keep_days=90)),
        "gold": LayerSettings(production=True),
        "platinum": LayerSettings(production=True),
    }


def _laid_over(usual: LayerSettings | None, given: LayerSettings | None) -> LayerSettings:
    """A layer as given, with what it leaves unsaid as usual, value by value."""
    if usual is None or given is None:
        return given or usual or LayerSettings()
    said: dict[str, Any] = {}
    for name in given.model_fields_set:
        before, now = getattr(usual, name), getattr(given, name)
        both = isinstance(before, BaseModel) and isinstance(now, BaseModel)
        said[name] = before.model_copy(update={key: getattr(now, key) for key in now.model_fields_set}) if both else now
    return usual.model_copy(update=said)


class Defaults(_Section):
    retention: RetentionSettings = RetentionSettings()
    compaction: CompactionSettings = CompactionSettings()
    orphans: OrphanSettings = OrphanSettings()


class ErasureSettings(_Section):
    keys: list[str] = []
    grace: Duration = timedelta()
    watch: bool = True


class TableSettings(_Section):
    """What is declared about the tables of one name or pattern; only the keys that are set there count."""

    production: bool | None = None
    skip: bool | None = None
    retention: RetentionSettings | None = None
    compaction: CompactionSettings | None = None
    erasure: ErasureSettings | None = None


class Settings(_Section):
    """Everything an installation is told by its file."""

    lakes: dict[str, LakeSettings] = Field(min_length=1)
    spark: SparkSettings = SparkSettings()
    state: str = Field("sqlite:///lakewarden.db", repr=False)
    signing_key: Path = Path("signing-key.pem")
    leases: LeaseSettings = LeaseSettings()
    quarantine: QuarantineSettings = QuarantineSettings()
    defaults: Defaults = Defaults()
    layers: dict[str, LayerSettings] = Field(default_factory=_usual_layers)
    tables: dict[str, TableSettings] = Field(default_factory=dict)
    subjects: dict[str, dict[str, str]] = Field(default_factory=dict)

    @field_validator("layers")
    @classmethod
    def _with_usual_layers(cls, layers: dict[str, LayerSettings]) -> dict[str, LayerSettings]:
        """Bronze, silver, gold and platinum are there unless said otherwise; only what is said of them changes."""
        usual = _usual_layers()
        return {name: _laid_over(usual.get(name), layers.get(name)) for name in {**usual, **layers}}

    @field_validator("lakes")
    @classmethod
    def _names(cls, lakes: dict[str, LakeSettings]) -> dict[str, LakeSettings]:
        for name in lakes:
            if not _LAKE_NAME.fullmatch(name):
                raise ValueError(f"{name!r} cannot name a lake: letters, digits and _ only, a letter first")
        return lakes

    @property
    def default_lake(self) -> str:
        """The lake that is meant where none is named: the first in the file."""
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
        """What is declared for a table (`namespace.table`), each with its pattern: the most specific first."""
        names = (table, f"{lake}.{table}")
        patterns = sorted(self.tables, key=_specificity, reverse=True)
        return [(p, self.tables[p]) for p in patterns if any(fnmatch.fnmatchcase(name, p) for name in names)]

    def layer(self, table: str) -> tuple[str, LayerSettings] | None:
        """The layer that a table (`namespace.table`) belongs to by a part of its namespace's name."""
        for part in table.split(".")[:-1]:
            if part in self.layers:
                return part, self.layers[part]
        return None

    def erasure(self, lake: str, table: str) -> ErasureSettings:
        """What is declared about erasing from a table (`namespace.table`), value by value: the most specific wins."""
        said: dict[str, Any] = {}
        for _, declared in reversed(self.declared(lake, table)):
            if declared.erasure is not None:
                said |= {name: getattr(declared.erasure, name) for name in declared.erasure.model_fields_set}
        return ErasureSettings().model_copy(update=said)

    def skips(self, lake: str, table: str) -> bool:
        """Whether the configuration says to leave this table (`namespace.table`) alone."""
        return next((t.skip for _, t in self.declared(lake, table) if t.skip is not None), False)


def _specificity(pattern: str) -> tuple[bool, int]:
    return (not any(c in pattern for c in "*?["), len(pattern.replace("*", "")))
