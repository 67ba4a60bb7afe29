"""`sequence forecast`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import ClassVar

from pydantic import Field

from lakewarden.display import Shown
from lakewarden.errors import BadValue, LakewardenError, StorageUnavailable
from lakewarden.features.sequence.chart import Chart, Mark, Point, svg_page
from lakewarden.features.sequence.connection import Reading
from lakewarden.features.sequence.rate import in_order
from lakewarden.features.sequence.survey import Survey, survey
from lakewarden.features.sequence.target import SequenceRequest
from lakewarden.lifecycle.ground import Reader
from lakewarden.lifecycle.request import Question

_AT_MOST = timedelta(days=3650)


@dataclass(frozen=True)
class PredictedStart:
    """When rows are predicted to reach an empty partition."""

    partition: str
    position: int
    at: datetime
    earliest: datetime
    latest: datetime


@dataclass(frozen=True)
class TableForecast:
    """How a table fills, by the first column of its partitioning."""

    table: str
    position: int | None = None
    ids_per_day: float | None = None
    low: float | None = None
    high: float | None = None
    observed: tuple[Point, ...] = ()
    starts: tuple[PredictedStart, ...] = ()
    problem: str = ""

    def chart(self, now: datetime) -> Chart | None:
        if self.position is None or self.ids_per_day is None or self.low is None or self.high is None:
            return None
        title = f"{self.table}: {self.ids_per_day:,.1f} ids a day ({self.low:,.1f} to {self.high:,.1f})"
        near = [start for start in self.starts if start.at - now < _AT_MOST]
        marks = [Mark(start.partition, start.position, start.at) for start in near]
        point = Point(now, self.position)
        return Chart(title, self.observed, point, self.low, self.ids_per_day, self.high, marks)


@dataclass(frozen=True)
class Forecasts(Shown):
    """Forecasts of several tables, which draw themselves."""

    at: datetime
    tables: list[TableForecast]
    media_type: ClassVar[str] = "image/svg+xml"

    def drawn(self) -> bytes:
        charts = (table.chart(self.at) for table in self.tables)
        return svg_page([chart for chart in charts if chart]).encode()

    def __rich__(self) -> str:
        return "\n\n".join(self._text(table) for table in self.tables)

    def _text(self, table: TableForecast) -> str:
        chart = table.chart(self.at)
        if chart is None:
            return f"{table.table}: {table.problem}"
        starts = [
            f"  {s.partition}: {s.at:%Y-%m-%d} ({s.earliest:%Y-%m-%d} to {s.latest:%Y-%m-%d})" for s in table.starts
        ]
        return "\n".join([chart.text(), "Rows are predicted to reach:", *starts])


class Forecast(Question[Forecasts], SequenceRequest):
    """Draw how database tables fill over time, and when rows will reach each empty partition."""

    out: Path | None = Field(None, description="Write the drawing to this .svg file.")

    def ask(self, lake: Reader) -> Forecasts:
        sequences, now = self.sequences(lake.settings), lake.clock()
        if self.out is not None and self.out.suffix.lower() != ".svg":
            raise BadValue(f"{self.out} is not an .svg file", "Forecasts are drawn as SVG.")
        tables: list[TableForecast] = []
        with Reading(sequences) as connection:
            for name in self.chosen(sequences):
                try:
                    found = survey(
                        connection, sequences, name, lake.state.sequence.positions, now, sequences.period(name)
                    )
                    tables.append(_forecast(name, found if isinstance(found, Survey) else None))
                except LakewardenError as error:
                    tables.append(TableForecast(name, problem=error.message))
        forecasts = Forecasts(now, tables)
        if self.out is not None:
            try:
                self.out.write_bytes(forecasts.drawn())
            except OSError as error:
                raise StorageUnavailable(f"{self.out} cannot be written: {error.strerror}") from error
        return forecasts

    def found(self, answer: Forecasts) -> bool:
        return any(table.problem for table in answer.tables)


def _forecast(name: str, found: Survey | None) -> TableForecast:
    if found is None or found.outlook is None:
        return TableForecast(name, problem="too little is known yet to tell how fast it fills")
    rate, lower, starts = found.outlook.rates[0], found.parts.active.bound, []
    for partition in found.parts.empty if lower else ():
        reached = found.outlook.reached(lower or ())
        starts.append(PredictedStart(partition.name, (lower or (0,))[0], reached.at, reached.earliest, reached.latest))
        lower = partition.bound
    return TableForecast(
        name,
        found.position[0],
        rate.per_day,
        rate.low,
        rate.high,
        tuple(Point(each.at, each.position) for each in in_order(found.seen)),
        tuple(starts),
    )
