"""Lakewarden keeps lakehouse tables in order for their whole life."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lakewarden.errors import LakewardenError
    from lakewarden.warden import Planned, Warden

__all__ = ["LakewardenError", "Planned", "Warden"]
__version__ = "0.1.0"


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


def __getattr__(name: str) -> Any:
    """Public names are imported when used, so that the command line starts at once."""
    from importlib import import_module

    homes = {"LakewardenError": "errors", "Planned": "warden", "Warden": "warden"}
    if name not in homes:
        raise AttributeError(f"module 'lakewarden' has no attribute {name!r}")
    return getattr(import_module(f"lakewarden.{homes[name]}"), name)
