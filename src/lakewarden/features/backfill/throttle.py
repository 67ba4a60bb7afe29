"""Holds a backfill back: to a share of time, or while a question in SQL does not answer that all is well."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lakewarden.engine.base.quoting import identifier
from lakewarden.engine.sql.in_duckdb import quoted
from lakewarden.engine.sql.insertion import DATABASE
from lakewarden.engine.sql.placeholders import fill
from lakewarden.errors import BadValue, LakewardenError, WrongUse
from lakewarden.features.query import statement
from lakewarden.lifecycle.failpoints import reach

if TYPE_CHECKING:
    from lakewarden.features.backfill.meta import Throttle
    from lakewarden.features.backfill.registration import Backfill
    from lakewarden.lifecycle.ground import Reader, Writer
    from lakewarden.lifecycle.plan import Plan
    from lakewarden.lifecycle.report import Report
    from lakewarden.lifecycle.request import Operation

_LOOK_EVERY = 0.2  # seconds between two looks at requests to stop


@dataclass
class Times:
    """How a run has spent its time so far, for each backfill."""

    written: dict[str, float] = field(default_factory=dict)
    """Seconds of writing that are not made up for yet."""
    healthy_at: dict[str, float] = field(default_factory=dict)
    """When the last answer was that all is well."""
    waited: float = 0.0


@contextmanager
def held_back(lake: Writer, backfill: Backfill, starts_job: bool) -> Iterator[None]:
    """Wait until a batch may be written; the time of the body counts as writing.

    Publishing what a job has written does not wait for the share of time.
    """
    throttle, times = backfill.files.meta.throttle, lake.kept(Times)
    if throttle is None:
        yield
        return
    if throttle.share is not None and starts_job:
        rest = times.written.pop(backfill.id, 0.0) * (1 / throttle.share - 1)
        wait(lake, rest, f"throttle: at most {throttle.share:.0%} of the time is spent writing")
    while throttle.healthy and time.monotonic() - times.healthy_at.get(backfill.id, -1e9) > throttle.every_seconds:
        problem = why_unhealthy(lake, backfill, throttle)
        if problem is None:
            times.healthy_at[backfill.id] = time.monotonic()
        else:
            wait(lake, throttle.every_seconds, f"throttle: the question healthy {problem}")
    lake.progress(0, 1)
    began = working_time(lake)
    try:
        yield
    finally:
        times.written[backfill.id] = times.written.get(backfill.id, 0.0) + working_time(lake) - began


def wait(lake: Writer, seconds: float, why: str) -> None:
    """Wait so long; others see why until progress is reported, and requests to pause, cancel or stop are heard."""
    began = time.monotonic()
    while (left := began + seconds - time.monotonic()) > 0:
        lake.progress(0, 1, why, waits=True)
        reach("backfill.waiting")
        time.sleep(min(left, _LOOK_EVERY))
    lake.kept(Times).waited += time.monotonic() - began


def working_time(lake: Writer) -> float:
    """A clock, in seconds, that stands still while a run waits."""
    return time.monotonic() - lake.kept(Times).waited


def check(lake: Reader, backfill: Backfill) -> None:
    """Refuse a question that cannot be asked; whether all is well does not matter yet."""
    throttle = backfill.files.meta.throttle
    if throttle is not None and throttle.healthy:
        try:
            _answer(lake, backfill, throttle)
        except WrongUse as error:
            raise BadValue(f"{backfill.files.meta_path}: throttle.healthy: {error.message}", error.hint) from None
        except LakewardenError:
            pass  # it may be answered later


def why_unhealthy(lake: Reader, backfill: Backfill, throttle: Throttle) -> str | None:
    """What is wrong with the answer; None if it is true. What is not known is not healthy."""
    try:
        found = _answer(lake, backfill, throttle)
    except LakewardenError as error:
        return f"cannot be answered: {error.message}"
    if len(found) != 1:
        return f"gives {len(found)} rows, not one"
    if found[0] is True:
        return None
    return "is false" if found[0] is False else "is NULL" if found[0] is None else "is not true or false"


def _answer(lake: Reader, backfill: Backfill, throttle: Throttle) -> list[Any]:
    """The values of the question's one column."""
    parts = (backfill.place.lake, *backfill.place.namespace)
    named = identifier(parts) if throttle.engine == "spark" else ".".join(map(quoted, parts))

    def value(name: str, quote: str) -> str:
        if name != DATABASE:
            raise BadValue(f"the placeholder {{{name}}} has no value", "Only {db} is known here.")
        return ".".join(parts) if quote else named

    rows = statement.run(lake, fill(throttle.healthy, value), throttle.engine, _refuse).rows
    if rows.num_columns != 1:
        raise BadValue(f"the SELECT has {rows.num_columns} columns", "It must have one, which is true or false.")
    values: list[Any] = rows.column(0).to_pylist()
    return values


def _refuse(operation: Operation) -> tuple[Plan, Report | None]:
    raise BadValue(f"it calls {operation.kind()}, which changes something", "A question only reads.")
