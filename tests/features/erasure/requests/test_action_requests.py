"""The requests that a planned action is for: all of them must still be open when it runs."""

from __future__ import annotations

import pytest

from lakewarden.errors import StalePlan
from lakewarden.features.erasure.requests.action_requests import still_open
from tests.small_lake import SmallLake


def test_a_request_that_ended_since_makes_the_plan_stale(lake: SmallLake) -> None:
    lake.create("crm.people", appends=1)
    ids = {lake.warden.erasure.request("crm.people", key="city", value=[f"city {n}"]).id for n in range(2)}
    action = lake.warden.erasure.purge("crm.people").plan.actions[0]
    assert set(still_open(action, lake.warden.ground)) == ids

    withdrawn = min(ids)
    lake.warden.erasure.withdraw(withdrawn).apply()
    with pytest.raises(StalePlan, match=f"request {withdrawn} is withdrawn"):
        still_open(action, lake.warden.ground)
