"""What view sets promise, beyond what each verb does: nothing else is retired, nothing is there twice, nothing is lost.

On real Spark. `make soak` kills at every step; tests/soak/test_viewset.py kills processes at random moments. Covers
`features/viewset/erased.py`.
"""

from __future__ import annotations

import hashlib
import threading
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakewarden import Warden
from lakewarden.errors import NotFound, StalePlan
from lakewarden.lifecycle import failpoints
from tests import killing
from tests.features.viewset.logs import DAY, SQL, Logs

pytestmark = pytest.mark.spark
TARGET = "viewsets.entries"
MINUTES = 125


def checksums(logs: Logs) -> dict[str, str]:
    """Of all rows of the table with a schema, by its hash, whatever files they are in."""
    content: dict[str, list[str]] = {}
    for row in logs.lake.catalog.load_table(TARGET).scan().to_arrow().to_pylist():
        content.setdefault(row["file_schema_hash"], []).append(repr(row))
    return {of: hashlib.sha256("\n".join(sorted(rows)).encode()).hexdigest() for of, rows in content.items()}


def until(hours: float) -> dict[str, Any]:
    """The time from the start of the day on, in hours."""
    return {"begin": "2026-01-01", "end": (DAY + timedelta(hours=hours)).isoformat(), "delta": "1h"}


def test_of_500_partitions_exactly_the_incompatible_ones_are_retired_and_restored(logs: Logs) -> None:
    logs.insert(*range(MINUTES), process="p1")
    for sql in (SQL, SQL.replace("msg", "upper(msg) AS txt")):
        current = logs.define(sql, instances="process_id")["schema_hash"]
        with logs.lake.catalog.load_table(TARGET).transaction() as change:  # so that sizes depend on widths alone
            change.set_properties({"write.parquet.compression-codec": "uncompressed"})
        for instance in ("global", "p1"):
            whole = {**until(MINUTES / 60), "delta": "1m"}
            logs.viewset.materialize("entries", **whole, instance=instance).apply()
    before = logs.viewset.partitions("entries")
    compatible = [row for row in before if row.file_schema_hash == current]
    same = {(*row.identity[:3], row.file_size) for row in compatible}
    assert len({row.identity for row in before}) == 500 and len(compatible) == 250
    assert any((*row.identity[:3], row.file_size) in same for row in before if row.file_schema_hash != current)
    everything = checksums(logs)

    done = logs.viewset.retire("entries", incompatible=True).apply()
    assert (done.result["partitions_retired"], done.result["partitions_failed"]) == (250, 0)
    assert done.result["storage_freed_bytes"] == sum(r.file_size for r in before if r.file_schema_hash != current)
    assert logs.viewset.partitions("entries") == compatible
    assert len(everything) == 2 and checksums(logs) == {current: everything[current]}
    logs.viewset.restore(done.id).apply()
    assert logs.viewset.partitions("entries") == before and checksums(logs) == everything


def test_quotes_unicode_and_statements_in_names_and_paths_are_data(logs: Logs) -> None:
    odd = ('it\'s "quoted" `here`', "'; DROP TABLE viewsets.entries; --", "日本/../%2F=🦆\\")
    for minute, process in enumerate(odd):
        logs.insert(minute, process=process)
    logs.define(instances="process_id")
    for process in odd:
        logs.write(1, instance=process)
    paths = {row.view_instance_id: row.file_path for row in logs.viewset.partitions()}
    assert set(paths) == set(odd)
    assert {row["view_instance_id"]: row["process_id"] for row in logs.rows()} == {one: one for one in odd}
    for process, path in paths.items():
        assert logs.viewset.materialize("entries", **until(1), instance=process).is_empty
        done = logs.viewset.retire("entries", file=[path]).apply()
        with pytest.raises(NotFound, match="Partition not found"):
            logs.viewset.retire("entries", file=[path])
        assert process not in {row.view_instance_id for row in logs.viewset.partitions()}
        logs.viewset.restore(done.id).apply()
        logs.viewset.retire("entries", instance=process, **{k: v for k, v in until(1).items() if k != "delta"}).apply()
    with pytest.raises(NotFound, match="DROP TABLE"):
        logs.viewset.retire("entries", file=["'; DROP TABLE viewsets.entries; --"])
    assert logs.viewset.partitions() == [] and logs.rows() == []


