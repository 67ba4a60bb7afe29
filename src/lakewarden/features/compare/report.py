"""A comparison as one HTML file: no script, nothing loaded from elsewhere, plots as inline SVG."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

from lakewarden.display import show_as_is, table_html
from lakewarden.errors import BadValue, StorageUnavailable
from lakewarden.features.compare.answer import ColumnDifference, DataComparison
from lakewarden.quantities import show_size

_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:70rem;padding:0 1rem;color:#1c2733}
h1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:2rem;border-bottom:1px solid #d5dce3}
table{border-collapse:collapse;margin:.5rem 0;font-size:.9rem}th,td{padding:.25rem .7rem;text-align:left;
border-bottom:1px solid #e6eaee;vertical-align:top}th{color:#516070;font-weight:600}
.counts{display:flex;gap:1rem;flex-wrap:wrap}.counts div{background:#f3f6f8;border-radius:6px;padding:.6rem 1rem}
.counts b{display:block;font-size:1.3rem}.failed{background:#fdecea;border-left:4px solid #c62828;padding:.5rem 1rem}
.note{color:#516070}svg text{font:11px system-ui,sans-serif;fill:#516070}
"""
_COUNTS = ("rows_from", "rows_to", "rows_added", "rows_removed", "rows_changed", "rows_unchanged")
_WIDTH, _BAR, _LABEL = 520, 12, 170


def write_report(out: Path, answer: DataComparison) -> None:
    """Write a report to a new file."""
    try:
        with out.open("x", encoding="utf-8") as sink:
            sink.write(html(answer))
    except FileExistsError:
        raise BadValue(f"{out} exists already", "Choose another file, or remove it first.") from None
    except OSError as error:
        out.unlink(missing_ok=True)
        raise StorageUnavailable(f"{out} cannot be written: {error.strerror or error}") from error


def html(answer: DataComparison) -> str:
    """The whole document."""
    title = f"{answer.table}: {answer.from_version} → {answer.to_version}"
    parts = [
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{escape(title)}</title><style>{_STYLE}</style>",
        f"<h1>{escape(title)}{escape(f' of {answer.other}') if answer.other else ''}</h1>",
        *(f"<p class=failed>Failed: {escape(rule)}</p>" for rule in answer.failed),
        _counts(answer),
        *_columns(answer),
        *_samples(answer),
        *_notes(answer),
    ]
    return "\n".join(parts) + "\n"


def _counts(answer: DataComparison) -> str:
    cells = []
    for name in _COUNTS:
        value = getattr(answer, name)
        text = f"{value:,}" if value is not None else "{:,} to {:,}".format(*answer.ranges[name])
        cells.append(f"<div>{escape(name.replace('_', ' '))}<b>{text}</b></div>")
    return f"<div class=counts>{''.join(cells)}</div>"


def _columns(answer: DataComparison) -> list[str]:
    parts = []
    for column in sorted(answer.columns, key=lambda one: (-one.changed, -(one.drift.psi or 0), one.name)):
        if not column.changed and column.statistics_from is None:
            continue
        parts.append(f"<h2>{escape(column.name)}</h2>")
        if column.changed:
            parts.append(f"<p>{column.changed:,} rows changed.</p>")
        if column.changes:
            rows = [(show_as_is(one.before), show_as_is(one.after), f"{one.rows:,}") for one in column.changes]
            parts.append(table_html(("before", "after", "rows"), rows))
        parts += _statistics(column)
    return parts


def _statistics(column: ColumnDifference) -> list[str]:
    before, after = column.statistics_from, column.statistics_to
    if before is None or after is None:
        return []
    facts: list[tuple[str, Any, Any]] = [
        ("rows", f"{before.rows:,}", f"{after.rows:,}"),
        ("NULL", f"{before.nulls:,}", f"{after.nulls:,}"),
        ("NaN", f"{before.nans:,}", f"{after.nans:,}"),
        ("distinct", _about(before.distinct), _about(after.distinct)),
        ("min", before.min, after.min),
        ("max", before.max, after.max),
        *((f"quantile {name}", value, after.quantiles.get(name)) for name, value in before.quantiles.items()),
    ]
    shown = [
        (name, *(value if isinstance(value, str) else show_as_is(value) for value in both))
        for name, *both in facts
        if any(value not in (None, "0") for value in both)
    ]
    parts = [table_html(("", "before", "after"), shown)]
    if column.drift.psi is not None:
        ks = "" if column.drift.ks is None else f", KS {column.drift.ks:.4f}"
        parts += [f"<p>Drift: PSI {column.drift.psi:.4f}{ks}</p>", _plot(column)]
    return parts


def _about(distinct: int) -> str:
    from lakewarden.engine.kernel.profile import DISTINCT

    return f"{distinct:,}" if distinct < DISTINCT else f"about {distinct:,}"


def _plot(column: ColumnDifference) -> str:
    """The share of rows in each bin, before and after, as two bars."""
    shares = column.drift.shares[:20]
    most = max((max(one, other) for _, one, other in shares), default=0.0) or 1.0
    lines = []
    for place, (label, one, other) in enumerate(shares):
        top = place * (2 * _BAR + 8)
        name = escape(label if len(label) <= 24 else f"{label[:23]}…")
        lines.append(f"<text x='{_LABEL - 8}' y='{top + _BAR + 4}' text-anchor='end'>{name}</text>")
        for offset, share, colour in ((0, one, "#9db2c6"), (_BAR, other, "#2f6f9f")):
            width = share / most * (_WIDTH - _LABEL - 60)
            lines.append(
                f"<rect x='{_LABEL}' y='{top + offset}' width='{width:.1f}' height='{_BAR - 1}' fill='{colour}'/>"
                f"<text x='{_LABEL + width + 6:.1f}' y='{top + offset + _BAR - 2}'>{share:.1%}</text>"
            )
    height = len(shares) * (2 * _BAR + 8)
    return (
        f"<svg width='{_WIDTH}' height='{height}' role='img' aria-label='Shares of {escape(column.name)}'>"
        f"{''.join(lines)}</svg><p class=note>light: before, dark: after</p>"
    )


def _samples(answer: DataComparison) -> list[str]:
    parts = []
    for kind, rows in answer.samples.items():
        if not rows:
            continue
        parts.append(f"<h2>Rows {escape(kind)}</h2>")
        if kind == "changed":
            lines = [
                (
                    ", ".join(f"{name} {show_as_is(value)}" for name, value in row["key"].items()),
                    name,
                    show_as_is(change["from"]),
                    show_as_is(change["to"]),
                )
                for row in rows
                for name, change in row["changes"].items()
            ]
            parts.append(table_html(("key", "column", "before", "after"), lines))
        else:
            names = list(rows[0])
            parts.append(table_html(names, [[show_as_is(row[name]) for name in names] for row in rows]))
    return parts


def _notes(answer: DataComparison) -> list[str]:
    notes = [f"{answer.method}; {show_size(answer.bytes_read)} read."]
    notes += [f"Statistics: {answer.statistics}."] if answer.statistics else []
    notes += [f"Key: {', '.join(answer.key)}."] if answer.key else ["No key: changed rows are removed and added."]
    notes += [f"{answer.ambiguous_keys:,} keys occur more than once."] if answer.ambiguous_keys else []
    notes += [f"Not compared: {name}, {reason}." for name, reason in answer.not_compared.items()]
    return ["<h2>How it was compared</h2>", *(f"<p class=note>{escape(note)}</p>" for note in notes)]
