"""`operation pause`. What a pause does to a run is in tests/lifecycle/test_steering.py."""

from __future__ import annotations

import pytest

from lakewarden.errors import IllegalTransition, OperationNotFound
from lakewarden.lifecycle.states import State, Stop
from tests.small_lake import SmallLake


def test_an_operation_that_no_process_runs_is_paused_at_once_and_left_so_by_a_bare_resume(any_lake: SmallLake) -> None:
    any_lake.create()
    id = any_lake.warden.version.tag("sales.orders", "v1").store()
    any_lake.warden.ground.journal.move(id, State.RUNNING, any_lake.warden.ground.clock())  # and its process died

    paused = any_lake.warden.operation.pause(id)
    assert (paused.state, paused.problem) == ("paused", "paused until it is resumed by its id")
    assert any_lake.warden.operation.show(id).stop_requested == Stop.PAUSE

    (left,) = any_lake.warden.operation.resume()
    assert (left.state, set(any_lake.refs())) == ("paused", {"main"})
    (resumed,) = any_lake.warden.operation.resume(id)
    assert (resumed.state, resumed.problem, set(any_lake.refs())) == ("done", "", {"main", "v1"})


def test_what_has_not_begun_or_has_ended_is_refused(lake: SmallLake) -> None:
    lake.create()
    planned = lake.warden.version.tag("sales.orders", "v1")
    with pytest.raises(IllegalTransition, match="is planned: there is nothing to pause"):
        lake.warden.operation.pause(planned.store())
    done = planned.apply()
    with pytest.raises(IllegalTransition, match="is done: there is nothing to pause"):
        lake.warden.operation.pause(done.id)
    with pytest.raises(OperationNotFound):
        lake.warden.operation.pause("op-none")
