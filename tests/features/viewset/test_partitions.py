"""`viewset partitions`, on real Spark.

Covers `features/viewset/catalogue.py`.
"""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.features.viewset.logs import DAY, Logs

pytestmark = pytest.mark.spark


def test_what_a_partition_says_of_itself(logs: Logs) -> None:
    logs.insert(5, 50)
    logs.define()
    logs.write(1)
    (row,) = logs.viewset.partitions()
    assert (row.view_set_name, row.view_instance_id, row.num_rows) == ("entries", "global", 2)
    assert (row.begin_insert_time, row.end_insert_time) == (DAY, DAY + timedelta(hours=1))
    assert (row.min_event_time, row.max_event_time) == (DAY + timedelta(minutes=5), DAY + timedelta(minutes=50))
    assert row.updated is not None and len(row.source_data_hash) == 16 and row.file_size > 0
