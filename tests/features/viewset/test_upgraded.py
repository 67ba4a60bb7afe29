"""A view set whose table another engine upgraded to format v3: what cannot be done as a whole is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lakewarden.errors import Conflict
from tests.features.viewset.logs import DEFINITION, SQL, Logs

pytestmark = pytest.mark.spark
SPAN = {"begin": "2026-01-01", "end": "2026-01-01T02:00", "delta": "1h"}


def _upgraded(logs: Logs) -> Logs:
    statement = "ALTER TABLE main.viewsets.entries SET TBLPROPERTIES ('format-version' = '3')"
    logs.lake.warden.ground.spark.session().sql(statement).collect()
    return logs


def _metadata(logs: Logs) -> str:
    return str(logs.lake.catalog.load_table("viewsets.entries").metadata_location)


def test_only_partitions_can_be_added(logs: Logs) -> None:
    logs.insert(0, 61)
    logs.define(keep="1d")
    logs.write(4)
    retired = logs.viewset.retire("entries", begin="2026-01-01T01:00", end="2026-01-01T04:00").apply()
    logs.define(SQL.replace("msg", "msg, 1 AS one"), keep="1d")
    _upgraded(logs)
    logs.write(2)
    assert [one.num_rows for one in logs.viewset.partitions("entries")] == [1, 1, 1]
    logs.insert(1)
    before = _metadata(logs)
    refused: list[Callable[[], Any]] = [
        lambda: logs.viewset.materialize("entries", **SPAN),
        lambda: logs.viewset.regenerate("entries", **SPAN),
        lambda: logs.viewset.retire("entries", incompatible=True),
        lambda: logs.viewset.heal("entries"),
        lambda: logs.viewset.register({**DEFINITION, "sql": SQL}),
        lambda: logs.viewset.restore(retired.id),
    ]
    for verb in refused:
        with pytest.raises(Conflict, match="is in format v3, in which partitions of view sets can only be added"):
            verb()
    upkeep = logs.lake.warden.policy.run("viewsets.entries", only=["viewset"])
    assert upkeep.is_empty and "outdated ones stay" in upkeep.plan.warnings[0]
    assert _metadata(logs) == before


def test_what_was_planned_before_changes_nothing(logs: Logs) -> None:
    """Columns without the definition that they belong to would be written by the former SQL."""
    logs.insert(0, 61)
    logs.define()
    logs.write(1)
    plan = logs.viewset.register({**DEFINITION, "sql": SQL.replace("msg", "msg, 1 AS one")})
    _upgraded(logs)
    before = _metadata(logs)
    with pytest.raises(Conflict, match="columns and properties cannot be changed in one commit"):
        plan.apply()
    assert _metadata(logs) == before
