"""What a version's summary still tells once another took its place: how far its writers were, and no counts of old."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from lakewarden.engine.history.replace_files import ReplaceFiles
from lakewarden.engine.history.summary_carryover import Summaries
from tests.engine.cleansed import PEOPLE, People, email
from tests.engine.lakes import STAMP, Lake, lake

__all__ = ["lake"]
FLINK = {"flink.job-id": "j1", "flink.operator-id": "o1", "flink.max-committed-checkpoint-id": "41"}
SPARK = {"spark.sql.streaming.queryId": "q1", "spark.sql.streaming.epochId": "7"}
OFFSETS = "kafka.connect.offsets.control."


@pytest.fixture
def people(lake: Lake) -> People:
    return People(lake.warden).create()


def append(people: People, who: int, summary: dict[str, str], branch: str = "main") -> int:
    content = pa.table({"id": [1], "email": [email(who)]}, schema=PEOPLE)
    people.table.append(content, snapshot_properties=summary, branch=branch)
    return people.refs[branch]


def told(people: People, ref: str = "main") -> dict[str, str]:
    found: dict[str, str] = people.table.snapshot_by_name(ref).summary.additional_properties
    return found


def of_writers(people: People, ref: str = "main") -> dict[str, str]:
    return {key: value for key, value in told(people, ref).items() if key.startswith(("flink", "spark", "kafka"))}


def test_what_a_writer_wrote_into_its_version_stays(people: People) -> None:
    own = {"app-id": "nightly", "added-by": "crm", "trino_query_id": "q7"}
    append(people, 1, {**FLINK, **own})
    people.forget(1)
    assert {*FLINK.items(), *own.items()} <= told(people).items()
    assert told(people)["lakewarden.operation"] == STAMP.operation


def test_counts_and_partitions_of_the_old_version_are_not_told(lake: Lake) -> None:
    people = People(lake.warden).create(properties={"write.summary.partition-limit": "100"})
    with people.table.update_spec() as change:
        change.add_identity("email")
    append(people, 1, {"replace-partitions": "true", "manifests-kept": "3", "lakewarden.marker": "x"})
    append(people, 2, {"partitions.told": "1", "lakewarden.operation": "op-of-old"})
    assert {"added-records", "changed-partition-count", "partitions.email=person2%40example.org"} <= told(people).keys()
    people.tag("v1", people.table.metadata.snapshots[0].snapshot_id)
    people.forget(1)
    for ref in ("main", "v1"):
        left = {key for key in told(people, ref) if not key.startswith("total-")}
        assert left == set(STAMP.properties())
    assert told(people)["lakewarden.operation"] == STAMP.operation


def test_how_far_writers_are_is_found_in_what_the_version_was_built_on(people: People) -> None:
    """A writer looks for its last checkpoint from the head backwards; what the head was built on is out of reach."""
    append(people, 1, {**FLINK, "flink.max-committed-checkpoint-id": "40"})
    append(people, 2, {**FLINK, "note": "of that version only"})
    append(people, 3, SPARK)
    append(people, 4, {OFFSETS + "one": '{"0":5}', "kafka.connect.commit-id": "c1"})
    append(people, 5, {OFFSETS + "two": '{"0":9}', "kafka.connect.commit-id": "c2"})
    people.append([6])
    people.forget(1)
    offsets = {OFFSETS + "one": '{"0":5}', OFFSETS + "two": '{"0":9}', "kafka.connect.commit-id": "c2"}
    assert of_writers(people) == {**FLINK, **SPARK, **offsets}
    assert "note" not in told(people)
    people.append([7], lambda id: 2)
    people.forget(2)
    assert of_writers(people) == {**FLINK, **SPARK, **offsets}, "also when it is done again"


def test_clean_versions_are_looked_at_too(people: People) -> None:
    """They stay, but no longer as what the head was built on."""
    people.tag("clean", append(people, 2, FLINK))
    append(people, 1, {})
    people.forget(1)
    assert of_writers(people) == FLINK


def test_each_ref_has_what_it_was_built_on_and_nothing_else(people: People) -> None:
    append(people, 1, {**FLINK, "flink.max-committed-checkpoint-id": "40"})
    people.branch("dev")
    append(people, 2, FLINK)
    append(people, 3, SPARK, "dev")
    people.forget(1)
    assert of_writers(people) == FLINK
    assert of_writers(people, "dev") == {**FLINK, "flink.max-committed-checkpoint-id": "40", **SPARK}


def test_a_checkpoint_is_never_told_as_another_jobs(people: People) -> None:
    """Job, operator and checkpoint belong together: a mix of two jobs would make one skip what it has not written."""
    append(people, 1, FLINK)
    append(people, 2, {"flink.job-id": "j2", "flink.max-committed-checkpoint-id": "3"})
    append(people, 3, {"flink.job-id": "j3"})
    people.forget(1)
    assert of_writers(people) == {"flink.job-id": "j2", "flink.max-committed-checkpoint-id": "3"}


def test_over_gaps_that_expiry_left(people: People) -> None:
    from lakewarden.engine.commit.expired_versions import Expiry

    people.tag("first", append(people, 1, FLINK))
    gone = append(people, 2, {})
    append(people, 3, {})
    uuid = str(people.table.metadata.table_uuid)
    people.commits().publish(Expiry("main.crm.people", uuid, (gone,)))
    people.cleanse(people.rewritten({email(1)}))
    assert of_writers(people) == FLINK


def test_what_was_staged_and_published_is_not_told_as_staged(people: People) -> None:
    """Nobody may publish it again, and no version may look like one that waits to be published."""
    append(people, 1, {"wap.id": "job-1"})
    people.tag("v1")
    append(people, 2, {"published-wap-id": "job-2", "source-snapshot-id": "77"})
    people.forget(1)
    assert told(people, "v1")["published-wap-id"] == "job-1" and "wap.id" not in told(people, "v1")
    assert told(people)["published-wap-id"] == "job-2" and told(people)["source-snapshot-id"] == "77"


def test_what_tells_a_value_is_left_out_wherever_it_is(people: People) -> None:
    append(people, 1, {OFFSETS + "one": "person1", "kafka.connect.commit-id": "c1"})
    append(people, 2, {"source": "import of PERSON1", "person1": "x", "owner": "crm"})
    asked: list[str] = []

    def tells(text: str) -> bool:
        asked.append(text)
        return "person1" in text.lower()

    people.cleanse(people.rewritten({email(1)}, reveals=tells))
    assert "person1" not in str(told(people)).lower()
    assert told(people)["owner"] == "crm" and told(people)["kafka.connect.commit-id"] == "c1"
    assert "owner" in asked and "crm" in asked


def test_a_tainted_version_keeps_how_far_its_writer_was(people: People) -> None:
    append(people, 2, FLINK)
    uuid, head = str(people.table.metadata.table_uuid), people.refs["main"]
    people.cleanse(ReplaceFiles("main.crm.people", uuid, {}, tainted=frozenset({head})))
    assert of_writers(people) == FLINK and people.refs["main"] != head


def test_long_histories_with_many_names_are_walked_once() -> None:
    """Each version is looked at once, not once for each ref that was built on it."""
    from pyiceberg.table.snapshots import Operation, Snapshot, Summary

    looked: list[int] = []

    class Counted(dict[str, str]):
        def items(self) -> Any:
            looked.append(1)
            return super().items()

    versions = []
    for number in range(1, 2001):
        summary = Summary(Operation.APPEND, **(FLINK if number == 1 else {}))
        summary._additional_properties = Counted(summary.additional_properties)
        versions.append(
            Snapshot(
                snapshot_id=number,
                parent_snapshot_id=number - 1 or None,
                manifest_list="",
                timestamp_ms=number,
                summary=summary,
            )
        )
    summaries = Summaries(versions, {}, lambda text: False)
    assert all(summaries.carried(version) == FLINK for version in versions)
    assert len(looked) <= 3 * len(versions)
