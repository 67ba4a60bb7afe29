"""Which backfills a database has: kept as properties of its namespace, so that they are as safe as its tables."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

from pydantic import Field

from lakewarden.engine.base.faults import translating
from lakewarden.engine.base.table_name import TableName
from lakewarden.errors import BadValue, NotFound
from lakewarden.features.backfill.files import BackfillFiles, all_files, files_of

if TYPE_CHECKING:
    from lakewarden.engine.sql.insertion import Insertion
    from lakewarden.lifecycle.ground import Reader

PROPERTY = "lakewarden.backfill."

Database = Annotated[str, Field(description="The namespace that {db} stands for: [lake.]namespace.")]
Version = Annotated[str, Field(description="The version of a backfill, as in 003 or 3.")]


@dataclass(frozen=True)
class Place:
    """A database: a namespace of a lake."""

    lake: str
    namespace: tuple[str, ...]

    @property
    def name(self) -> str:
        return ".".join(self.namespace)

    def __str__(self) -> str:
        return f"{self.lake}.{self.name}"


@dataclass(frozen=True)
class Backfill:
    """A backfill of one database."""

    place: Place
    files: BackfillFiles

    @property
    def id(self) -> str:
        return f"{self.place.name}_{self.files.version}"

    @property
    def insertion(self) -> Insertion:
        named = self._named(self.files.meta.source_table)
        return self.files.insertion(self.place.namespace, self._spellings(named) if named else ())

    def table(self, lake: Reader, spelled: str) -> TableName:
        """A table of its SQL: in its lake, unless it names another."""
        known = spelled.split(".")[0] in lake.settings.lakes and spelled.count(".") > 1
        return lake.tables.name(spelled if known else f"{self.place.lake}.{spelled}")

    def target(self, lake: Reader) -> TableName:
        return self.table(lake, self._named(self.files.meta.target_table) or self._named(self.insertion.target))

    @property
    def source(self) -> str:
        """The table whose rows it reads in ranges, as its SQL spells it; empty if that is not clear."""
        return self.insertion.source

    @property
    def reads_by(self) -> str:
        """What its checkpoints mean."""
        return f"{self.source} by {', '.join(self.files.meta.checkpoint_columns)}"

    def refuse_other_tables(self, lake: Reader) -> None:
        """Refuse files whose two parts mean different tables, and a target that is the source: rows would double."""
        meta, insertion, target = self.files.meta, self.insertion, self.target(lake)
        if not _is_same(lake, target, self.table(lake, self._named(insertion.target))):
            raise BadValue(
                f"{self.files.meta_path}: target_table is {meta.target_table}, but the SQL inserts into "
                f"{insertion.target}",
                "Correct one of them, or remove target_table.",
            )
        if insertion.source not in insertion.tables:
            self._refuse_source()
        source = self.table(lake, insertion.source)
        if meta.source_table and not _is_same(lake, source, self.table(lake, self._named(meta.source_table))):
            self._refuse_source()
        if _is_same(lake, source, target):
            raise BadValue(
                f"{self.files.path}: {target} is both the source and the target, so its rows would be duplicated",
                "Insert into another table. The target may be read in a join or a subquery, to leave out known rows.",
            )

    def _refuse_source(self) -> NoReturn:
        tables, named = ", ".join(self.insertion.tables), self.files.meta.source_table
        if named:
            raise BadValue(
                f"{self.files.meta_path}: source_table is {named}, which the SQL does not read", f"It reads {tables}."
            )
        raise BadValue(
            f"{self.files.path}: it is not clear which table is the source",
            f"Add source_table to its meta file: one of {tables}.",
        )

    def _spellings(self, table: str) -> tuple[str, ...]:
        """How SQL may spell a table: with its lake, or without."""
        prefix = f"{self.place.lake}."
        return table, table.removeprefix(prefix), prefix + table

    def _named(self, table: str) -> str:
        """A table as it is named where {db} may be left out."""
        if not table:
            return ""
        filled = table.replace("{db}", self.place.name)
        return filled if "." in filled else f"{self.place.name}.{filled}"


def _is_same(lake: Reader, one: TableName, other: TableName) -> bool:
    """Whether two names mean one table; the catalog decides whether upper case matters."""
    if one == other:
        return True
    uuid = lake.tables.uuid(str(one))
    return uuid is not None and uuid == lake.tables.uuid(str(other))


def place_of(lake: Reader, database: str) -> Place:
    name = lake.tables.name(f"{database}.x")
    return Place(name.lake, name.namespace)


def properties_of(lake: Reader, place: Place) -> Mapping[str, str]:
    """The properties of a database's namespace; an error if it does not exist."""
    from pyiceberg.exceptions import NoSuchNamespaceError

    with translating(f"namespace {place}"):
        try:
            return dict(lake.tables.catalog(_any_table(place)).load_namespace_properties(place.namespace))
        except NoSuchNamespaceError:
            raise NotFound(f"there is no namespace {place.name} in lake {place.lake}", "Check --database.") from None


def set_property(lake: Reader, place: Place, key: str, value: Mapping[str, Any] | None) -> None:
    """Set a property of a database's namespace, or remove it."""
    catalog = lake.tables.catalog(_any_table(place))
    with translating(f"namespace {place}"):
        if value is None:
            catalog.update_namespace_properties(place.namespace, removals={key})
        else:
            catalog.update_namespace_properties(place.namespace, updates={key: json.dumps(value)})


def register(lake: Reader, backfill: Backfill, at: datetime) -> bool:
    """Note a backfill as one of its database; returns whether it is new."""
    if registered_at(lake, backfill):
        return False
    value = {"name": backfill.files.name, "at": at.isoformat()}
    set_property(lake, backfill.place, PROPERTY + backfill.files.version, value)
    return True


def registered_at(lake: Reader, backfill: Backfill) -> datetime | None:
    text = properties_of(lake, backfill.place).get(PROPERTY + backfill.files.version)
    return datetime.fromisoformat(json.loads(text)["at"]) if text else None


def backfill_of(lake: Reader, database: str, version: str) -> Backfill:
    """A backfill of a database; an error if it is not registered."""
    backfill = Backfill(place_of(lake, database), files_of(lake, version))
    if registered_at(lake, backfill) is None:
        raise NotFound(
            f"backfill {backfill.files.version} is not registered for {backfill.place.name}",
            f"lakewarden backfill register --database {database} --version {backfill.files.version}",
        )
    return backfill


def registered(lake: Reader, database: str | None = None) -> Iterator[Backfill]:
    """The registered backfills of a database, or of all, by priority and version."""
    places = [place_of(lake, database)] if database else _places(lake)
    files = sorted(all_files(lake), key=lambda each: (-each.meta.priority, int(each.version)))
    for place in places:
        known = properties_of(lake, place)
        yield from (Backfill(place, each) for each in files if PROPERTY + each.version in known)


def _places(lake: Reader) -> Iterator[Place]:
    for name in lake.settings.lakes:
        catalog = lake.tables.catalog(TableName(name, ("x",), "x"))
        with translating(f"lake {name}"):
            waiting = list(catalog.list_namespaces())
            while waiting:
                namespace = tuple(waiting.pop(0))
                yield Place(name, namespace)
                waiting += [child for child in catalog.list_namespaces(namespace) if len(child) > len(namespace)]


def _any_table(place: Place) -> TableName:
    return TableName(place.lake, place.namespace, "x")
