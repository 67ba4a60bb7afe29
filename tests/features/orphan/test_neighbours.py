"""Which tables lie at, below or above a place."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakewarden.engine.base.locations import is_below, same_place
from lakewarden.engine.base.table_name import TableName
from lakewarden.features.orphan.neighbours import _Places

_parts = st.lists(st.sampled_from(["a", "b", "a.", "a0", "a-"]), min_size=1, max_size=4)
_place = st.builds(
    lambda top, parts: "/".join([top, *parts]), st.sampled_from(["s3://x", "s3a://x", "file:///x", "/x"]), _parts
)


def name(number: int) -> TableName:
    return TableName("main", ("sales",), f"t{number}")


@given(st.lists(_place, max_size=12), _place)
def test_near_is_what_looking_at_each_would_find(places: list[str], mine: str) -> None:
    known = _Places((name(number), place) for number, place in enumerate(places))
    expected = {
        (name(number), place)
        for number, place in enumerate(places)
        if number != 0 and (same_place(place) == same_place(mine) or is_below(place, mine) or is_below(mine, place))
    }
    assert set(known.near(mine, besides=name(0))) == expected
