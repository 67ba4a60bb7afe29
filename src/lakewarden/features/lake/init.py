"""`lake init`."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from shlex import join
from typing import Annotated, Any

from pydantic import Field

from lakewarden.config import FILE_NAME, CatalogType, Environment, Settings, is_named_warehouse, load
from lakewarden.display import Shown
from lakewarden.errors import AlreadyExists, ConfigProblem, StorageUnavailable, did_you_mean
from lakewarden.features.erasure.certificates import signing_key
from lakewarden.features.lake.template import render
from lakewarden.lifecycle.request import Positional, Setup


@dataclass(frozen=True)
class NewLake(Shown):
    """What was set up, and the next commands."""

    config: str
    lake: str
    catalog: str
    warehouse: str
    tables: int
    public_key: str
    next: list[str]


class Init(Setup[NewLake]):
    """Write a commented lakewarden.yaml for a new lake on this machine, or for an existing lake.

    Without options the lake is embedded: an SQLite catalog and a warehouse in the folder. --catalog, --uri and
    --warehouse, or --pyiceberg, point it at an existing catalog, which must be reachable. --name is the name under
    which an SQL catalog keeps its tables. A key that signs certificates is created next to the file if there is none.
    """

    directory: Annotated[Path, Positional()] = Field(Path(), description="The folder to set up.")
    name: str = Field("main", pattern=r"^[A-Za-z][A-Za-z0-9_]{0,62}$", description="The lake's name.")
    catalog: CatalogType | None = Field(None, description="The type of an existing catalog.")
    uri: str | None = Field(None, description="The address of that catalog.")
    warehouse: str | None = Field(None, description="The location of its tables, as in s3://bucket/path.")
    pyiceberg: Path | None = Field(None, description="Use the catalog called --name in this .pyiceberg.yaml.")

    def make(self) -> NewLake:
        path, made = self.directory / FILE_NAME, _Made()
        catalog, warehouse = self._catalog()
        try:
            self._write(path, render(self.name, catalog, warehouse), made)
            settings = load(path, Environment.read())
            lake = settings.lakes[self.name]
            tables = self._open(settings, made)
            made.about_to_make(settings.signing_key)
            signing_key.make(settings.signing_key)
            key = signing_key.load(settings.signing_key)
        except BaseException:  # a failed setup leaves nothing behind
            made.remove()
            raise
        return NewLake(
            config=str(path),
            lake=self.name,
            catalog=f"{lake.type} {_without_password(str(lake.catalog.get('uri', '')))}".strip(),
            warehouse=lake.warehouse,
            tables=tables,
            public_key=key.public.text,
            next=[
                join(["lakewarden", "--config", str(path), *next]) for next in (("lake", "doctor"), ("table", "list"))
            ],
        )

    @property
    def _is_new(self) -> bool:
        return self.catalog is None and self.pyiceberg is None

    def _catalog(self) -> tuple[dict[str, Any], str]:
        """The catalog section and the warehouse for the configuration."""
        if self.pyiceberg is not None:
            return _from_pyiceberg(self.pyiceberg, self.name)
        if self.catalog is None:
            if self.uri:
                raise ConfigProblem("--uri requires --catalog", "Add --catalog sql, rest, hive or glue.")
            return {"type": "sql", "uri": "sqlite:///lake/catalog.db"}, self.warehouse or "lake/warehouse"
        if self.catalog != "glue" and not self.uri:
            raise ConfigProblem(f"a catalog of type {self.catalog} requires --uri", "Add its address with --uri.")
        if not self.warehouse:
            raise ConfigProblem("an existing catalog requires --warehouse", "Add the location of its tables.")
        is_name = is_named_warehouse(str(self.catalog), self.warehouse)
        place = self.warehouse if is_name else _from_here(self.warehouse)
        return {"type": self.catalog} | ({"uri": _from_here(self.uri)} if self.uri else {}), place

    def _write(self, path: Path, text: str, made: _Made) -> None:
        try:
            made.about_to_make(path.parent)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch(mode=0o644 if self._is_new else 0o600, exist_ok=False)  # a catalog's uri may hold a password
            made.made(path)
            path.write_text(text, encoding="utf-8")
        except FileExistsError:
            raise AlreadyExists(f"{path} already exists", "Edit it, or set up another folder.") from None
        except OSError as error:
            raise StorageUnavailable(f"{path} cannot be written: {error.strerror}", "Choose another folder.") from None

    def _open(self, settings: Settings, made: _Made) -> int:
        """Open the configured lake, creating it first if it is embedded; return the number of its tables."""
        from lakewarden.engine.catalog.catalogs import Catalogs, open_catalog, sqlite_file
        from lakewarden.engine.catalog.contents import other_catalogs
        from lakewarden.engine.catalog.tables import Tables

        lake = settings.lakes[self.name]
        file = sqlite_file(lake)
        folders = [file.parent] if file is not None and self._is_new else []
        folders += [Path(lake.warehouse.removeprefix("file://"))] if lake.is_local else []
        for folder in folders:
            made.about_to_make(folder)
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise StorageUnavailable(
                    f"{folder} cannot be created: {error.strerror}", "Choose another location."
                ) from None
        if file is not None and self._is_new:
            made.about_to_make(file)
        # on a database server missing catalog tables are created; a missing SQLite file is more likely a typo
        open_catalog(self.name, lake, create=lake.type == "sql" and (self._is_new or file is None)).close()
        catalogs = Catalogs(settings)
        try:
            tables = len(Tables(catalogs, settings).names(self.name))
            if not tables and "name" not in self.model_fields_set:
                self._check_name(other_catalogs(catalogs.get(self.name)))
            return tables
        finally:
            catalogs.close()

    def _check_name(self, others: dict[str, int]) -> None:
        """An SQL catalog finds its tables by the catalog's name: a default name without tables is likely a mistake."""
        from lakewarden.engine.catalog.contents import describe

        if others:
            raise ConfigProblem(
                f"the catalog has no tables under the name {self.name}; {describe(others)}",
                f"Use --name {next(iter(others))}, or --name {self.name} for a new catalog.",
            )


