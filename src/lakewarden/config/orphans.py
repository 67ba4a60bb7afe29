"""The sections `orphans` of defaults, and `quarantine`: files that no version needs."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal

from lakewarden.config.section import Section
from lakewarden.quantities import Duration


class OrphanSettings(Section):
    older_than: Duration = timedelta(days=3)


class QuarantineSettings(Section):
    """What happens to unneeded files before they are deleted."""

    grace: Duration = timedelta(days=7)
    expired_files: Literal["auto", "always", "never"] = "auto"
