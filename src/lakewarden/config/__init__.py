"""`lakewarden.yaml` and the environment as typed settings. Nothing else reads either."""

from __future__ import annotations

from lakewarden.config.environment import Environment
from lakewarden.config.file import FILE_NAME, find, load, load_sequences, read_document
from lakewarden.config.lakes import CatalogType, LakeSettings, StorageSettings, is_named_warehouse
from lakewarden.config.resolution import Declared
from lakewarden.config.sequences import DatabaseAddress, SequenceSettings, SequenceTable
from lakewarden.config.settings import Settings, TableSection

__all__ = [
    "FILE_NAME",
    "CatalogType",
    "DatabaseAddress",
    "Declared",
    "Environment",
    "LakeSettings",
    "SequenceSettings",
    "SequenceTable",
    "Settings",
    "StorageSettings",
    "TableSection",
    "find",
    "is_named_warehouse",
    "load",
    "load_sequences",
    "read_document",
]
