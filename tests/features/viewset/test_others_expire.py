"""Operations on a view set that stop right after a commit, which others compact away and expire before they resume.

Whatever only the summary of that snapshot knew is gone then: no row may be written twice for that, and none be lost.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress

import pytest

from lakewarden.errors import LakewardenError
from lakewarden.warden import Planned
from tests.features.viewset.logs import Logs
from tests.small_lake import SmallLake
from tests.walks.others import Others, stop

pytestmark = pytest.mark.spark
MINUTES = (5, 65, 66, 185)


@pytest.fixture
def logs(lake: SmallLake) -> Logs:
    made = Logs(lake)
    made.insert(*MINUTES)
    made.define()
    return made


def resume(logs: Logs) -> None:
    """After others left nothing of the commit but its rows. A refusal is as good: then it is planned again."""
    for name in ("viewsets.entries", "viewsets.entries__empty"):
        others = Others(logs.lake, name)
        others.merge_manifests()
        others.compact()
        others.expire()
    with suppress(LakewardenError):
        logs.lake.warden.operation.resume()


def messages(logs: Logs) -> Counter[str]:
    return Counter(row["msg"] for row in logs.rows())


WHOLE = Counter(f"m{minute}" for minute in MINUTES)


@pytest.mark.parametrize("point", ["commit.landed", "viewset.published"])
def test_materialize(logs: Logs, point: str) -> None:
    def planned() -> Planned:
        made: Planned = logs.viewset.materialize("entries", begin="2026-01-01", end="2026-01-01T04:00:00Z", delta="1h")
        return made

    stop(planned(), point)
    assert messages(logs) == WHOLE
    resume(logs)
    assert messages(logs) == WHOLE
    planned().apply()
    assert messages(logs) == WHOLE and planned().is_empty
    assert [hour for hour, _ in logs.held()] == [0, 1, 2, 3]


def test_retire(logs: Logs) -> None:
    """Also a partition without rows."""
    logs.write()

    def planned() -> Planned:
        made: Planned = logs.viewset.retire("entries", begin="2026-01-01", end="2026-01-01T03:00:00Z")
        return made

    stop(planned(), "commit.landed")
    resume(logs)
    assert messages(logs) == Counter(["m185"])
    assert [hour for hour, _ in logs.held()] == [3] and planned().is_empty
    assert logs.lake.warden.operation.list(limit=1)[0].state == "done"
