"""`lakewarden.yaml` and the environment, as typed settings. The only module that reads either.

Unknown keys are errors that name the key and the nearest known one, `${NAME}` is taken from the
environment, and relative paths are relative to the file's folder.
"""

from __future__ import annotations

import fnmatch
import getpass
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from lakewarden.errors import ConfigProblem, LakeNotFound, did_you_mean
from lakewarden.quantities import Duration

FILE_NAME = "lakewarden.yaml"
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_MOST_VALUES = 100_000
_LAKE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,62}")
_SQL_ADDRESS = re.compile(r"sqlite(\+\w+)?:///.|(?!sqlite)\w+(\+\w+)?://.")
_SQLITE_FILE = re.compile(r"(sqlite(?:\+\w+)?:///)(.+)")


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


class RetentionSettings(_Section):
    keep_last: int = Field(30, ge=1)
    keep_days: int = Field(90, ge=0)
    keep_tagged: bool = True
    production_keep_days: int = Field(730, ge=0)


class CompactionSettings(_Section):
    target_file_size_mb: int = Field(512, ge=1)
    min_file_size_mb: int = Field(10, ge=1)
    max_concurrent_files: int = Field(100, ge=1)
    rewrite_all: bool = False
    verify: Literal["counts", "full"] = "counts"
    task_memory_mb: int = Field(512, ge=256)
    delta_encoding: bool = True


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


@dataclass(frozen=True)
class Environment:
    """What Lakewarden takes from the process's environment."""

    config: Path | None
    cache: Path
    logs: Path
    java_home: Path | None
    user: str
    failpoints: str
    variables: Mapping[str, str]

    @staticmethod
    def read(variables: Mapping[str, str] | None = None) -> Environment:
        env = os.environ if variables is None else variables
        home = Path(env.get("HOME") or Path.home())
        return Environment(
            config=Path(env["LAKEWARDEN_CONFIG"]) if env.get("LAKEWARDEN_CONFIG") else None,
            cache=Path(env.get("XDG_CACHE_HOME") or home / ".cache") / "lakewarden",
            logs=Path(env.get("XDG_STATE_HOME") or home / ".local" / "state") / "lakewarden",
            java_home=Path(env["JAVA_HOME"]) if env.get("JAVA_HOME") else None,
            user=env.get("LAKEWARDEN_ACTOR") or env.get("USER") or env.get("LOGNAME") or _login_name(),
            failpoints=env.get("LAKEWARDEN_FAILPOINTS", ""),
            variables=env,
        )


def _login_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # no entry for this user id, as in many containers
        return str(os.getuid())


def find(given: Path | None, environment: Environment) -> Path:
    """The configuration file that is meant: the given one, the environment's, or the working folder's."""
    path = given or environment.config or Path(FILE_NAME)
    why = ""
    try:
        path = path / FILE_NAME if path.is_dir() else path
        found = path.is_file()
    except OSError as error:
        found, why = False, f": {error.strerror}"
    if not found:
        raise ConfigProblem(
            f"no configuration at {path}{why}",
            hint="Make one with: lakewarden lake init DIR — or point to one with --config or LAKEWARDEN_CONFIG.",
        )
    return path.resolve()


def load(path: Path, environment: Environment) -> Settings:
    """Read a configuration file; every problem in it is told at once."""
    data = _interpolate(_read_yaml(path), environment.variables, path)
    try:
        settings = Settings.model_validate(data)
    except ValidationError as error:
        raise _problems(path, error) from None
    return _resolve_paths(settings, path.parent)


def _read_yaml(path: Path) -> dict[str, Any]:
    import yaml

    class UniqueKeys(yaml.SafeLoader):
        """PyYAML keeps the last of two equal keys without a word; here that is an error."""

        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
            keys = [key.value for key, _ in node.value if key.tag == "tag:yaml.org,2002:str"]
            for key in keys:
                if keys.count(key) > 1:
                    raise yaml.constructor.ConstructorError(None, None, f"key {key!r} is there twice", node.start_mark)
            return super().construct_mapping(node, deep)

    hint = "It is YAML: look at indentation, quotes and colons there."
    try:
        data = yaml.load(path.read_text(encoding="utf-8"), Loader=UniqueKeys)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise ConfigProblem(f"{path} cannot be read{where}: {error.problem}", hint) from None
    except RecursionError:
        raise ConfigProblem(f"{path} cannot be read: it is nested too deeply", hint) from None
    except (yaml.YAMLError, ValueError) as error:  # a date that is none, or bytes that are no UTF-8, is a ValueError
        raise ConfigProblem(f"{path} cannot be read: {' '.join(str(error).split())}", hint) from None
    except OSError as error:
        raise ConfigProblem(f"{path} cannot be read: {error.strerror}", "Look at the file's permissions.") from None
    if not isinstance(data, dict):
        raise ConfigProblem(f"{path} has no keys in it", "lakewarden lake init writes one that works.")
    return data


