"""`tables` and `defaults`: what holds for tables by their name, and for all of them."""

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
    """What is declared about the tables of one name or pattern; only the keys that are set there count."""

    production: bool | None = None
    skip: bool | None = None
    retention: RetentionSettings | None = None
    compaction: CompactionSettings | None = None
    erasure: ErasureSettings | None = None
