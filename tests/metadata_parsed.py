"""Counts how often metadata files are parsed."""

from __future__ import annotations

from typing import Any

import pytest
from pyiceberg.serializers import FromInputFile


def metadata_parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The metadata files that are parsed from now on, as often as they are."""
    seen: list[str] = []
    read = FromInputFile.table_metadata

    def counted(file: Any, *args: Any) -> Any:
        seen.append(file.location)
        return read(file, *args)

    monkeypatch.setattr(FromInputFile, "table_metadata", counted)
    return seen
