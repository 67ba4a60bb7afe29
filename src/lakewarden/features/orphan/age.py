"""How old an unreferenced file must be to count as an orphan: a writer may be about to commit a younger one."""

from __future__ import annotations

from datetime import datetime, timedelta

from pydantic import Field, model_validator

from lakewarden.features.shared.select import Selects
from lakewarden.lifecycle.ground import Reader
from lakewarden.quantities import Duration, show_duration

_YOUNGEST = timedelta(hours=24)


def age_of_orphans(lake: Reader) -> timedelta:
    """The configured age from which on an unreferenced file counts as an orphan."""
    return max(lake.settings.defaults.orphans.older_than, _YOUNGEST)


class Aged(Selects):
    """A request about orphans of a minimum age."""

    older_than: Duration | None = Field(
        None, description="Only files older than this, as in 10d; by default as configured, or 3d."
    )
    even_recent: bool = Field(
        False, description="Allow --older-than below 24h. Only safe while nothing else writes to the table."
    )

    @model_validator(mode="after")
    def _old_enough(self) -> Aged:
        if self.older_than is None and self.even_recent:
            raise ValueError("--even-recent requires --older-than")
        if self.older_than is not None and self.older_than < _YOUNGEST and not self.even_recent:
            raise ValueError(
                f"--older-than {show_duration(self.older_than)} would include files that writers are about to commit: "
                "the minimum is 24h, unless --even-recent is given"
            )
        return self

    def before(self, lake: Reader) -> datetime:
        """The time before which a file must have been written."""
        return lake.clock() - (age_of_orphans(lake) if self.older_than is None else self.older_than)

    def options(self) -> str:
        """The same options for another command."""
        older = f" --older-than {show_duration(self.older_than)}" if self.older_than is not None else ""
        return older + (" --even-recent" if self.even_recent else "")
