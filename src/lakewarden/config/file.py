"""Finds and reads `lakewarden.yaml`, and reports all its problems at once.

Unknown keys are errors that suggest the closest known key, `${NAME}` is replaced from the environment, and relative
paths are relative to the file's folder.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from lakewarden.config.backfills import BackfillSettings
from lakewarden.config.document import Unreadable, parse
from lakewarden.config.environment import Environment
from lakewarden.config.sequences import SequenceSettings
from lakewarden.config.settings import Settings
from lakewarden.errors import ConfigProblem, did_you_mean

FILE_NAME = "lakewarden.yaml"
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_MOST_VALUES = 100_000
_SQLITE_FILE = re.compile(r"(sqlite(?:\+\w+)?:///)(.+)")


def find(given: Path | None, environment: Environment) -> Path:
    """The configuration file: the given one, the environment's, or the one in the working folder."""
    path = given or environment.config or Path(FILE_NAME)
    why = ""
    try:
        path = path / FILE_NAME if path.is_dir() else path
        found = path.is_file()
    except OSError as error:
        found, why = False, f": {error.strerror}"
    if not found:
        raise ConfigProblem(
            f"no configuration file at {path}{why}",
            hint="Create one with lakewarden lake init DIR, or set --config or LAKEWARDEN_CONFIG.",
        )
    return path.resolve()


def load(path: Path, environment: Environment) -> Settings:
    """Read a configuration file; all problems are reported at once."""
    data = _interpolate(_read_yaml(path), environment.variables, path)
    try:
        settings = Settings.model_validate(data)
    except ValidationError as error:
        raise _problems(path, error) from None
    return _resolve_paths(settings, path.parent)


def read_document(path: Path) -> dict[str, Any]:
    """A YAML or JSON file with keys; errors name the file."""
    return _read_yaml(path)


def load_sequences(path: Path) -> SequenceSettings:
    """Read a `partitionmanager:` file, which has the keys of the section `sequences`."""
    data = _interpolate(_read_yaml(path), Environment.read().variables, path)
    if set(data) != {"partitionmanager"}:
        raise ConfigProblem(f"{path} must have exactly one key, partitionmanager", "Put everything else under it.")
    try:
        sequences = SequenceSettings.model_validate(data["partitionmanager"])
    except ValidationError as error:
        raise _problems(path, error, SequenceSettings) from None
    return _with_stats_path(sequences, path.parent)


def _with_stats_path(sequences: SequenceSettings, folder: Path) -> SequenceSettings:
    if sequences.prometheus_stats is None:
        return sequences
    return sequences.model_copy(update={"prometheus_stats": folder / sequences.prometheus_stats})


def _read_yaml(path: Path) -> dict[str, Any]:
    try:
        data = parse(path.read_text(encoding="utf-8"))
    except Unreadable as error:
        hint = "Check the YAML there: indentation, quotes and colons."
        raise ConfigProblem(f"{path} cannot be read{error}", hint) from None
    except UnicodeDecodeError as error:
        raise ConfigProblem(f"{path} cannot be read: {error}", "It must be UTF-8 text.") from None
    except OSError as error:
        raise ConfigProblem(f"{path} cannot be read: {error.strerror}", "Check the file's permissions.") from None
    if not isinstance(data, dict):
        raise ConfigProblem(f"{path} has no keys", "lakewarden lake init creates a working one.")
    return data


def _interpolate(data: Any, variables: Mapping[str, str], path: Path) -> Any:
    left = _MOST_VALUES

    def variable(match: re.Match[str]) -> str:
        if match[1] not in variables:
            raise ConfigProblem(f"{path} uses ${{{match[1]}}}, which is not set", f"export {match[1]}=…")
        return variables[match[1]]

    def interpolated(value: Any) -> Any:
        nonlocal left
        left -= 1
        if left < 0:  # nested or recursive aliases
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


def _problems(path: Path, error: ValidationError, model: type[BaseModel] = Settings) -> ConfigProblem:
    problems, hints = [], []
    for problem in error.errors(include_url=False, include_input=False):
        named = ".".join(str(part) for part in problem["loc"])
        where = named if named.isprintable() else repr(named)  # no line breaks in messages
        if problem["type"] == "extra_forbidden":
            known = _known_keys(problem["loc"][:-1], model)
            problems.append(f"unknown key {where}")
            hints.append(did_you_mean(str(problem["loc"][-1]), known, f"Known keys: {', '.join(sorted(known))}."))
        else:
            problems.append(f"{where}: {problem['msg'].removeprefix('Value error, ')}")
    hint = " ".join(dict.fromkeys(hints)) or "Correct it and try again."
    return ConfigProblem(f"{path}: {'; '.join(problems)}", hint)


def _known_keys(location: tuple[int | str, ...], model: type[BaseModel]) -> list[str]:
    """The keys of the section at a location in the file, from the models' fields."""
    for part in location:
        if str(part) in model.model_fields:  # else it is the name of a lake or table
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
    backfills = BackfillSettings(folders=tuple(folder / each for each in settings.backfills.folders))
    changed = {"lakes": lakes, "state": state, "signing_key": key, "backfills": backfills}
    if settings.sequences is not None:
        changed["sequences"] = _with_stats_path(settings.sequences, folder)
    return settings.model_copy(update=changed)


def _absolute_sqlite(uri: str, folder: Path) -> str:
    match = _SQLITE_FILE.fullmatch(uri)
    if match is None or match[2] == ":memory:":
        return uri
    file, question, options = match[2].partition("?")
    return f"{match[1]}{_addressable((folder / file).resolve())}{question}{options}"


def _addressable(path: Path) -> Path:
    """Paths become URLs, in which #, ? and % have another meaning: files would end up elsewhere."""
    if set("#?%") & set(str(path)):
        raise ConfigProblem(f"{path} cannot be used: the path contains #, ? or %", "Choose another folder.")
    return path
