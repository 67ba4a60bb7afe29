"""Letting snapshots go: what lines of descent are remembered, and what Iceberg's own expiry would take beside them."""

from __future__ import annotations

import json
from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.engine.catalog.snapshot_removal import (
    LINEAGE,
    expiry_updates,
    iceberg_would_also_take,
    lineage_of,
    still_needed,
)
from lakewarden.engine.catalog.snapshots import ancestors
from lakewarden.features.retention.policy import RetentionPolicy, decide
from tests.examples import examples
from tests.histories import NOW, History, as_table, histories, millis, updated

DAY = timedelta(days=1)
DAY_MS = 86_400_000


@examples(200)
@given(made=histories(), rounds=st.lists(st.sets(st.integers(1, 14)), min_size=1, max_size=3))
def test_what_is_left_descends_from_what_it_did_before(made: History, rounds: list[set[int]]) -> None:
    table = made.table
    everything = {s.snapshot_id: list(ancestors(table, s.snapshot_id)) for s in table.metadata.snapshots}
    heads = {ref.snapshot_id for ref in table.metadata.refs.values()}
    for asked in rounds:  # several expiries in a row
        table = updated(table, expiry_updates(table, sorted(asked - heads), ()))
        left = {s.snapshot_id for s in table.metadata.snapshots}
        assert left == {s for s in everything if s not in asked - heads} & left
        assert not left & (asked - heads)
        for snapshot in left:
            assert list(ancestors(table, snapshot)) == [a for a in everything[snapshot] if a in left]


@examples(150)
@given(made=histories(), last=st.integers(1, 4), days=st.sampled_from([0, 30]), expire_tags=st.booleans())
def test_a_second_look_finds_nothing_more_to_expire(made: History, last: int, days: int, expire_tags: bool) -> None:
    table, policy = made.table, RetentionPolicy(keep_last=last, keep_days=days)
    first = decide(table, policy, NOW, {}, expire_tags)
    after = updated(table, expiry_updates(table, first.expired, first.tags_going))
    again = decide(after, policy, NOW, {}, expire_tags)
    assert (again.expired, again.tags_going) == ((), ())


def test_what_points_to_a_snapshot_is_told() -> None:
    metadata = History().commits(4, 9 * DAY, DAY).tag("v1", 1).branch("dev", 2).table.metadata
    assert still_needed(metadata, [1, 2, 3], {"v1": 1}) == ["branch dev is at snapshot 2, which was to expire"]
    assert still_needed(metadata, [3], {}) == []


def test_nothing_left_to_do_takes_no_commit() -> None:
    table = History().commits(2, 9 * DAY, DAY).table
    assert expiry_updates(table, [77], ["gone"]) == ()


def test_the_note_of_a_tag_goes_with_it() -> None:
    made = History(properties={"lakewarden.note.v1": "as audited", "owner": "finance"}).commits(2, 9 * DAY, DAY)
    table = made.tag("v1", 1).table
    after = updated(table, expiry_updates(table, [1], ["v1"]))
    assert after.metadata.properties == {"owner": "finance"}
    assert set(after.metadata.refs) == {"main"}


@pytest.mark.parametrize("damaged", ["", "{", "[]", '{"a": 1}', '{"1": null}', '"text"', "7"])
def test_a_damaged_record_of_descent_is_as_none(damaged: str) -> None:
    assert lineage_of({LINEAGE: damaged}) == {}


def test_lines_of_descent_that_no_snapshot_needs_are_forgotten() -> None:
    table = History().commits(4, 9 * DAY, DAY).table
    gap = updated(table, expiry_updates(table, [2, 3], ()))
    assert json.loads(gap.metadata.properties[LINEAGE]) == {"4": 1}
    closed = updated(gap, expiry_updates(gap, [1], ()))
    assert LINEAGE not in closed.metadata.properties


class TestWhatIcebergWouldAlsoTake:
    def more(self, made: History, snapshots: tuple[int, ...] = (), tags: tuple[str, ...] = ()) -> list[str]:
        return iceberg_would_also_take(made.table.metadata, snapshots, tags, millis(NOW))

    def test_nothing_without_settings(self) -> None:
        made = History().commits(5, 900 * DAY, DAY).tag("v1", 1).branch("dev", 2)
        assert self.more(made, (3,)) == []

    def test_refs_whose_time_is_over_or_ends_within_the_hour(self) -> None:
        made = History().commits(4, 10 * DAY, DAY)  # 10, 9, 8 and 7 days old
        made.tag("over", 1, max_ref_age_ms=9 * DAY_MS).tag("soon", 2, max_ref_age_ms=9 * DAY_MS + 60_000)
        made.tag("later", 3, max_ref_age_ms=9 * DAY_MS).branch("dev", 1, max_ref_age_ms=1)
        made.branch("main", 4, max_ref_age_ms=1)  # which Iceberg does not look at
        assert self.more(made) == ["branch dev", "tag over", "tag soon"]
        assert self.more(made, (), ("over", "soon")) == ["branch dev"]

    def test_a_table_that_sets_it_for_all_refs(self) -> None:
        made = History(properties={"history.expire.max-ref-age-ms": "1000"}).commits(4, 10 * DAY, DAY).tag("v1", 3)
        assert self.more(made) == ["tag v1"]

    def test_a_branch_that_keeps_few_for_a_short_time(self) -> None:
        made = History().commits(5, 10 * DAY, DAY)
        made.branch("main", 5, min_snapshots_to_keep=2, max_snapshot_age_ms=DAY_MS).tag("v1", 2)
        assert self.more(made, (1,)) == ["snapshot 3"]  # 5 and 4 are its two, 2 has a name, 1 is to go
        assert self.more(made, (1, 3)) == []

    def test_settings_that_take_nothing(self) -> None:
        only_age = History().commits(5, 10 * DAY, DAY).branch("main", 5, max_snapshot_age_ms=DAY_MS)
        only_number = History().commits(5, 10 * DAY, DAY).branch("main", 5, min_snapshots_to_keep=1)
        assert self.more(only_age) == self.more(only_number) == []


def test_times_are_in_order_in_what_is_made_here() -> None:
    """The histories that tests are made of are as Iceberg has them."""
    table = as_table(History().commits(5, 9 * DAY, DAY).table.metadata)
    assert all(a.timestamp_ms < b.timestamp_ms for a, b in pairwise(table.metadata.snapshots))
