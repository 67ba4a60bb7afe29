"""Which versions of its source a purge's plan takes a backfill to need."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from lakewarden.features.erasure.purging.planning import _versions_read
from lakewarden.lifecycle.action import Action
from lakewarden.lifecycle.journal import Record
from lakewarden.lifecycle.plan import Plan


@pytest.mark.parametrize(("reads", "versions"), [({"reads": "crm.people"}, [17, 5]), ({}, [17, 18, 5])])
def test_a_plan_that_does_not_name_its_source_may_need_each_of_its_tables(
    reads: dict[str, str], versions: list[int]
) -> None:
    pins = json.dumps({"crm.people": "17", "crm.joined": "18"})
    arguments = {"backfill": "crm_001", "source": pins, "since": "5", **reads}
    action = Action(verb="write", subject="crm.copy", lease="table:1", says="write", arguments=arguments)
    plan = Plan("backfill.run", "crm", (action,))
    record = Record.planned("op-1", plan, "{}", "me", datetime(2026, 1, 1, tzinfo=UTC))
    assert _versions_read(record, action, "crm_001") == versions