def test_two_who_planned_the_same_time_give_one_set_of_partitions(logs: Logs) -> None:
    logs.insert(0, 61)
    logs.define()
    first, second = (logs.viewset.materialize("entries", **until(3)) for _ in range(2))
    logs.insert(5)
    late, other = logs.viewset.materialize("entries", **until(3)), logs.viewset.materialize("entries", **until(2))
    coarse = logs.viewset.materialize("entries", **{**until(3), "delta": "3h"})
    first.apply()
    held, rows = logs.held(), logs.rows()
    second.apply()
    for plan in (late, other, coarse):  # the source had changed, so what they would write is not there yet
        with pytest.raises(StalePlan, match="by now"):
            plan.apply()
    assert (logs.held(), logs.rows()) == (held, rows) and len(rows) == 2
    assert logs.write(3)["partitions"] == 1 and len(logs.rows()) == 3
    logs.viewset.retire("entries", begin="2026-01-01", end="2026-01-02").apply()
    table = logs.lake.catalog.load_table(TARGET)
    faster = pa.Table.from_pylist(rows[:1], schema=table.schema().as_arrow())
    failpoints.when(
        "viewset.staged", lambda: logs.lake.catalog.load_table(TARGET).append(faster)
    )  # with a control database of its own
    with pytest.raises(StalePlan, match="by now"):
        logs.write(3)
    assert len(logs.rows()) == 1


def test_a_reader_sees_the_old_rows_or_the_new_ones(logs: Logs) -> None:
    logs.insert(*range(0, 180, 10), level=1)
    logs.define()
    logs.write(3)
    logs.define(SQL.replace("level", "level + 1 AS level"))
    seen: list[tuple[int, ...]] = []
    over = threading.Event()

    def read() -> None:
        with Warden.open(logs.lake.folder) as other:
            catalog = other.ground.catalogs.get("main")
            while True:
                is_last = over.is_set()
                seen.append(tuple(catalog.load_table(TARGET).scan().to_arrow()["level"].to_pylist()))
                if is_last:
                    return

    reader = threading.Thread(target=read)
    reader.start()
    try:
        logs.viewset.regenerate("entries", **until(3)).apply()
    finally:
        over.set()
        reader.join()
    assert set(seen) == {(1,) * 18, (2,) * 18} and len(seen) > 3
    assert seen == sorted(seen)


def test_upkeep_erasure_and_loss_of_the_control_database_change_no_identity(logs: Logs) -> None:
    warden = logs.lake.warden
    logs.insert(0, 61, process="here")
    logs.insert(1, 2, 125, process="gone")
    logs.define(instances="process_id")
    logs.write(4)
    logs.write(2, instance="gone")  # the second has no rows

    def known() -> dict[Any, Any]:
        rows = logs.viewset.partitions("entries")
        assert len({row.identity for row in rows}) == len(rows)
        return {row.identity: (row.source_data_hash, row.updated) for row in rows}

    def files() -> set[str | None]:
        return {row.file_path for row in logs.viewset.partitions("entries")}

    before, first_files = known(), files()
    assert len(before) == 6 and None in first_files
    warden.compaction.compact(TARGET, rewrite_all=True).apply()
    assert known() == before and files() & first_files == {None}
    warden.retention.expire(TARGET, keep_last=1, keep_days=0).apply()
    assert known() == before
    own = {key: value for key, value in before.items() if key[0] == "global"}
    for table in (TARGET, "raw.logs"):
        warden.erasure.request(table, key="process_id", value=["gone"])
        assert known() == (before if table == TARGET else own)
        warden.erasure.purge(table, now=True).apply()
        assert known() == own, "what is left of the erased person is not even the name of the instance"
        assert {row["process_id"] for row in logs.rows()} == {"here"}
    beside = logs.lake.catalog.load_table(f"{TARGET}__empty")
    names = {row["view_instance_id"] for one in beside.metadata.snapshots for row in _rows(beside, one.snapshot_id)}
    assert names == {"global"}, "nor in an earlier version of the list"
    stored = [path for path in Path(beside.location().removeprefix("file://")).rglob("*") if path.is_file()]
    assert len(stored) > 3 and not [path for path in stored if b"gone" in path.read_bytes()]
    assert sorted(logs.held().values()) == [0, 0, 1, 1]
    assert logs.viewset.retire("entries", begin="2026-01-01", end="2026-01-02").apply().result["partitions_failed"] == 0
    assert known() == {}
    logs.write(4)
    again = known()
    warden.close()
    for file in logs.lake.folder.glob("lakewarden.db*"):
        file.unlink()
    logs.lake.warden = Warden.open(logs.lake.folder)
    logs.viewset = logs.lake.warden.viewset
    assert known() == again and len(again) == 4


