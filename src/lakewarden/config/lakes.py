"""The section `lakes`: catalogs, and how to access their storage."""

from __future__ import annotations

import re
from typing import Any, Literal, get_args

from pydantic import Field, field_validator

from lakewarden.config.section import Section

CatalogType = Literal["sql", "rest", "hive", "glue"]
_SQL_ADDRESS = re.compile(r"sqlite(\+\w+)?:///.|(?!sqlite)\w+(\+\w+)?://.")


class StorageSettings(Section):
    """Access to a lake's object storage; not needed for local files."""

    endpoint: str | None = None
    access_key: str | None = Field(None, repr=False)
    secret_key: str | None = Field(None, repr=False)
    session_token: str | None = Field(None, repr=False)
    region: str | None = None
    path_style: bool = True


def is_named_warehouse(catalog_type: str, warehouse: str) -> bool:
    """Whether a warehouse is a name rather than a location, which only REST catalogs have."""
    return catalog_type == "rest" and "://" not in warehouse and not warehouse.startswith(("file:", "/", "."))


class LakeSettings(Section):
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
            raise ValueError("the uri of an sql catalog must look like sqlite:///file or postgresql+psycopg://host")
        return catalog

    @property
    def type(self) -> str:
        return str(self.catalog["type"])

    @property
    def is_local(self) -> bool:
        return self.warehouse.startswith("file:")

    @property
    def has_named_warehouse(self) -> bool:
        """Whether the warehouse is a name or an ARN, whose location only its REST catalog knows."""
        return is_named_warehouse(self.type, self.warehouse)
