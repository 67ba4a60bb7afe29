"""The section `erasure` of tables: the columns that identify a person, and when rows are erased."""

from __future__ import annotations

from datetime import timedelta

from pydantic import Field

from lakewarden.config.section import Section
from lakewarden.quantities import Duration


class ErasureSettings(Section):
    keys: list[str] = Field([])
    grace: Duration = timedelta()
    watch: bool = True
