"""What becomes of each version, and why: by hand for each reason, and against a second telling of the rules.

Covers `engine/catalog/representations.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.table import Table

from lakewarden.engine.catalog.snapshot_removal import expiry_updates
from lakewarden.engine.catalog.snapshots import ancestors
from lakewarden.features.retention.policy import Decisions, RetentionPolicy, decide
from lakewarden.quantities import show_duration
from tests.examples import examples
from tests.histories import NOW, History, histories, millis, updated
from tests.steps import steps

DAY = timedelta(days=1)
OLD = timedelta(days=200)


def reasons(table: Table, policy: RetentionPolicy | None = None, **more: Any) -> dict[int, list[str]]:
    found = decide(table, policy or RetentionPolicy(), NOW, more.pop("in_use", {}), **more)
    return {version.snapshot_id: list(version.reasons) for version in found.versions}


class TestEachReason:
    def test_a_long_history_without_names(self) -> None:
        found = reasons(History().commits(40, timedelta(days=195), 5 * DAY).table)
        assert found[40] == ["current", "recent (top 30)", "within retention (90 days)"]
        assert found[23] == ["recent (top 30)", "within retention (90 days)"]
        assert found[22] == ["recent (top 30)"]  # 90 days old is not younger than that
        assert found[10] == found[1] == []
        assert [snapshot for snapshot in found if not found[snapshot]] == list(range(10, 0, -1))  # newest first

    def test_young_ones_beyond_the_newest(self) -> None:
        found = reasons(History().commits(5, 5 * DAY, DAY).table, RetentionPolicy(keep_last=2, keep_days=4))
        assert found[3] == ["within retention (4 days)"]
        assert found[1] == []

    def test_a_tag(self) -> None:
        found = reasons(History().commits(40, OLD, DAY).tag("v1", 3).tag("eoy", 3).table)
        assert found[3] == ["tagged (eoy)", "tagged (v1)"]

    def test_a_branch_keeps_its_own_history(self) -> None:
        made = History().commits(4, OLD, DAY)
        for _ in range(3):
            made.commit(timedelta(days=150), parent=2 if len(made.snapshots) == 4 else None)
        made.commit(timedelta(days=149), parent=4)
        made.branch("dev", 7).branch("main", 8)
        found = reasons(made.table, RetentionPolicy(keep_last=2))
        assert found[7] == ["branch head (dev)", "recent (top 2) on dev"]
        assert found[6] == ["recent (top 2) on dev"]
        assert found[5] == found[3] == found[2] == found[1] == []
        assert found[8] == ["current", "recent (top 2)"]

    def test_a_branch_with_settings_of_its_own(self) -> None:
        made = History().commits(6, timedelta(days=12), 2 * DAY)
        made.branch("dev", 6, min_snapshots_to_keep=1, max_snapshot_age_ms=5 * 86_400_000)
        found = reasons(made.table, RetentionPolicy(keep_last=1, keep_days=0))
        assert found[6] == [
            "current",
            "branch head (dev)",
            "recent (top 1) on dev",
            "within retention (5 days) on dev",
            "recent (top 1)",
        ]
        assert found[5] == ["within retention (5 days) on dev"]
        assert found[4] == []

    def test_an_age_that_is_no_whole_day(self) -> None:
        made = History().commits(2, timedelta(hours=5), timedelta(hours=4))
        made.branch("main", 2, max_snapshot_age_ms=12 * 3_600_000, min_snapshots_to_keep=1)
        assert reasons(made.table)[1] == ["within retention (12h)"]

    def test_what_an_operation_needs(self) -> None:
        found = reasons(History().commits(40, OLD, DAY).table, in_use={2: "op-20261115-101112-ab12cd"})
        assert found[2] == ["leased by op-20261115-101112-ab12cd"]

    def test_what_a_rollback_left_behind_is_kept_while_it_is_young(self) -> None:
        made = History().commits(3, 100 * DAY, DAY)
        made.commit(95 * DAY)
        made.commit(10 * DAY, parent=3)
        made.branch("main", 3)
        found = reasons(made.table, RetentionPolicy(keep_last=1))
        assert found[5] == ["within retention (90 days)"]
        assert found[4] == []

    def test_a_production_table(self) -> None:
        table = History().commits(5, timedelta(days=800), 40 * DAY).table
        found = reasons(table, RetentionPolicy(keep_last=1, production=True))
        assert found[3] == ["within retention (730 days)"]
        assert found[2] == []


class TestStaged:
    """Versions with a `wap.id` are on no branch until they are published: somebody is still to look at them."""

    NOTHING = RetentionPolicy(keep_last=1, keep_days=0)

    def made(self, age: timedelta) -> History:
        made = History().commits(2, OLD, DAY)
        made.commit(age, summary={"wap.id": "load 7"})
        return made.branch("main", 2)

    def test_one_is_kept_for_the_grace_and_then_named(self) -> None:
        (young, *_) = decide(self.made(timedelta(hours=23)).table, self.NOTHING, NOW, {}).versions
        assert (young.snapshot_id, young.reasons) == (3, ("staged, not published (wap.id load 7)",))
        (old, *_) = decide(self.made(timedelta(hours=25)).table, self.NOTHING, NOW, {}).versions
        assert (old.snapshot_id, old.kept, old.wap_id) == (3, False, "load 7")

    def test_a_published_one_is_as_any_other(self) -> None:
        picked = self.made(timedelta(hours=2))
        picked.branch("main", picked.commit(timedelta(hours=1), parent=2, summary={"published-wap-id": "load 7"}))
        assert [version.wap_id for version in decide(picked.table, self.NOTHING, NOW, {}).versions] == [None] * 4
        assert reasons(picked.table, self.NOTHING)[3] == []
        moved_to = self.made(timedelta(hours=2)).branch("main", 3)
        assert [version.wap_id for version in decide(moved_to.table, self.NOTHING, NOW, {}).versions] == [None] * 3


class TestCompactions:
    """They hold the version that they were built on in other files, and are no versions of their own."""

    def test_the_newest_holds_the_version_and_they_push_nothing_out(self) -> None:
        made = History().commits(3, OLD, DAY)
        for _ in range(5):
            made.commit(timedelta(days=190), operation="replace")
        found = decide(made.table, RetentionPolicy(keep_last=2, keep_days=0), NOW, {})
        assert {v.snapshot_id for v in found.versions if v.kept} == {8, 2}
        assert {v.snapshot_id: v.same_as for v in found.versions if v.same_as} == {n: n + 1 for n in range(3, 8)}

    def test_age_keeps_no_second_representation_either(self) -> None:
        made = History().commits(2, 20 * DAY, DAY)
        made.commit(10 * DAY, operation="replace")
        assert reasons(made.table) == {
            3: ["current", "recent (top 30)", "within retention (90 days)"],
            2: [],
            1: ["recent (top 30)", "within retention (90 days)"],
        }

    def test_a_reader_that_began_before_has_its_grace(self) -> None:
        made = History().commits(2, OLD, DAY)
        made.commit(timedelta(hours=30), operation="replace")  # its parent is old, but was current until then
        made.commit(timedelta(hours=23), operation="replace")
        found = reasons(made.table, RetentionPolicy(keep_days=0))
        assert found[3] == ["replaced less than 1d ago"]
        assert found[2] == []
        longer = reasons(made.table, RetentionPolicy(keep_days=0, reader_grace=timedelta(hours=36)))
        assert longer[2] == ["replaced less than 36h ago"]

    def test_versions_are_counted_once_the_older_representations_have_gone(self) -> None:
        made = History()
        for age in (200, 190, 180):
            made.commit(timedelta(days=age))
            made.commit(timedelta(days=age - 1), operation="replace")
        policy = RetentionPolicy(keep_last=2, keep_days=0)
        first = decide(made.table, policy, NOW, {})
        assert set(first.expired) == {1, 2, 3, 5}
        left = updated(made.table, expiry_updates(made.table, first.expired, ()))
        assert decide(left, policy, NOW, {}).expired == ()
        assert decide(left, RetentionPolicy(keep_last=1, keep_days=0), NOW, {}).expired == (4,)

    def test_a_rewrite_under_another_schema_is_no_representation(self) -> None:
        """What was dropped between the two is in the older files only."""
        made = History().commits(2, OLD, DAY)
        made.commit(timedelta(days=190), operation="replace", schema=1)
        assert reasons(made.table)[2] == ["recent (top 30)"]

    def test_a_rewrite_under_another_schema_counts_as_no_version_either(self) -> None:
        made = History().commits(3, OLD, DAY)
        made.commit(timedelta(days=190), operation="replace", schema=1)
        found = reasons(made.table, RetentionPolicy(keep_last=2, keep_days=0))
        assert {snapshot for snapshot, why in found.items() if why} == {4, 3, 2}

    def test_one_with_a_name_stays_and_so_does_what_lies_between(self) -> None:
        made = History().commits(3, OLD, DAY).tag("v1", 3)
        for _ in range(3):
            made.commit(timedelta(days=190), operation="replace")
        found = reasons(made.table, RetentionPolicy(keep_last=2, keep_days=0))
        between = ["between two kept snapshots of its version"]
        assert (found[3], found[4], found[5]) == (["recent (top 2)", "tagged (v1)"], between, between)
        assert found[2] == ["recent (top 2)"]  # the tagged version counts once
        nameless = decide(made.table, RetentionPolicy(keep_last=2, keep_days=0, keep_tagged=False), NOW, {})
        assert (nameless.tags_going, nameless.expired) == ((), (1,))  # its version is kept, so it is too

    def test_what_was_also_built_on_otherwise_stays_for_that(self) -> None:
        made = History().commits(2, OLD, DAY)
        made.commit(timedelta(days=190), operation="replace")
        made.branch("main", 3).branch("dev", made.commit(timedelta(days=180), parent=2))
        assert reasons(made.table)[2] == ["recent (top 30) on dev"]

    def test_where_the_catalog_writes_the_log_nothing_leaves_a_gap_in_it(self) -> None:
        """It would forget when older versions were current, and travel by time would end at the gap."""
        made = History().commits(3, OLD, DAY)
        made.commit(timedelta(days=190), operation="replace")
        made.log = [1, 2, 3, 4]
        policy = RetentionPolicy(keep_last=2, keep_days=0)
        found = reasons(made.table, policy, is_log_ours=False)
        assert found[3] == ["time travel: the catalog would lose the times of older versions"]
        assert found[1] == []
        assert reasons(made.table, policy)[3] == []
        alone = reasons(made.table, RetentionPolicy(keep_last=1, keep_days=0), is_log_ours=False)
        assert alone[3] == []  # no older version is left to travel to

    def test_they_go_with_the_version_they_stand_for(self) -> None:
        made = History().commits(2, OLD, DAY)
        made.commit(timedelta(days=190), operation="replace")
        made.commit(timedelta(days=180))
        found = reasons(made.table, RetentionPolicy(keep_last=1, keep_days=0))
        assert {snapshot for snapshot, why in found.items() if why} == {4}


class TestTags:
    def table(self) -> Table:
        made = History().commits(5, OLD, DAY)
        return made.tag("short", 1, max_ref_age_ms=86_400_000).tag("for-ever", 2).table

    def decide(self, expire_tags: bool = False, **policy: Any) -> Decisions:
        return decide(self.table(), RetentionPolicy(keep_last=1, **policy), NOW, {}, expire_tags)

    def test_one_whose_time_is_over_is_told_and_stays(self) -> None:
        found = self.decide()
        assert (found.tags_over, found.tags_going, found.expired) == (("short",), (), (4, 3))

    def test_it_goes_where_that_is_said(self) -> None:
        found = self.decide(expire_tags=True)
        assert (found.tags_over, found.tags_going, found.expired) == ((), ("short",), (4, 3, 1))

    def test_it_goes_even_where_something_else_keeps_its_version(self) -> None:
        found = decide(self.table(), RetentionPolicy(keep_last=5), NOW, {}, expire_tags=True)
        assert (found.tags_going, found.expired) == (("short",), ())

    def test_tags_that_keep_nothing(self) -> None:
        found = self.decide(keep_tagged=False)
        assert (found.tags_going, found.expired) == (("for-ever", "short"), (4, 3, 2, 1))

    def test_tags_that_keep_nothing_stay_with_versions_that_are_kept(self) -> None:
        found = decide(self.table(), RetentionPolicy(keep_last=4, keep_tagged=False), NOW, {})
        assert (found.tags_going, found.expired) == (("short",), (1,))


policies = st.builds(
    RetentionPolicy,
    keep_last=st.integers(1, 6),
    keep_days=st.sampled_from([0, 1, 30, 90]),
    keep_tagged=st.booleans(),
    production_keep_days=st.just(300),
    production=st.booleans(),
    reader_grace=st.sampled_from([timedelta(), timedelta(hours=2), DAY, 50 * DAY]),
)


@examples(300)
@given(made=histories(), policy=policies, used=st.sets(st.integers(1, 14)), expire_tags=st.booleans())
def test_any_history_against_the_rules_told_again(
    made: History, policy: RetentionPolicy, used: set[int], expire_tags: bool
) -> None:
    table = made.table
    in_use = {snapshot: "op-1" for snapshot in used if snapshot <= len(made.snapshots)}
    found = decide(table, policy, NOW, in_use, expire_tags)
    told = {version.snapshot_id: set(version.reasons) for version in found.versions}

    assert told == _rules(made, policy, in_use, expire_tags)
    assert len(found.versions) == len(made.snapshots)
    pointed_to = {ref["snapshot-id"] for name, ref in made.refs.items() if name not in found.tags_going}
    assert not pointed_to & set(found.expired)  # whatever a ref that stays points to, stays
    over = {name for name, ref in made.refs.items() if ref["type"] == "tag" and _age(made, ref) > _keep(ref)}
    assert set(found.tags_over) == over - set(found.tags_going)
    if policy.keep_tagged:
        assert set(found.tags_going) == (over if expire_tags else set())


def test_what_lies_between_stays_also_where_no_branch_keeps_the_version() -> None:
    """An operation and another branch each need a snapshot of it."""
    made = History().commits(3, OLD, DAY)
    for _ in range(2):
        made.commit(timedelta(days=190), operation="replace")
    made.branch("audit", 3).branch("main", made.commit(timedelta(days=180)))
    found = decide(made.table, RetentionPolicy(keep_last=1, keep_days=0), NOW, {5: "op-1"})
    kept = {version.snapshot_id: version.reasons for version in found.versions if version.kept}
    assert set(kept) == {3, 4, 5, 6}
    assert kept[4] == ("between two kept snapshots of its version",)
    assert all(version.same_as is None for version in found.versions)


@examples(150)
@given(made=histories(), policy=policies, last=st.integers(0, 5), days=st.integers(0, 100))
def test_keeping_more_never_expires_more(made: History, policy: RetentionPolicy, last: int, days: int) -> None:
    more = RetentionPolicy(
        policy.keep_last + last,
        policy.keep_days + days,
        True,
        policy.production_keep_days + days,
        policy.production,
        policy.reader_grace,
    )
    expired, fewer = decide(made.table, policy, NOW, {}).expired, decide(made.table, more, NOW, {}).expired
    assert set(fewer) <= set(expired)


@examples(150)
@given(made=histories(), policy=policies)
def test_no_version_is_lost_for_being_held_twice(made: History, policy: RetentionPolicy) -> None:
    """Whatever the newest versions of main are, each is still held by a snapshot, and the log shows its rows."""
    made.log = _line(made, made.refs["main"])[::-1]
    table = made.table
    before = decide(table, policy, NOW, {})
    after = updated(table, expiry_updates(table, before.expired, before.tags_going))
    left = {s.snapshot_id for s in after.metadata.snapshots}
    line = _versions(made, made.refs["main"])
    last = made.refs["main"].get("min-snapshots-to-keep", policy.keep_last)
    assert all(set(version) & left for version in line[:last])
    assert decide(after, policy, NOW, {}).expired == ()  # a second look finds nothing more
    held = [next(number for number, version in enumerate(line) if s in version) for s in _kept_line(after)]
    assert held == sorted(held) and set(range(min(last, len(line)))) <= set(held)

    content = {s["snapshot-id"]: _versions(made, s)[0][0] for s in made.snapshots}
    log = [entry.snapshot_id for entry in after.metadata.snapshot_log]
    assert set(log) <= left
    assert [content[s] for s in log] == [content[s] for s in made.log[len(made.log) - len(log) :]]
    if all(version[-1] in left for version in line):  # main kept them all: then time travel goes as far back as before
        assert len(after.metadata.snapshot_log) == len(made.log)


def _versions(made: History, ref: dict[str, Any]) -> list[list[int]]:
    """Snapshots up to one by what they hold, the newest first: a rewrite of files belongs to what it was built on."""
    by_id = {s["snapshot-id"]: s for s in made.snapshots}
    versions: list[list[int]] = []
    for snapshot in reversed(_line(made, ref)):
        told = by_id[snapshot]
        parent = by_id.get(told.get("parent-snapshot-id", 0))
        same = parent is not None and told["schema-id"] == parent["schema-id"]
        if told["summary"]["operation"] == "replace" and same:
            versions[-1].append(snapshot)
        else:
            versions.append([snapshot])
    return versions[::-1]


def _kept_line(table: Table) -> list[int]:
    return list(ancestors(table, table.metadata.current_snapshot_id))


def _rules(made: History, policy: RetentionPolicy, in_use: dict[int, str], expire_tags: bool) -> dict[int, set[str]]:
    """The rules once more, from the other side: asked of each snapshot by itself."""
    days = policy.production_keep_days if policy.production else policy.keep_days
    by_id = {s["snapshot-id"]: s for s in made.snapshots}
    lines = {name: _line(made, ref) for name, ref in made.refs.items() if ref["type"] == "branch"}
    on_a_branch = {snapshot for line in lines.values() for snapshot in line}

    def age(snapshot: int) -> int:
        return millis(NOW) - int(by_id[snapshot]["timestamp-ms"])

    def is_a_version(snapshot: int) -> bool:
        told = by_id[snapshot]
        return bool(told["summary"]["operation"] != "replace" or told.get("parent-snapshot-id") is None)

    def holds_the_same(newer: int, older: int | None) -> bool:
        is_replace = bool(by_id[newer]["summary"]["operation"] == "replace")
        return is_replace and older is not None and by_id[newer]["schema-id"] == by_id[older]["schema-id"]

    named = {
        ref["snapshot-id"]
        for ref in made.refs.values()
        if ref["type"] == "branch" or not (expire_tags and _age(made, ref) > _keep(ref))
    }

    def why(snapshot: int) -> set[str]:
        found = {"current"} if snapshot == made.refs["main"]["snapshot-id"] else set[str]()
        for name, line in lines.items():
            ref, on = made.refs[name], "" if name == "main" else f" on {name}"
            if name != "main" and ref["snapshot-id"] == snapshot:
                found.add(f"branch head ({name})")
            if snapshot in line:
                last = ref.get("min-snapshots-to-keep", policy.keep_last)
                place = line.index(snapshot)
                newer = [s for s in line[:place] if is_a_version(s)]
                longest = ref.get("max-snapshot-age-ms", days * 86_400_000)
                kept = {f"recent (top {last}){on}"} if len(newer) < last else set[str]()
                kept |= {f"within retention ({_words(longest)}){on}"} if age(snapshot) < longest else set()
                if kept and place and snapshot not in named and holds_the_same(line[place - 1], snapshot):
                    in_grace = age(line[place - 1]) < policy.reader_grace.total_seconds() * 1000
                    kept = {f"replaced less than {show_duration(policy.reader_grace)} ago{on}"} if in_grace else set()
                found |= kept
        if snapshot not in on_a_branch and age(snapshot) < days * 86_400_000:
            found.add(f"within retention ({days} days)")
        for name, ref in made.refs.items():
            ended = _age(made, ref) > _keep(ref)
            if ref["type"] == "tag" and ref["snapshot-id"] == snapshot and not (ended and expire_tags):
                found |= {f"tagged ({name})"} if policy.keep_tagged else set()
        return found | ({f"leased by {in_use[snapshot]}"} if snapshot in in_use else set())

    told = {snapshot: why(snapshot) for snapshot in by_id}
    for line in lines.values():  # whatever lies between two of one version that stay
        for oldest_first in map(sorted, _runs(line, holds_the_same)):
            stay = [place for place, snapshot in enumerate(oldest_first) if told[snapshot]]
            for snapshot in oldest_first[stay[0] : stay[-1]] if stay else ():
                told[snapshot] = told[snapshot] or {"between two kept snapshots of its version"}
    return told


def _runs(line: list[int], same: Callable[[int, int], bool]) -> list[list[int]]:
    """A line cut into runs of which each holds the same as the one before it."""
    runs = [line[:1]]
    for newer, older in pairwise(line):
        if same(newer, older):
            runs[-1].append(older)
        else:
            runs.append([older])
    return runs


def _line(made: History, ref: dict[str, Any]) -> list[int]:
    parents = {s["snapshot-id"]: s.get("parent-snapshot-id") for s in made.snapshots}
    line, at = [], ref["snapshot-id"]
    while at is not None:
        line.append(at)
        at = parents[at]
    return line


def _age(made: History, ref: dict[str, Any]) -> int:
    return millis(NOW) - int(made.snapshots[ref["snapshot-id"] - 1]["timestamp-ms"])


def _keep(ref: dict[str, Any]) -> float:
    return float(ref.get("max-ref-age-ms", "inf"))


def _words(milliseconds: int) -> str:
    hours = milliseconds // 3_600_000
    return f"{hours // 24} days" if hours % 24 == 0 else f"{hours}h"


def test_thousands_of_versions_take_no_more_than_their_share() -> None:
    def taken(count: int) -> int:
        table = History().commits(count, timedelta(days=500), timedelta(minutes=90)).table
        assert len(decide(table, RetentionPolicy(), NOW, {}).expired) > count // 5
        return steps(lambda: decide(table, RetentionPolicy(), NOW, {}))

    assert 2 < taken(5000) / taken(1000) < 6