def _rows(table: Any, snapshot: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table.scan(snapshot_id=snapshot).to_arrow().to_pylist()
    return found


class Killed(BaseException):
    """The process ends here."""


class Killing:
    """Runs a verb on one time after the other, each killed at the next point that it passes.

    Every time is three hours long, and its third hour has no rows.
    """

    def __init__(self, logs: Logs, times: int) -> None:
        self.logs, self.times = logs, times
        for extra in (0, 1):
            logs.insert(*(minute + extra for time in range(times) for minute in (180 * time, 180 * time + 61)))
            if not extra:
                logs.define()

    def whole(self) -> None:
        self.logs.viewset.materialize("entries", **until(3 * self.times)).apply()

    def at(self, time: int) -> dict[str, Any]:
        begin = DAY + timedelta(hours=3 * time)
        return {"begin": begin.isoformat(), "end": (begin + timedelta(hours=3)).isoformat()}

    def there(self) -> dict[int, tuple[int, int]]:
        """The rows of each partition, by its hour: as metadata counts them, and as they are."""
        rows = Counter((row["begin_insert_time"] - DAY) // timedelta(hours=1) for row in self.logs.rows())
        held = {hour: count for (hour, _), count in self.logs.held().items()}
        return {hour: (held.get(hour, -1), rows[hour]) for hour in held.keys() | rows.keys()}

    def run(self, act: Callable[[int], Any], at_stake: tuple[str, ...], soaking: bool) -> None:
        """Act on the first time undisturbed; then on others, killed and resumed: all end as the first does."""
        passed: list[str] = []
        failpoints._armed.append(lambda point, _: passed.append(point))
        act(0)
        failpoints.arm("")
        before = self.there()
        expected = {hour: rows for hour, rows in before.items() if hour < 3}
        points = [passed.index(point) + 1 for point in at_stake]
        if soaking:
            points = [number for number, _ in killing.chosen(passed)]
        assert len(points) < self.times, passed
        for time, number in enumerate(points, start=1):
            self._killed(number, lambda time=time: act(time))  # type: ignore[misc]
            after, own = self.there(), range(3 * time, 3 * time + 3)
            assert {hour - 3 * time: after[hour] for hour in own if hour in after} == expected, passed[number - 1]
            assert {h: r for h, r in after.items() if h not in own} == {h: r for h, r in before.items() if h not in own}
            before = after

    def _killed(self, number: int, act: Callable[[], Any]) -> None:
        def kill(_: str, passed: int) -> None:
            if passed == number:
                raise Killed

        failpoints.arm("")
        failpoints._armed.append(kill)
        with pytest.raises(Killed):
            act()
        failpoints.arm("")
        warden = self.logs.lake.warden
        unfinished = [one for one in warden.operation.list(limit=1000) if one.state not in ("done", "planned")]
        for operation in unfinished:
            warden.operation.resume(operation.id)
        if not unfinished:  # nothing had been written down, or all of it
            act()


@pytest.mark.parametrize(
    ("verb", "at_stake"),
    [
        ("materialize", ("viewset.staged", "commit.landed")),
        ("regenerate", ("commit.landed",)),
        ("retire", ("commit.landed", "viewset.retired")),
        ("restore", ("commit.landed",)),
    ],
)
def test_killed_at_any_step_there_is_no_duplicate_and_no_hole(
    logs: Logs, verb: str, at_stake: tuple[str, ...], soaking: bool
) -> None:
    kills = Killing(logs, times=60 if soaking else len(at_stake) + 1)
    retired: dict[int, str] = {}
    if verb != "materialize":
        kills.whole()
    if verb == "restore":
        for time in range(kills.times):
            retired[time] = str(logs.viewset.retire("entries", **kills.at(time)).apply().id)

    def act(time: int) -> Any:
        if verb == "restore":
            return logs.viewset.restore(retired[time]).apply()
        more = {} if verb == "retire" else {"delta": "1h"}
        return getattr(logs.viewset, verb)("entries", **kills.at(time), **more).apply()

    kills.run(act, at_stake, soaking)