class _Made:
    """Files and folders that the setup creates, so that a failed setup removes exactly those."""

    def __init__(self) -> None:
        self._paths: list[Path] = []

    def about_to_make(self, path: Path) -> None:
        """Note a file or folder, and its parents, if they do not exist yet."""
        self._paths += reversed([each for each in (path, *path.parents) if not os.path.lexists(each)])

    def made(self, path: Path) -> None:
        self._paths.append(path)

    def remove(self) -> None:
        for path in reversed(self._paths):
            with suppress(OSError):  # a folder that is no longer empty stays
                path.rmdir() if path.is_dir() else path.unlink()


def _from_pyiceberg(path: Path, name: str) -> tuple[dict[str, Any], str]:
    import yaml

    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError, ValueError) as error:
        raise ConfigProblem(
            f"{path} cannot be read: {' '.join(str(error).split())}", "Is it a .pyiceberg.yaml?"
        ) from None
    catalogs = (data or {}).get("catalog") if isinstance(data, dict) else None
    if not isinstance(catalogs, dict) or not catalogs:
        raise ConfigProblem(f"{path} describes no catalogs", "PyIceberg lists them under the key catalog.")
    if name not in catalogs:
        known = [str(each) for each in catalogs]
        hint = did_you_mean(name, known, f"It has {', '.join(known)}: choose one with --name.")
        raise ConfigProblem(f"{path} has no catalog {name}", hint)
    if not isinstance(catalogs[name], dict):
        raise ConfigProblem(f"catalog {name} in {path} has no properties", "PyIceberg lists them below its name.")
    catalog = dict(catalogs[name])
    warehouse = catalog.pop("warehouse", None)
    if not warehouse:
        raise ConfigProblem(f"catalog {name} in {path} names no warehouse", "Add it there: warehouse: s3://…")
    catalog.setdefault("type", _inferred_type(str(catalog.get("uri", ""))))
    if "uri" in catalog:
        catalog["uri"] = _from_here(str(catalog["uri"]))
    is_name = is_named_warehouse(str(catalog.get("type")), str(warehouse))
    return catalog, str(warehouse) if is_name else _from_here(str(warehouse))


def _from_here(place: str) -> str:
    """A relative path that was typed here, or that PyIceberg would take from here, spelled out."""
    scheme, separator, path = place.partition(":///")
    if separator:
        is_relative = scheme.startswith("sqlite") and not path.startswith("/")
        return f"{scheme}:///{Path(path).absolute()}" if is_relative else place
    return place if ":" in place else str(Path(place).absolute())


def _inferred_type(uri: str) -> str:
    """What PyIceberg would take it for."""
    if uri.startswith("http"):
        return "rest"
    return "hive" if uri.startswith("thrift") else "sql"


def _without_password(uri: str) -> str:
    if uri.startswith("sqlite"):
        return uri
    scheme, separator, rest = uri.partition("://")
    user, at, host = rest.partition("?")[0].rpartition("@")  # drivers take a password in the query too
    return f"{scheme}{separator}{user.partition(':')[0]}{at}{host}"
