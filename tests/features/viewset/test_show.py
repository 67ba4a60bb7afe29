"""`viewset show`."""

from __future__ import annotations

import pytest

from lakewarden.errors import NotFound
from tests.features.viewset.logs import Logs

pytestmark = pytest.mark.spark


def test_its_schema_and_its_instances(logs: Logs) -> None:
    logs.insert(5, 50)
    logs.define()
    logs.write(2)
    shown = logs.viewset.show("entries")
    assert shown.columns == {"time": "timestamptz", "process_id": "string", "level": "int", "msg": "string"}
    (one,) = shown.instances
    assert (one.view_instance_id, one.partitions, one.empty_partitions, one.rows) == ("global", 2, 1, 2)
    with pytest.raises(NotFound, match="no view set entrys.*entries"):
        logs.viewset.show("entrys")
