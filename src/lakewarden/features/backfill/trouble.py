"""What to do when a batch fails: try again, write less at once, or give up."""

from __future__ import annotations

import random
import re
from enum import StrEnum

from lakewarden.engine.rewrite.driver import MissingModule
from lakewarden.engine.spark.session import OUT_OF_MEMORY
from lakewarden.engine.spark.time_limit import TookTooLong
from lakewarden.errors import BrokenTable, LakewardenError, StorageUnavailable, Unavailable, VerificationFailed

_STATE = re.compile(r"SQLSTATE: (\w{5})")
_DATA = ("22", "P0")  # data exceptions, and errors that SQL itself raises
_LONGEST = 60.0


class Trouble(StrEnum):
    """Why a batch failed."""

    TOO_MUCH = "too much"
    """Out of memory or of time: less at once may succeed."""
    PASSING = "passing"
    """It may succeed if it is tried again."""
    DATA = "data"
    """A row that the SQL fails on."""
    LASTING = "lasting"
    """It will fail again, such as SQL that does not fit the tables."""


def trouble(error: LakewardenError) -> Trouble:
    """Why a batch failed, by the error and what caused it."""
    text = f"{error} {error.__cause__ or ''}"
    if isinstance(error, TookTooLong) or OUT_OF_MEMORY.search(text):
        return Trouble.TOO_MUCH
    state = _STATE.search(text)
    if state is not None and state[1].startswith(_DATA):
        return Trouble.DATA
    if not isinstance(error, Unavailable) or (state is not None and state[1].startswith("42")):
        return Trouble.LASTING
    return Trouble.PASSING


def is_of_the_route(error: LakewardenError) -> bool:
    """Whether only Lakewarden's own tasks fail in this way, so that Spark's writer may succeed."""
    return isinstance(error, MissingModule | StorageUnavailable | BrokenTable | VerificationFailed) or (
        type(error) is LakewardenError and trouble(error) is Trouble.LASTING
    )


def pause_before(attempt: int) -> float:
    """Seconds before the next attempt: twice as long each time, and never the same for two processes."""
    return float(min(2.0 ** (attempt - 1), _LONGEST) * (0.5 + random.random()))
