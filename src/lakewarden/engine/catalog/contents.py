"""What a catalog contains besides the tables it lists: views, and other catalogs in the same database."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lakewarden.engine.base.faults import translating

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog


def has_view(catalog: Catalog, identifier: tuple[str, ...]) -> bool:
    """Whether a name is a view; False if the catalog cannot tell."""
    from pyiceberg.catalog.sql import IcebergTables, SqlCatalog

    with translating(f"lake {catalog.name}"):
        if not isinstance(catalog, SqlCatalog):
            try:
                return catalog.view_exists(identifier)
            except NotImplementedError:
                return False
        if catalog._schema_version != "v1":  # has no views
            return False
        entries: Any = IcebergTables  # PyIceberg ignores views here; Java marks them in the same table
        wanted = (
            entries.catalog_name == catalog.name,
            entries.table_namespace == ".".join(identifier[:-1]),
            entries.table_name == identifier[-1],
            entries.iceberg_type == "VIEW",
        )
        with catalog.engine.connect() as connection:
            return connection.execute(entries.__table__.select().where(*wanted)).first() is not None


def other_catalogs(catalog: Catalog) -> dict[str, int]:
    """Other catalogs in the database of an SQL catalog, by name, with their number of entries."""
    from pyiceberg.catalog.sql import IcebergTables, SqlCatalog

    if not isinstance(catalog, SqlCatalog):
        return {}
    table: Any = IcebergTables.__table__
    with translating(f"lake {catalog.name}"), catalog.engine.connect() as connection:
        names = connection.execute(table.select().with_only_columns(table.c.catalog_name)).scalars()
        return dict(sorted(Counter(name for name in names if name != catalog.name).items()))


def describe(others: Mapping[str, int]) -> str:
    counted = [f"{name} ({tables} {'table' if tables == 1 else 'tables'})" for name, tables in others.items()]
    return f"its database has other catalogs: {', '.join(counted)}"
