"""The section `leases`: how long a dead process keeps a table."""

from __future__ import annotations

from datetime import timedelta

from pydantic import Field

from lakewarden.config.section import Section
from lakewarden.quantities import Duration


class LeaseSettings(Section):
    timeout: Duration = Field(
        timedelta(seconds=60), gt=timedelta(), description="How long a dead holder on another host keeps a table."
    )
