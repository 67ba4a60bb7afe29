"""`operation list`."""

from __future__ import annotations

from tests.small_lake import SmallLake


def test_lists_what_was_planned_and_done_newest_first(any_lake: SmallLake) -> None:
    any_lake.create("sales.a")
    any_lake.create("sales.b")
    any_lake.warden.version.tag("sales.a", "v1").apply()
    any_lake.warden.version.tag("sales.b", "v1").apply()
    any_lake.warden.version.untag("sales.b", "v1").store()

    planned, second, first = any_lake.warden.operation.list()

    assert (planned.kind, planned.state, planned.done, planned.actions) == ("version.untag", "planned", 0, 1)
    assert (second.target, second.state, second.done) == ("main.sales.b", "done", 1)
    assert first.created_at <= second.created_at <= planned.created_at
    assert "@" in first.who


def test_filters(any_lake: SmallLake) -> None:
    any_lake.create("sales.a")
    any_lake.create("sales.b")
    any_lake.warden.version.tag("sales.*", "v1").apply()
    any_lake.warden.version.tag("sales.b", "v2").apply()
    any_lake.warden.version.untag("sales.a", "v1").store()

    ask = any_lake.warden.operation.list
    assert [row.kind for row in ask(state=["planned"])] == ["version.untag"]
    assert len(ask(state=["planned", "done"])) == 3
    assert [row.target for row in ask(kind="version.tag", subject="sales.a")] == ["sales.*"]
    assert len(ask(limit=1)) == 1
    assert ask(subject="sales.none") == [] == ask(subject="no table at all")
