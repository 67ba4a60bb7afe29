"""An estimate of a comparison from metadata alone: exact where metadata knows, else the least and the most."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakewarden.features.compare.answer import DataComparison, compared_versions

if TYPE_CHECKING:
    from lakewarden.engine.comparison.compare import Comparisons, Wanted
    from lakewarden.engine.files.live_files import LiveFile

Range = tuple[int, int]


def estimated(comparisons: Comparisons, wanted: Wanted) -> DataComparison:
    """How many rows differ, as far as files tell."""
    files, live = comparisons.files_of(wanted)
    is_filtered = wanted.where is not None or comparisons.hides(wanted)
    rows_from = _rows(live["from"].data, is_filtered)
    rows_to = _rows(live["to"].data, is_filtered)
    only_from = _rows([each.before for each in files.differing if each.before is not None], is_filtered)
    only_to = _rows([each.after for each in files.differing if each.after is not None], is_filtered)
    both = min(only_from[1], only_to[1])  # so many rows may be on both sides, equal or changed
    grown = (rows_to[0] - rows_from[1], rows_to[1] - rows_from[0])
    ranges: dict[str, Range] = {
        "rows_from": rows_from,
        "rows_to": rows_to,
        "rows_added": (max(0, grown[0]), only_to[1]),
        "rows_removed": (max(0, -grown[1]), only_from[1]),
        "rows_changed": (0, both if wanted.key else 0),
        "rows_unchanged": (max(0, rows_from[0] - only_from[1]), min(rows_from[1], rows_to[1])),
    }
    known = {name: least if least == most else None for name, (least, most) in ranges.items()}
    return DataComparison(
        **compared_versions(wanted),
        rows_from=known["rows_from"],
        rows_to=known["rows_to"],
        rows_added=known["rows_added"],
        rows_removed=known["rows_removed"],
        rows_changed=known["rows_changed"],
        rows_unchanged=known["rows_unchanged"],
        key=[wanted.matched.columns[place].name for place in wanted.key],
        not_compared=wanted.matched.left_out,
        method=f"metadata only: {len(files.differing)} files differ, {len(files.shared)} are shared",
        exact=all(value is not None for value in known.values()),
        ranges={name: span for name, span in ranges.items() if known[name] is None},
    )


def _rows(files: list[LiveFile] | tuple[LiveFile, ...], is_filtered: bool) -> Range:
    """How many rows of files are visible: deletes may name a row twice, and filters leave out any number."""
    total = sum(file.rows for file in files)
    masked = [sum(delete.rows for delete in file.deletes if not delete.is_equality) for file in files]
    is_sure = all(not file.deletes or (len(file.deletes) == 1 and file.deletes[0].is_vector) for file in files)
    least = (
        0
        if is_filtered or any(d.is_equality for file in files for d in file.deletes)
        else sum(max(0, file.rows - count) for file, count in zip(files, masked, strict=True))
    )
    return (least, total - sum(masked)) if is_sure and not is_filtered else (least, total)
