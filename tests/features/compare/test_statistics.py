"""Statistics and drift of columns, against numpy and against what can be worked out by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakewarden.engine.kernel.profile import Profile, priorities
from lakewarden.engine.kernel.row_hash import hash_column
from lakewarden.features.compare.statistics import QUANTILES, SideSample, drift


def profiled(values: Any, kind: Any = None) -> Profile:
    batch = pa.RecordBatch.from_arrays([pa.array(values, kind)], ["c"])
    found = Profile(batch.schema)
    found.see(batch, [hash_column(batch.column(0))[0]], priorities("f", np.arange(batch.num_rows)))
    return found


def side(values: Any, kind: Any = None) -> SideSample:
    return SideSample([(profiled(values, kind), len(values))])


def test_quantiles_are_those_of_numpy() -> None:
    values = np.random.default_rng(1).normal(size=999).round(3)
    found = side([*values, None, math.nan]).statistics(0)
    expected = {f"{q:g}": float(np.quantile(values, q, method="inverted_cdf")) for q in QUANTILES}
    assert found.quantiles == expected
    assert (found.rows, found.nulls, found.nans) == (1_001, 1, 1)


def test_a_sampled_row_stands_for_several() -> None:
    mixed = SideSample([(profiled([1.0] * 10), 10), (profiled([2.0, None]), 90)])
    found = mixed.statistics(0)
    assert (found.rows, found.nulls) == (100, 45)
    assert found.quantiles["0.05"] == 1.0 and found.quantiles["0.5"] == 2.0


def test_the_same_values_have_not_drifted() -> None:
    values = list(range(1_000))
    found = drift(side(values), side(values), 0)
    assert (found.psi, found.ks) == (0.0, 0.0)
    assert len(found.shares) == 10 and sum(before for _, before, _ in found.shares) == pytest.approx(1, abs=1e-4)


def test_kolmogorov_smirnov() -> None:
    assert drift(side([1.0, 2.0, 3.0, 4.0]), side([3.0, 4.0, 5.0, 6.0]), 0).ks == 0.5
    assert drift(side([1.0, 2.0]), side([9.0]), 0).ks == 1.0


def test_psi_of_categories() -> None:
    found = drift(side(["a"] * 50 + ["b"] * 50), side(["a"] * 80 + ["b"] * 20 + [None] * 7), 0)
    assert found.psi == pytest.approx(0.3 * math.log(0.8 / 0.5) - 0.3 * math.log(0.2 / 0.5), abs=1e-6)
    assert found.ks is None
    assert found.shares == [("a", 0.5, 0.8), ("b", 0.5, 0.2)]


@pytest.mark.parametrize("values", [[], [None, None]])
def test_no_values_on_a_side(values: list[Any]) -> None:
    assert drift(side([1, 2], pa.int64()), side(values, pa.int64()), 0).psi is None
    assert drift(side(["a"], pa.string()), side(values, pa.string()), 0).psi is None


def test_nested_values_have_no_drift() -> None:
    found = side([[1], None, []], pa.list_(pa.int64()))
    assert drift(found, found, 0).psi is None
    assert (found.statistics(0).nulls, found.statistics(0).distinct, found.statistics(0).min) == (1, 2, None)


def test_times_are_labelled_as_times() -> None:
    values = pa.array(range(0, 10_000_000_000, 10_000_000), pa.timestamp("us"))
    found = drift(side(values), side(values), 0)
    assert found.shares[0][0].startswith("≤ 1970-01-01 00:")
