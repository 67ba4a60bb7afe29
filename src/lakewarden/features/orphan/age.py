"""How old a file must be to count as an orphan: a writer that has not committed yet needs files that nothing names."""

from __future__ import annotations

from datetime import datetime, timedelta

from pydantic import Field, model_validator

from lakewarden.features.shared.select import Selects
from lakewarden.lifecycle.ground import Reader
from lakewarden.quantities import Duration, show_duration

_YOUNGEST = timedelta(hours=24)


def age_of_orphans(lake: Reader) -> timedelta:
    """How old a file that nothing leads to must be, as configured, so that nobody is about to commit it."""
    return max(lake.settings.defaults.orphans.older_than, _YOUNGEST)


class Aged(Selects):
    """A request about orphans of some age."""

    older_than: Duration | None = Field(
        None, description="Only files older than this, as in 10d; else as configured, or 3d."
    )
    even_recent: bool = Field(
        False, description="Let --older-than be less than 24h. No other writer may be at work on the table then."
    )

    @model_validator(mode="after")
    def _old_enough(self) -> Aged:
        if self.older_than is None and self.even_recent:
            raise ValueError("--even-recent says nothing without --older-than")
        if self.older_than is not None and self.older_than < _YOUNGEST and not self.even_recent:
            raise ValueError(
                f"older than {show_duration(self.older_than)} takes in what writers may be about to commit: "
                "24h is the least, unless --even-recent is said too"
            )
        return self

    def before(self, lake: Reader) -> datetime:
        """The moment before which a file must have been written."""
        return lake.clock() - (age_of_orphans(lake) if self.older_than is None else self.older_than)

    def options(self) -> str:
        """What was said of the age, as it would be said to another verb."""
        older = f" --older-than {show_duration(self.older_than)}" if self.older_than is not None else ""
        return older + (" --even-recent" if self.even_recent else "")
