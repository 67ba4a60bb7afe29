"""`backfills`: the folders with the files of migrations and backfills."""

from __future__ import annotations

from pathlib import Path

from lakewarden.config.section import Section


class BackfillSettings(Section):
    folders: tuple[Path, ...] = ()
    """Relative paths are relative to the configuration file."""
