"""Profiles are the same however rows are split and merged."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakewarden.engine.kernel import profile
from lakewarden.engine.kernel.profile import Profile, priorities
from lakewarden.engine.kernel.row_hash import hash_column

ROWS = 3_000
TABLE = pa.table(
    {
        "n": pa.array([None if n % 10 == 0 else n % 700 for n in range(ROWS)]),
        "x": pa.array([float("nan") if n % 7 == 0 else n / 3 for n in range(ROWS)]),
        "s": pa.array([f"text {n}" for n in range(ROWS)]),
    }
)


def seen(start: int, end: int) -> Profile:
    found = Profile(TABLE.schema)
    for batch in TABLE.slice(start, end - start).combine_chunks().to_batches():
        hashes = [hash_column(column)[0] for column in batch.columns]
        found.see(batch, hashes, priorities("a file", np.arange(start, end)))
    return found


@pytest.mark.parametrize("cuts", [[0, ROWS], [0, 1, 2, ROWS], [0, 1_000, 1_001, 2_500, ROWS]])
def test_split_and_merged(cuts: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profile, "SAMPLED", 200)
    whole = Profile(TABLE.schema)
    for start, end in pairwise(cuts):
        whole.add(Profile.from_plain(seen(start, end).to_plain()))
    n, x, s = whole.columns
    assert (whole.rows, n.nulls, x.nans, n.least, n.greatest) == (ROWS, 300, 429, 1, 699)
    assert (s.least, s.greatest, x.least) == ("text 0", "text 999", 1 / 3)
    assert n.distinct == len(set(TABLE.column("n").to_pylist()) - {None}) and n.is_distinct_exact
    assert abs(s.distinct - ROWS) / ROWS < 0.15 and not s.is_distinct_exact
    assert whole.sample.num_rows == 200
    assert _texts(whole) == _texts(seen(0, ROWS))


def _texts(one: Profile) -> list[Any]:
    return sorted(one.sample.column("s").to_pylist())


def test_a_sample_of_all_rows_is_fair(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profile, "SAMPLED", 500)
    places = [int(text.removeprefix("text ")) for text in _texts(seen(0, ROWS))]
    assert abs(np.mean(places) / (ROWS / 2) - 1) < 0.1
