"""`viewset outdated`, on real Spark."""

from __future__ import annotations

import pytest

from lakewarden.errors import BadValue
from tests.features.viewset.logs import Logs

pytestmark = pytest.mark.spark


def test_partitions_that_are_too_old_whatever_their_schema(logs: Logs) -> None:
    logs.insert(0, 61)
    logs.define()
    logs.write(2)
    assert logs.viewset.outdated() == []
    with pytest.raises(BadValue, match="for ever"):
        logs.viewset.retire("entries", outdated=True)
    logs.define(keep="1h")
    assert len(logs.viewset.outdated("entries")) == 2
    assert logs.viewset.incompatible() == []
    assert logs.viewset.retire("entries", outdated=True).apply().result["partitions_retired"] == 2
    assert logs.viewset.outdated() == []
