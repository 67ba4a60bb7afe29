"""`viewset retire`, on real Spark."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakewarden.errors import Conflict, LakewardenError, NotFound
from lakewarden.features.viewset import retiring
from lakewarden.lifecycle import failpoints
from tests.features.viewset.logs import DAY, Logs

pytestmark = pytest.mark.spark


def test_a_range_names_the_good_ones(logs: Logs) -> None:
    logs.insert(0, 61)
    logs.define()
    logs.write(2)
    plan = logs.viewset.retire("entries", begin="2026-01-01", end="2026-01-01T01:00")
    assert "1 of them have the current schema: global 2026-01-01 00:00" in plan.plan.warnings[0]
    (path,) = [row.file_path for row in logs.viewset.partitions() if row.begin_insert_time == DAY]
    assert logs.viewset.retire("entries", file=[path]).apply().result["partitions_retired"] == 1
    with pytest.raises(NotFound, match="Partition not found"):
        logs.viewset.retire("entries", file=[path])


def test_several_at_once_one_of_which_is_gone(logs: Logs) -> None:
    logs.insert(0, 61)
    logs.define()
    logs.write(3)
    plan = logs.viewset.retire("entries", begin="2026-01-01", end="2026-01-01T03:00")
    (path,) = [row.file_path for row in logs.viewset.partitions() if row.begin_insert_time == DAY]
    logs.viewset.retire("entries", file=[path]).apply()
    done = plan.apply().result
    assert (done["partitions_retired"], done["partitions_failed"]) == (2, 1)
    assert logs.held() == {} and logs.rows() == []


def test_a_record_that_it_is_empty_goes_with_a_partition(logs: Logs) -> None:
    """It would take the place of the rows: `materialize` would not write them again."""
    logs.insert(0, 61)
    logs.define()
    logs.write(1)
    (row,) = logs.viewset.partitions()
    beside = logs.lake.catalog.load_table("viewsets.entries__empty")
    own = {name: getattr(row, name) for name in beside.schema().column_names}
    beside.append(pa.Table.from_pylist([own], schema=beside.schema().as_arrow()))
    assert [one.num_rows for one in logs.viewset.partitions()] == [1]  # files count
    done = logs.viewset.retire("entries", file=[row.file_path]).apply().result
    assert (done["partitions_retired"], done["partitions_failed"]) == (1, 0) and logs.viewset.partitions() == []
    logs.write(1)
    assert [one.num_rows for one in logs.viewset.partitions()] == [1]


def test_figures_are_measured_by_the_run_that_completes_it(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped between its two commits: the rows are gone, and a partition without rows is still listed."""
    logs.insert(0)
    logs.define()
    logs.write(2)
    size = sum(row.file_size for row in logs.viewset.partitions())
    planned = logs.viewset.retire("entries", begin="2026-01-01", end="2026-01-02")

    def stop(step: str) -> None:
        if step == "viewset.retired":
            raise Conflict("stopped")

    with monkeypatch.context() as patched:
        patched.setattr(retiring, "reach", stop)
        with pytest.raises(LakewardenError):
            planned.apply()
    assert [row.num_rows for row in logs.viewset.partitions()] == [0]
    (failed,) = [one.id for one in logs.lake.warden.operation.list() if one.kind == "viewset.retire"]
    logs.lake.warden.operation.resume(failed)
    done = logs.lake.warden.operation.show(failed).result
    assert (done["partitions_retired"], done["partitions_failed"], done["storage_freed_bytes"]) == (2, 0, size)


def test_half_a_partition_is_not_retired(logs: Logs) -> None:
    """What is left of it would look whole to `materialize`."""
    logs.insert(0, 61)
    logs.define()
    logs.write(2)
    table = logs.lake.catalog.load_table("viewsets.entries")
    first = table.scan(limit=1, row_filter="msg = 'm0'").to_arrow()
    table.append(first)  # a partition of two files
    plan = logs.viewset.retire("entries", begin="2026-01-01", end="2026-01-02")
    table.append(first)  # as if others were rewritten into it
    done = plan.apply().result
    assert (done["partitions_retired"], done["partitions_failed"]) == (1, 1)
    assert [row.num_rows for row in logs.viewset.partitions()] == [1, 1, 1]


def test_only_one_of_two_who_planned_the_same_has_retired_it(logs: Logs) -> None:
    """Also if it was killed after its commit: its figures are those of what left."""
    logs.insert(0)
    logs.define()
    logs.write(1)
    (row,) = logs.viewset.partitions()
    first, second = (logs.viewset.retire("entries", file=[row.file_path]) for _ in range(2))
    failpoints.when("action.applied", _stop)
    with pytest.raises(LakewardenError):
        first.apply()
    (failed,) = [one.id for one in logs.lake.warden.operation.list() if one.state == "failed"]
    logs.lake.warden.operation.resume(failed)
    done = logs.lake.warden.operation.show(failed).result
    assert (done["partitions_retired"], done["storage_freed_bytes"]) == (1, row.file_size)
    late = second.apply().result
    assert (late["partitions_retired"], late["partitions_failed"], late["storage_freed_bytes"]) == (0, 1, 0)


def _stop() -> None:
    raise Conflict("stopped")