def _interpolate(data: Any, variables: Mapping[str, str], path: Path) -> Any:
    left = _MOST_VALUES

    def variable(match: re.Match[str]) -> str:
        if match[1] not in variables:
            raise ConfigProblem(f"{path} asks for ${{{match[1]}}}, which is not set", f"export {match[1]}=…")
        return variables[match[1]]

    def interpolated(value: Any) -> Any:
        nonlocal left
        left -= 1
        if left < 0:  # aliases of aliases, or one within itself
            raise ConfigProblem(f"{path} cannot be read: it has over {_MOST_VALUES} values", "Use fewer YAML aliases.")
        if isinstance(value, dict):
            return {key: interpolated(item) for key, item in value.items()}
        if isinstance(value, list):
            return [interpolated(item) for item in value]
        return _VARIABLE.sub(variable, value) if isinstance(value, str) else value

    try:
        return interpolated(data)
    except RecursionError:
        raise ConfigProblem(f"{path} cannot be read: it is nested too deeply", "Use fewer YAML aliases.") from None


def _problems(path: Path, error: ValidationError) -> ConfigProblem:
    told, hints = [], []
    for problem in error.errors(include_url=False, include_input=False):
        named = ".".join(str(part) for part in problem["loc"])
        where = named if named.isprintable() else repr(named)  # a line break in a key is none in a message
        if problem["type"] == "extra_forbidden":
            known = _known_keys(problem["loc"][:-1])
            told.append(f"unknown key {where}")
            hints.append(did_you_mean(str(problem["loc"][-1]), known, f"Known there: {', '.join(sorted(known))}."))
        else:
            told.append(f"{where}: {problem['msg'].removeprefix('Value error, ')}")
    return ConfigProblem(f"{path}: {'; '.join(told)}", " ".join(dict.fromkeys(hints)) or "Correct it and try again.")


def _known_keys(location: tuple[int | str, ...]) -> list[str]:
    """The keys of the section at a place in the file, found by walking the models' own fields."""
    model: type[BaseModel] = Settings
    for part in location:
        if str(part) in model.model_fields:  # else it is the name of a lake or table, whose section is `model` itself
            annotation = model.model_fields[str(part)].annotation
            inner = [a for a in (annotation, *get_args(annotation)) if isinstance(a, type) and issubclass(a, BaseModel)]
            model = inner[0] if inner else model
    return list(model.model_fields)


def _resolve_paths(settings: Settings, folder: Path) -> Settings:
    lakes = {}
    for name, lake in settings.lakes.items():
        catalog = dict(lake.catalog)
        if isinstance(catalog.get("uri"), str):
            catalog["uri"] = _absolute_sqlite(catalog["uri"], folder)
        warehouse = lake.warehouse
        if "://" not in warehouse and not warehouse.startswith("file:") and not lake.has_named_warehouse:
            warehouse = f"file://{_addressable((folder / warehouse).resolve())}"
        lakes[name] = lake.model_copy(update={"catalog": catalog, "warehouse": warehouse.rstrip("/")})
    state, key = _absolute_sqlite(settings.state, folder), folder / settings.signing_key
    return settings.model_copy(update={"lakes": lakes, "state": state, "signing_key": key})


def _absolute_sqlite(uri: str, folder: Path) -> str:
    match = _SQLITE_FILE.fullmatch(uri)
    if match is None or match[2] == ":memory:":
        return uri
    file, question, options = match[2].partition("?")
    return f"{match[1]}{_addressable((folder / file).resolve())}{question}{options}"


def _addressable(path: Path) -> Path:
    """Paths become addresses, and in those #, ? and % mean something else: files would end up in other places."""
    if set("#?%") & set(str(path)):
        raise ConfigProblem(f"{path} cannot be used: a path with #, ? or % in it", "Choose another folder.")
    return path
