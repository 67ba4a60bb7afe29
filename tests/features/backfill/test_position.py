"""Stamps of backfills: which of them a purge changes. Where a target is, is tested with `backfill run`."""

from __future__ import annotations

import json

import pytest

from lakewarden.engine.catalog.snapshot_removal import without_revealing
from lakewarden.engine.sql.tuples import TupleColumns
from lakewarden.features.backfill.position import Position
from lakewarden.features.erasure.purge import _mentions
from lakewarden.records.erasure import HiddenKey


@pytest.mark.parametrize(
    ("kind", "erased", "checkpoint", "forgotten"),
    [
        ("string", "jürgen@example.org", "jürgen@example.org", True),
        ("string", 'a "quoted" name', 'a "quoted" name', True),
        ("string", "Ann", "Ann", True),
        ("string", "Ann", "Anna", False),
        ("long", "42", 42, True),
        ("long", "42", 421, False),
    ],
)
def test_a_checkpoint_is_forgotten_if_it_is_an_erased_value(
    kind: str, erased: str, checkpoint: str | int, forgotten: bool
) -> None:
    columns = TupleColumns(("region", "id"), (kind, "long"))
    stamp = Position(1, 1, columns.dump((checkpoint, 7)), {"shop.orders": "42"}, None, 42, 42, "p", "s", 42)
    reveals = _mentions([HiddenKey(1, kind, [erased])])
    changed = without_revealing(stamp.text, reveals)
    as_property = without_revealing(json.dumps({"position": json.loads(stamp.text), "at": 42}), reveals)
    for found in (Position.read(changed), Position(**json.loads(as_property)["position"])):
        assert (found.forgotten, found.checkpoint is None, found.rows) == (forgotten, forgotten, 42)
