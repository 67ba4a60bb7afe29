"""The sections `tables` and `defaults`: settings for tables by name, and for all tables."""

from __future__ import annotations

from lakewarden.config.compaction import CompactionSettings
from lakewarden.config.erasure import ErasureSettings
from lakewarden.config.orphans import OrphanSettings
from lakewarden.config.retention import RetentionSettings
from lakewarden.config.section import Section


class Defaults(Section):
    retention: RetentionSettings = RetentionSettings()
    compaction: CompactionSettings = CompactionSettings()
    orphans: OrphanSettings = OrphanSettings()


class TableSettings(Section):
    """Settings for the tables of one name or pattern; only keys that are set count."""

    production: bool | None = None
    skip: bool | None = None
    retention: RetentionSettings | None = None
    compaction: CompactionSettings | None = None
    erasure: ErasureSettings | None = None
