"""Iceberg's own table properties, as values that settings have too."""

from __future__ import annotations

from collections.abc import Mapping


def whole_number(properties: Mapping[str, str], key: str, per: int = 1) -> int | None:
    """A table property as a number of something larger, rounded up; none where it is not set or not a number."""
    text = properties.get(key, "")
    return -(-int(text) // per) if text.isascii() and text.isdigit() else None
