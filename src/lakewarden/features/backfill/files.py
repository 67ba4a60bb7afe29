"""Backfills as their authors write them: `NNN_name.backfill.meta` and `NNN_name.backfill.sql`.

They are found in the configured folders. Errors name the file, the key and the fix.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from pydantic import ValidationError

from lakewarden.engine.sql.insertion import Insertion
from lakewarden.errors import BadValue, NotFound, did_you_mean
from lakewarden.features.backfill.meta import KEYS, Meta
from lakewarden.lifecycle.ground import Reader

_META, _SQL = ".backfill.meta", ".backfill.sql"
_NAME = re.compile(r"(?P<version>\d+)_(?P<name>\w+)")


@dataclass(frozen=True)
class BackfillFiles:
    """One backfill, whatever the database."""

    version: str
    name: str
    meta: Meta
    sql: str
    path: Path
    """Of its SQL."""

    def insertion(self, database: Sequence[str], source: tuple[str, ...] = ()) -> Insertion:
        """Its SQL for one database, checked; `source` is how the SQL may spell the one that the meta file names."""
        try:
            fields = json.dumps(self.meta.custom_fields)
            return _parsed(self.sql, tuple(database), self.meta.checkpoint_columns, fields, source)
        except BadValue as error:
            raise BadValue(f"{self.path}: {error.message}", error.hint) from None

    @property
    def meta_path(self) -> Path:
        return self.path.with_name(self.path.name.removesuffix(_SQL) + _META)

    @property
    def sql_hash(self) -> str:
        """Changes with the SQL, the values that are filled in, and what its checkpoints mean."""
        by = [self.meta.source_table, *self.meta.checkpoint_columns]
        content = json.dumps([self.sql, self.meta.custom_fields, by], sort_keys=True, default=str)
        return hashlib.sha256(content.encode()).hexdigest()[:16]


@lru_cache(maxsize=64)
def _parsed(
    sql: str, database: tuple[str, ...], columns: tuple[str, ...], fields: str, source: tuple[str, ...]
) -> Insertion:
    """The SQL of a backfill, parsed once: a run looks at its files again for each batch."""
    return Insertion.parse(sql, database, columns, json.loads(fields), source)


def all_files(lake: Reader) -> list[BackfillFiles]:
    """The backfills in the configured folders, by version."""
    found: dict[int, BackfillFiles] = {}
    for path in paths(lake, _META):
        one = _read(path)
        number = int(one.version)
        if number in found:
            raise BadValue(
                f"{path} and {found[number].path} have the same version {number}", "Give one another number."
            )
        found[number] = one
    for path in paths(lake, _SQL):
        if not path.with_name(path.name.removesuffix(_SQL) + _META).exists():
            raise BadValue(f"{path} has no {_META} file beside it", "Create it: JSON with migration_version, …")
    return sorted(found.values(), key=lambda one: int(one.version))


def files_of(lake: Reader, version: str) -> BackfillFiles:
    """The backfill with this version; `3` is the same as `003`."""
    known = {one.version: one for one in all_files(lake)}
    for one in known.values():
        if version.isdigit() and int(one.version) == int(version):
            return one
    raise NotFound(f"there is no backfill {version} in the configured folders", f"There are: {', '.join(known)}.")


def paths(lake: Reader, suffix: str) -> Iterator[Path]:
    """The files with a suffix in the configured folders, by name."""
    folders = lake.settings.backfills.folders
    if not folders:
        raise BadValue(
            "the configuration names no folder of migrations and backfills", "Add: backfills: {folders: [backfills]}"
        )
    for folder in folders:
        if not folder.is_dir():
            raise BadValue(f"backfills.folders: {folder} is not a folder", "Create it, or correct the configuration.")
        yield from sorted(path for path in folder.iterdir() if path.name.endswith(suffix))


def version_and_name(path: Path, suffix: str) -> tuple[str, str]:
    found = _NAME.fullmatch(path.name.removesuffix(suffix))
    if found is None:
        raise BadValue(f"{path} has no version in its name", f"Name it NNN_name{suffix}, as in 003_orders{suffix}.")
    return found["version"], found["name"]


def _read(path: Path) -> BackfillFiles:
    version, name = version_and_name(path, _META)
    sql = path.with_name(path.name.removesuffix(_META) + _SQL)
    try:
        given, text = json.loads(path.read_text(encoding="utf-8")), sql.read_text(encoding="utf-8")
    except ValueError as error:
        raise BadValue(f"{path} is not JSON: {error}", "Correct it there.") from None
    except OSError as error:
        raise BadValue(f"{error.filename} cannot be read: {error.strerror}", "Each backfill has two files.") from None
    if not isinstance(given, dict):
        raise BadValue(f"{path} has no keys", "It must be a JSON object.")
    try:
        meta = Meta.model_validate({key: value for key, value in given.items() if not key.startswith("_")})
    except ValidationError as error:
        raise _problem(path, error) from None
    if not str(meta.migration_version).isdigit() or int(meta.migration_version) != int(version):
        raise BadValue(
            f"{path}: migration_version is {meta.migration_version}", f"It must be {version}, as in the file's name."
        )
    return BackfillFiles(version, name, meta, text, sql)


def _problem(path: Path, error: ValidationError) -> BadValue:
    problems, hint = [], "Correct it there."
    for problem in error.errors(include_url=False, include_input=False):
        key = ".".join(str(part) for part in problem["loc"])
        if problem["type"] == "extra_forbidden":
            problems.append(f"unknown key {key}")
            known = list(KEYS[".".join(map(str, problem["loc"][:-1]))])
            hint = did_you_mean(str(problem["loc"][-1]), known, f"Known keys: {', '.join(known)}.")
        elif problem["type"] == "missing":
            problems.append(f"{key} is missing")
            hint = f"Add {key}."
        else:
            problems.append(f"{key}: {problem['msg'].removeprefix('Value error, ')}".removeprefix(": "))
    return BadValue(f"{path}: {'; '.join(problems)}", hint)
