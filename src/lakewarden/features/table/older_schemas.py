"""What the current schema makes of files that were written with an older one, column by column."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lakewarden.features.shared.columns import promotes

if TYPE_CHECKING:
    from pyiceberg.schema import Schema

_Columns = dict[int, tuple[str, str]]  # name and type


def differences(then: Schema, now: Schema) -> list[str]:
    """What readers of the current schema find in files of an older one; empty if it is what was written."""
    before, after = _columns(then), _columns(now)
    stored = {name: id for id, (name, _) in before.items() if id not in after}
    return [*_new(before, after, stored), *_dropped(before, after), *_other(before, after)]


def _columns(schema: Schema) -> _Columns:
    return {id: (schema.find_column_name(id) or "", str(schema.find_type(id))) for id in sorted(schema.field_ids)}


def _new(before: _Columns, after: _Columns, stored: dict[str, int]) -> Iterator[str]:
    names = {name for id, (name, _) in after.items() if id not in before}
    for id, (name, _) in after.items():
        if id in before or _is_within(name, names):
            continue
        if name in stored:
            yield f"{name}: null (dropped and added again; field id {stored[name]} when written and {id} now)"
        else:
            yield f"{name}: null or its default (added since)"


def _dropped(before: _Columns, after: _Columns) -> Iterator[str]:
    names = {name for id, (name, _) in before.items() if id not in after}
    taken = {name for name, _ in after.values()}
    for id, (name, _) in before.items():
        if id not in after and name not in taken and not _is_within(name, names):
            yield f"{name}: not read (dropped since)"


def _other(before: _Columns, after: _Columns) -> Iterator[str]:
    for id in before.keys() & after.keys():
        (was, old), (name, new) = before[id], after[id]
        if was.rpartition(".")[2] != name.rpartition(".")[2]:
            yield f"{was}: read as {name} (renamed)"
        if promotes(old, new):
            yield f"{name}: read as {new} ({old} when written)"


def _is_within(name: str, outer: set[str]) -> bool:
    """Whether a column is part of another one of these."""
    parts = name.split(".")
    return any(".".join(parts[:length]) in outer for length in range(1, len(parts)))
