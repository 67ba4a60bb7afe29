"""`lake doctor`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from lakewarden.lifecycle.ground import Check
from lakewarden.lifecycle.request import Question

if TYPE_CHECKING:
    from lakewarden.lifecycle.ground import Reader


class Doctor(Question[list[Check]]):
    """Look at everything Lakewarden leans on; each line is ok, or says what to do.

    Python, Java, Spark and a task on its executors, each lake's catalog and storage (a probe object is
    written, read, listed and deleted), the control database and its migrations, the clock. Exit code 3 if
    something failed.
    """

    skip_spark: bool = Field(False, description="Do not start Spark.")

    def ask(self, lake: Reader) -> list[Check]:
        probes = [probe for probe in lake.probes if not (self.skip_spark and probe.starts_spark)]
        return [check for probe in probes for check in probe.look()]

    def found(self, answer: list[Check]) -> bool:
        return any(check.state == "failed" for check in answer)
