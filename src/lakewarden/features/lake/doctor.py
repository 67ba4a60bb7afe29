"""`lake doctor`."""

from __future__ import annotations

import os

from pydantic import Field

from lakewarden.errors import ConfigProblem, LakewardenError
from lakewarden.features.erasure.certificates import signing_key
from lakewarden.features.policy.mistakes import mistakes
from lakewarden.lifecycle.basics import Check
from lakewarden.lifecycle.ground import Reader
from lakewarden.lifecycle.request import Question


class Doctor(Question[list[Check]]):
    """Check everything Lakewarden depends on; each line is ok or says what to do.

    Checked are Python, Java, Spark and a task on its executors, each lake's catalog and storage (a probe object is
    written, read, listed and deleted), the control database and its migrations, tables whose erasure requests are in
    another control database, the clock, the tables and columns that the configuration names, and the key that signs
    certificates. Exit code 3 if a check failed.
    """

    skip_spark: bool = Field(False, description="Do not start Spark.")

    def ask(self, lake: Reader) -> list[Check]:
        probes = [probe for probe in lake.probes if not (self.skip_spark and probe.starts_spark)]
        return [*(check for probe in probes for check in probe.look()), *_configuration(lake), _signing_key(lake)]

    def found(self, answer: list[Check]) -> bool:
        return any(check.state == "failed" for check in answer)


def _configuration(lake: Reader) -> list[Check]:
    """Configuration of tables and columns that do not exist: it has no effect, which is easily missed."""
    try:
        found = mistakes(lake)
    except LakewardenError as error:
        return [Check("configuration", "warning", f"not compared with the tables: {error.message}", error.hint)]
    if found:
        return [Check(mistake.where, "warning", mistake.what, mistake.advice) for mistake in found]
    return [Check("configuration", "ok", "every pattern matches a table; tables and columns of every subject exist")]


def _signing_key(lake: Reader) -> Check:
    """Only certificates need the key, so a missing one is no failure; one that other users can read is."""
    path = lake.settings.signing_key
    try:
        return Check("signing key", "ok", f"{path}: {signing_key.load(path).public.fingerprint}")
    except ConfigProblem as error:
        return Check("signing key", "failed" if os.path.lexists(path) else "warning", error.message, error.hint)
