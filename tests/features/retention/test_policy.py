"""What becomes of each version, and why: by hand for each reason, and against a second telling of the rules."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.table import Table

from lakewarden.features.retention.policy import Decisions, RetentionPolicy, decide
from tests.histories import NOW, History, histories, millis
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


class TestCompactions:
    """They change nothing that readers see, and are no versions of their own."""

    def test_they_push_nothing_out(self) -> None:
        made = History().commits(3, OLD, DAY)
        for _ in range(5):
            made.commit(timedelta(days=190), operation="replace")
        found = reasons(made.table, RetentionPolicy(keep_last=2, keep_days=0))
        assert found[3] == found[2] == ["recent (top 2)"]
        assert found[1] == []

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
)


@settings(max_examples=300, deadline=None)
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


@settings(max_examples=150, deadline=None)
@given(made=histories(), policy=policies, last=st.integers(0, 5), days=st.integers(0, 100))
def test_keeping_more_never_expires_more(made: History, policy: RetentionPolicy, last: int, days: int) -> None:
    more = RetentionPolicy(
        policy.keep_last + last, policy.keep_days + days, True, policy.production_keep_days + days, policy.production
    )
    expired, fewer = decide(made.table, policy, NOW, {}).expired, decide(made.table, more, NOW, {}).expired
    assert set(fewer) <= set(expired)


def _rules(made: History, policy: RetentionPolicy, in_use: dict[int, str], expire_tags: bool) -> dict[int, set[str]]:
    """The rules once more, from the other side: asked of each snapshot by itself."""
    days = policy.production_keep_days if policy.production else policy.keep_days
    by_id = {s["snapshot-id"]: s for s in made.snapshots}
    lines = {name: _line(made, ref) for name, ref in made.refs.items() if ref["type"] == "branch"}
    on_a_branch = {snapshot for line in lines.values() for snapshot in line}

    def age(snapshot: int) -> int:
        return millis(NOW) - int(by_id[snapshot]["timestamp-ms"])

    def why(snapshot: int) -> set[str]:
        found = {"current"} if snapshot == made.refs["main"]["snapshot-id"] else set[str]()
        for name, line in lines.items():
            ref, on = made.refs[name], "" if name == "main" else f" on {name}"
            if name != "main" and ref["snapshot-id"] == snapshot:
                found.add(f"branch head ({name})")
            if snapshot in line:
                last = ref.get("min-snapshots-to-keep", policy.keep_last)
                newer = [s for s in line[: line.index(snapshot)] if by_id[s]["summary"]["operation"] != "replace"]
                if len(newer) < last:
                    found.add(f"recent (top {last}){on}")
                longest = ref.get("max-snapshot-age-ms", days * 86_400_000)
                if age(snapshot) < longest:
                    found.add(f"within retention ({_words(longest)}){on}")
        if snapshot not in on_a_branch and age(snapshot) < days * 86_400_000:
            found.add(f"within retention ({days} days)")
        for name, ref in made.refs.items():
            ended = _age(made, ref) > _keep(ref)
            if ref["type"] == "tag" and ref["snapshot-id"] == snapshot and not (ended and expire_tags):
                found |= {f"tagged ({name})"} if policy.keep_tagged else set()
        return found | ({f"leased by {in_use[snapshot]}"} if snapshot in in_use else set())

    return {snapshot: why(snapshot) for snapshot in by_id}


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
