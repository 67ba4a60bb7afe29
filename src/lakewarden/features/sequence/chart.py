"""Draws how a table fills: what was observed, where it is now, and the predicted band up to its last partition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from html import escape

WIDTH, HEIGHT = 72, 16
_SVG_WIDTH, _SVG_HEIGHT, _MARGIN = 860, 320, 60


@dataclass(frozen=True)
class Point:
    """A position at a time."""

    at: datetime
    position: int


@dataclass(frozen=True)
class Mark:
    """The start of a partition: its lower bound, and when rows are predicted to reach it."""

    name: str
    position: int
    at: datetime


@dataclass(frozen=True)
class Chart:
    """What is drawn: observations up to now, then rates per day."""

    title: str
    observed: Sequence[Point]
    now: Point
    low: float
    estimate: float
    high: float
    marks: Sequence[Mark]

    @property
    def end(self) -> datetime:
        return max([self.now.at + timedelta(days=1), *(mark.at for mark in self.marks)])

    @property
    def begin(self) -> datetime:
        """The oldest observation within three times the span of the prediction."""
        shown = [point.at for point in self.observed if point.at >= self.now.at - 3 * (self.end - self.now.at)]
        return min([self.now.at - timedelta(days=1), *shown])

    def predicted(self, at: datetime, per_day: float) -> float:
        return self.now.position + max(per_day, 0.0) * ((at - self.now.at) / timedelta(days=1))

    @property
    def top(self) -> float:
        return max([self.predicted(self.end, self.estimate) * 1.02, *(mark.position for mark in self.marks)])

    @property
    def bottom(self) -> float:
        return min(point.position for point in (*self._shown(), self.now))

    def _shown(self) -> list[Point]:
        return [point for point in self.observed if self.begin <= point.at <= self.now.at]

    def across(self, at: datetime) -> float:
        return (at - self.begin) / (self.end - self.begin)

    def up(self, position: float) -> float:
        return (position - self.bottom) / ((self.top - self.bottom) or 1)

    def text(self) -> str:
        """For a terminal: * observed, @ now, - predicted, . the band, | the start of a partition."""
        grid = [[" "] * WIDTH for _ in range(HEIGHT)]

        def put(across: float, up: float, sign: str) -> None:
            column, row = round(across * (WIDTH - 1)), HEIGHT - 1 - round(up * (HEIGHT - 1))
            if 0 <= column < WIDTH and 0 <= row < HEIGHT:
                grid[row][column] = sign

        for mark in self.marks:
            for row in range(HEIGHT):
                put(self.across(mark.at), row / (HEIGHT - 1), "|")
        step = (self.end - self.now.at) / WIDTH
        for number in range(WIDTH + 1):
            at = self.now.at + number * step
            low, high = self.up(self.predicted(at, self.low)), self.up(self.predicted(at, self.high))
            for row in range(HEIGHT):
                if low <= row / (HEIGHT - 1) <= high:
                    put(self.across(at), row / (HEIGHT - 1), ".")
            put(self.across(at), self.up(self.predicted(at, self.estimate)), "-")
        for point in self._shown():
            put(self.across(point.at), self.up(point.position), "*")
        put(self.across(self.now.at), self.up(self.now.position), "@")
        edges = {0: f"{self.top:,.0f}", HEIGHT - 1: f"{self.bottom:,.0f}"}
        wide = max(map(len, edges.values()))
        lines = [f"{edges.get(row, ''):>{wide}} {''.join(signs).rstrip()}" for row, signs in enumerate(grid)]
        begin, end = f"{self.begin:%Y-%m-%d}", f"{self.end:%Y-%m-%d}"
        return "\n".join([self.title, *lines, f"{'':>{wide}} {begin}{end:>{WIDTH - len(begin)}}"])

    def svg(self, offset: int = 0) -> str:
        """The same as a group of SVG elements."""

        def x(at: datetime) -> float:
            return round(_MARGIN + self.across(at) * (_SVG_WIDTH - 2 * _MARGIN), 1)

        def y(position: float) -> float:
            share = min(max(self.up(position), 0.0), 1.05)
            return round(offset + _SVG_HEIGHT - _MARGIN / 2 - share * (_SVG_HEIGHT - 1.6 * _MARGIN), 1)

        now, end = self.now.at, self.end
        start = f"{x(now)},{y(self.now.position)}"
        ends = {name: f"{x(end)},{y(self.predicted(end, getattr(self, name)))}" for name in ("low", "estimate", "high")}
        parts = [
            f'<text x="{_MARGIN}" y="{offset + 18}" class="title">{escape(self.title)}</text>',
            f'<polygon class="band" points="{start} {ends["high"]} {ends["low"]}"/>',
            f'<polyline class="predicted" points="{start} {ends["estimate"]}"/>',
        ]
        for mark in self.marks:
            place = x(mark.at)
            parts.append(f'<line class="start" x1="{place}" x2="{place}" y1="{offset + 40}" y2="{y(self.bottom)}"/>')
            parts.append(f'<text class="name" x="{place + 3}" y="{offset + 38}">{escape(mark.name)}</text>')
        observed = " ".join(f"{x(point.at)},{y(point.position)}" for point in (*self._shown(), self.now))
        parts.append(f'<polyline class="observed" points="{observed}"/>')
        parts.append(f'<circle class="now" cx="{x(now)}" cy="{y(self.now.position)}" r="4"/>')
        base = offset + _SVG_HEIGHT - 4
        for at, anchor in ((self.begin, "start"), (now, "middle"), (end, "end")):
            parts.append(f'<text class="name" text-anchor="{anchor}" x="{x(at)}" y="{base}">{at:%Y-%m-%d}</text>')
        parts += [f'<text class="name" x="2" y="{y(each)}">{each:,.0f}</text>' for each in (self.bottom, self.top)]
        return "\n".join(parts)


def svg_page(charts: Sequence[Chart]) -> str:
    """All charts, one below another, as one SVG document."""
    height = _SVG_HEIGHT * max(len(charts), 1)
    style = (
        "text{font:12px sans-serif}.title{font-weight:bold}.name{font-size:10px;fill:#555}.band{fill:#cfe3f5}"
        ".predicted{fill:none;stroke:#1f6fb2;stroke-dasharray:5 3}.observed{fill:none;stroke:#222;stroke-width:1.5}"
        ".start{stroke:#bbb}.now{fill:#c33}"
    )
    inner = "\n".join(chart.svg(number * _SVG_HEIGHT) for number, chart in enumerate(charts))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_SVG_WIDTH} {height}" width="{_SVG_WIDTH}" '
        f'height="{height}"><style>{style}</style><rect width="100%" height="100%" fill="white"/>\n{inner}\n</svg>\n'
    )
