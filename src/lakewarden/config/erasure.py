"""`erasure` of tables: the keys that tell whose a row is, and when people are erased."""

from __future__ import annotations

from datetime import timedelta

from pydantic import Field

from lakewarden.config.section import Section
from lakewarden.quantities import Duration


class ErasureSettings(Section):
    keys: list[str] = Field([])
    grace: Duration = timedelta()
    watch: bool = True
