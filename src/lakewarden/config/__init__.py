"""`lakewarden.yaml` and the environment, as typed settings. The only part of the house that reads either."""

from __future__ import annotations

from lakewarden.config.environment import Environment
from lakewarden.config.file import FILE_NAME, find, load
from lakewarden.config.settings import CatalogType, LakeSettings, Settings, StorageSettings, is_named_warehouse

__all__ = [
    "FILE_NAME",
    "CatalogType",
    "Environment",
    "LakeSettings",
    "Settings",
    "StorageSettings",
    "find",
    "is_named_warehouse",
    "load",
]
