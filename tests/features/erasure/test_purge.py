"""`erasure purge`: rows leave every version at once, everything else stays, and a clean proof closes the request.

Covers `features/erasure/purging/intent.py`, `features/erasure/purging/planning.py` and
`features/erasure/purging/rewriting.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from lakewarden.errors import Conflict, DeletionForbidden, StalePlan, TracesLeft
from lakewarden.lifecycle.failpoints import when
from tests.features.erasure.people import SCHEMA, configured, ids, person, with_people
from tests.small_lake import SmallLake


def ask(lake: SmallLake, *people: int, table: str = "crm.people") -> str:
    return str(lake.warden.erasure.request(table, key="email", value=[f"p{n}@example.org" for n in people]).id)


def purge(lake: SmallLake, *tables: str, **options: Any) -> dict[str, Any]:
    return dict(lake.warden.erasure.purge(*tables, **options).apply().result)


def add(lake: SmallLake, *people: int) -> None:
    table = lake.catalog.load_table("crm.people")
    table.append(pa.Table.from_pylist([person(n) for n in people], schema=SCHEMA))


def stored(lake: SmallLake, name: str = "crm.people") -> Iterator[Path]:
    location = lake.catalog.load_table(name).metadata.location.removeprefix("file://")
    return (path for path in Path(location).rglob("*") if path.is_file())


@pytest.fixture
def people(any_lake: SmallLake) -> SmallLake:
    """Two versions, the first one tagged, the second on a branch too."""
    lake = with_people(any_lake)
    first = lake.catalog.load_table("crm.people").metadata.snapshots[0].snapshot_id
    lake.warden.version.tag(f"crm.people@{first}", "first", keep="90d", note="for the audit").apply()
    lake.warden.version.branch("crm.people", "work").apply()
    return lake


class TestThePlan:
    def test_names_what_goes_with_versions_that_nothing_else_has(self, lake: SmallLake) -> None:
        with_people(lake)
        rows = pa.Table.from_pylist([person(n) for n in range(6)], schema=SCHEMA)
        lake.catalog.load_table("crm.people").overwrite(rows)
        ask(lake, 1)
        plan = lake.warden.erasure.purge("crm.people").plan
        assert (
            plan.actions[0].says == "erase 2 rows from 1 branch and earlier versions; 3 versions that had them expire"
        )
        assert any("their metadata and 1 more file (" in note for note in plan.warnings)
        assert plan.actions[0].estimate.rows == purge(lake, "crm.people")["rows_dropped_by_tombstones"]

    def test_tells_which_versions_hold_how_many_rows_and_changes_nothing(self, people: SmallLake) -> None:
        ask(people, 1, 4)
        before = people.catalog.load_table("crm.people").metadata_location
        plan = people.warden.erasure.purge("crm.people").plan
        assert [action.verb for action in plan.actions] == ["purge", "prove"]
        assert plan.actions[0].says == "erase 2 rows from 2 branches and 1 tag; 2 versions that had them expire"
        assert {(v.verdict, v.reasons) for v in plan.verdicts} == {
            ("replaced", ("1 row", "tag first")),
            ("replaced", ("2 rows", "branch main", "branch work")),
        }
        assert plan.actions[0].files.count == 2
        assert any("streams" in warning for warning in plan.warnings)
        assert people.catalog.load_table("crm.people").metadata_location == before
        assert ids(people, raw=True) == [0, 1, 2, 3, 4, 5]

    def test_is_the_same_twice(self, people: SmallLake) -> None:
        ask(people, 1)
        plans = [people.warden.erasure.purge("crm.people").plan.id for _ in range(2)]
        assert plans[0] == plans[1]

    def test_holds_no_value(self, people: SmallLake) -> None:
        ask(people, 1, 4)
        planned = people.warden.erasure.purge("crm.people")
        text = json.dumps(planned.plan.document(files=True)) + planned.operation.model_dump_json()
        assert "p1@" not in text
        assert "p4@" not in text

    def test_requests_in_their_grace_wait_unless_told(self, people: SmallLake) -> None:
        configured(people, tables={"crm.people": {"erasure": {"grace": "7d"}}})
        asked = ask(people, 1)
        planned = people.warden.erasure.purge("crm.people")
        assert planned.is_empty
        assert [w for w in planned.plan.warnings if w.startswith(f"request {asked} waits until")]
        assert purge(people, "crm.people", now=True)["rows_dropped_by_tombstones"] == 1
        assert people.warden.erasure.show(asked).state == "closed"

    def test_what_may_not_be_deleted_is_refused(self, people: SmallLake) -> None:
        ask(people, 1)
        with people.catalog.load_table("crm.people").transaction() as change:
            change.set_properties({"gc.enabled": "false"})
        with pytest.raises(DeletionForbidden, match="gc.enabled=false") as refused:
            people.warden.erasure.purge("crm.people")
        assert refused.value.hint

    def test_only_what_is_open(self, people: SmallLake) -> None:
        asked = ask(people, 1)
        people.warden.erasure.withdraw(asked).apply()
        with pytest.raises(Conflict, match="is already withdrawn"):
            people.warden.erasure.purge(request=[asked])
        assert people.warden.erasure.purge("crm.people").is_empty
        assert people.warden.erasure.purge(all=True).is_empty


class TestPurging:
    def test_rows_leave_every_version_and_all_else_stays(self, people: SmallLake) -> None:
        before = {ref: people.warden.version.read(f"crm.people@{ref}", limit=99) for ref in ("main", "work", "first")}
        asked = ask(people, 1, 4)
        result = purge(people, "crm.people")
        for ref, rows in before.items():
            left = people.warden.version.read(f"crm.people@{ref}", limit=99, raw=True)
            assert left.rows == [row for row in rows if row["id"] not in (1, 4)]
        assert result["tombstones_applied"] == 2
        assert result["rows_dropped_by_tombstones"] == 2
        assert result["files_rewritten"] == 2
        assert result["refs_repointed"] == 3
        assert result["snapshots_expired"] == 2
        assert result["bytes_removed"] > 0
        assert people.warden.erasure.show(asked).state == "closed"

    def test_no_file_holds_a_value(self, people: SmallLake) -> None:
        ask(people, 1, 4)
        purge(people, "crm.people")
        held = [path for path in stored(people) if b"p1@example" in path.read_bytes()]
        assert held == []

    def test_refs_keep_their_settings(self, people: SmallLake) -> None:
        old = people.catalog.load_table("crm.people").metadata
        ask(people, 1)
        purge(people, "crm.people")
        new = people.catalog.load_table("crm.people").metadata
        assert new.refs.keys() == old.refs.keys()
        for name, ref in old.refs.items():
            kept = new.refs[name].model_dump(exclude={"snapshot_id"})
            assert kept == ref.model_dump(exclude={"snapshot_id"})
            was, now = (m.snapshot_by_id(m.refs[name].snapshot_id) for m in (old, new))
            assert now.schema_id == was.schema_id
            assert now.timestamp_ms == was.timestamp_ms
        assert new.properties["lakewarden.note.first"] == "for the audit"

    def test_a_second_run_plans_nothing(self, people: SmallLake) -> None:
        ask(people, 1)
        purge(people, "crm.people")
        assert people.warden.erasure.purge("crm.people").is_empty

    def test_versions_without_the_rows_stay_as_they_are(self, people: SmallLake) -> None:
        first = people.refs("crm.people")["first"]
        ask(people, 4)
        result = purge(people, "crm.people")
        assert people.refs("crm.people")["first"] == first
        assert (result["refs_repointed"], result["files_rewritten"], result["snapshots_expired"]) == (2, 1, 1)

    def test_a_person_who_is_nowhere_is_proved_to_be_nowhere(self, people: SmallLake) -> None:
        asked = ask(people, 77)
        before = people.refs("crm.people")
        assert purge(people, "crm.people")["rows_dropped_by_tombstones"] == 0
        assert people.warden.erasure.show(asked).state == "closed"
        assert people.refs("crm.people") == before

    def test_a_whole_file_may_go(self, people: SmallLake) -> None:
        ask(people, 3, 4, 5)
        purge(people, "crm.people")
        assert ids(people, raw=True) == [0, 1, 2]

    def test_every_row_may_go(self, people: SmallLake) -> None:
        people.warden.erasure.request("crm.people", key="id", value=[str(n) for n in range(6)])
        purge(people, "crm.people")
        assert [ids(people, f"crm.people@{ref}", raw=True) for ref in ("main", "work", "first")] == [[], [], []]
        add(people, 7)
        assert ids(people) == [7]

    def test_writers_go_on_afterwards(self, people: SmallLake) -> None:
        ask(people, 1)
        purge(people, "crm.people")
        add(people, 8)
        assert ids(people) == [0, 2, 3, 4, 5, 8]

    def test_several_requests_at_once(self, people: SmallLake) -> None:
        asked = [ask(people, 1), ask(people, 1, 5)]
        assert purge(people, all=True)["rows_dropped_by_tombstones"] == 2
        assert [people.warden.erasure.show(id).state for id in asked] == ["closed", "closed"]

    def test_a_subject_is_closed_once_all_of_its_tables_are_clean(self, people: SmallLake) -> None:
        with_people(people, "web.visitors")
        configured(people, subjects={"customer": {"crm.people": "email", "web.visitors": "email"}})
        asked = people.warden.erasure.request(subject="customer", value=["p1@example.org", "p4@example.org"]).id
        purge(people, "crm.people")
        assert people.warden.erasure.show(asked).state == "open"
        purge(people, request=[asked])
        assert people.warden.erasure.show(asked).state == "closed"
        assert ids(people, "crm.people", raw=True) == [0, 2, 3, 5]
        assert ids(people, "web.visitors", raw=True) == [0, 2, 3, 5]


class TestOthers:
    def test_what_is_appended_meanwhile_stays(self, people: SmallLake) -> None:
        asked = ask(people, 1)
        passed = when("purge.rewritten", lambda: add(people, 7))
        purge(people, "crm.people")
        assert len(passed) == 1
        assert ids(people, raw=True) == [0, 2, 3, 4, 5, 7]
        assert people.warden.erasure.show(asked).state == "closed"

    def test_who_arrives_meanwhile_is_found_and_goes_with_the_next(self, people: SmallLake) -> None:
        asked = ask(people, 1)
        when("purge.rewritten", lambda: add(people, 1))
        with pytest.raises(TracesLeft, match="crm.people"):
            purge(people, "crm.people")
        assert people.warden.erasure.show(asked).state == "open"
        purge(people, "crm.people")
        assert people.warden.erasure.show(asked).state == "closed"
        assert ids(people, raw=True) == [0, 2, 3, 4, 5]

    def test_a_tag_made_meanwhile_is_not_lost(self, people: SmallLake) -> None:
        ask(people, 1)

        def tag() -> None:
            table = people.catalog.load_table("crm.people")
            table.manage_snapshots().create_tag(table.metadata.snapshots[0].snapshot_id, "theirs").commit()

        when("purge.rewritten", tag)
        purge(people, "crm.people")
        assert ids(people, "crm.people@theirs", raw=True) == [0, 2]

    def test_a_request_withdrawn_meanwhile_makes_the_plan_stale(self, people: SmallLake) -> None:
        asked = ask(people, 1)
        planned = people.warden.erasure.purge("crm.people")
        people.warden.erasure.withdraw(asked).apply()
        with pytest.raises(StalePlan, match=f"request {asked} is withdrawn"):
            planned.apply()
        assert ids(people, raw=True) == [0, 1, 2, 3, 4, 5]

    def test_copies_in_quarantine_go_too(self, people: SmallLake) -> None:
        people.warden.version.untag("crm.people", "first").apply()
        people.warden.retention.expire("crm.people", keep_last=1, keep_days=0).apply()
        batch = people.warden.orphan.list("crm.people")
        assert batch
        ask(people, 1)
        purge(people, "crm.people")
        assert [path for path in stored(people) if b"p1@example" in path.read_bytes()] == []

    def test_the_deadline_does_not_matter_to_the_grace(self, people: SmallLake) -> None:
        asked = people.warden.erasure.request("crm.people", key="id", value=["1"], deadline=timedelta(days=30)).id
        purge(people, request=[asked])
        assert people.warden.erasure.show(asked).state == "closed"


def test_a_key_that_only_the_partition_tells(lake: SmallLake) -> None:
    """Files that Hive tables had may lack the column that they are partitioned by."""
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.transforms import IdentityTransform
    from pyiceberg.types import LongType, NestedField, StringType

    lake.catalog.create_namespace("crm")
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "email", StringType()))
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "email"))
    table = lake.catalog.create_table("crm.people", schema, partition_spec=spec)
    table.append(pa.table({"id": [1, 2, 3], "email": ["p1@example.org", "p1@example.org", "p2@example.org"]}))
    for file in Path(table.metadata.location.removeprefix("file://")).rglob("*.parquet"):
        rows = pa.parquet.read_table(file, partitioning=None)
        pa.parquet.write_table(rows.select(["id"]), file)
    ask(lake, 1)
    assert purge(lake, "crm.people")["rows_dropped_by_tombstones"] == 2
    assert [row["id"] for row in lake.warden.version.read("crm.people", columns=["id"], raw=True)] == [3]


def test_writers_go_on_from_where_they_were(lake: SmallLake) -> None:
    """A streaming writer reads how far it is from the newest summary; what tells of somebody is not carried over."""
    with_people(lake)
    rows = pa.Table.from_pylist([person(7)], schema=SCHEMA)
    facts = {"flink.max-committed-checkpoint-id": "41", "source": "p1@example.org.csv"}
    lake.catalog.load_table("crm.people").append(rows, snapshot_properties=facts)
    ask(lake, 1)
    purge(lake, "crm.people")
    summary = lake.catalog.load_table("crm.people").current_snapshot().summary.additional_properties
    assert summary["flink.max-committed-checkpoint-id"] == "41"
    assert "source" not in summary


def stamp(*checkpoint: Any, **around: Any) -> str:
    """The stamp of a backfill's batch, in a summary or, with more around it, in a property."""
    position = {"run": 1, "batch": 1, "checkpoint": json.dumps(checkpoint), "source": {}, "forgotten": False}
    return json.dumps({"position": position, **around} if around else position)


@pytest.mark.parametrize("place", ["summary", "property"])
def test_a_checkpoint_is_forgotten_if_no_row_has_its_value(lake: SmallLake, place: str) -> None:
    """The row was put aside, or it is a row of the source only."""
    with_people(lake)
    key, table = "lakewarden.backfill.crm_001", lake.catalog.load_table("crm.people")
    gone = "p77@example.org"
    if place == "summary":
        rows = pa.Table.from_pylist([person(8)], schema=SCHEMA)
        table.append(rows, snapshot_properties={key: stamp(gone, 7)})
    else:
        with table.transaction() as transaction:
            transaction.set_properties({key: stamp(gone, 7, snapshot=1, sequence=1, at=0)})
    asked = ask(lake, 77)
    assert gone in " ".join(file.read_text(errors="replace") for file in stored(lake))
    purge(lake, "crm.people")
    assert lake.warden.erasure.show(asked).state == "closed"
    written = " ".join(file.read_text(errors="replace") for file in stored(lake))
    assert gone not in written and "forgotten" in written and lake.warden.version.read("crm.people", limit=100)


def test_checkpoints_of_a_table_that_was_made_of_another_are_forgotten_with_its_rows(lake: SmallLake) -> None:
    """Covers `features/erasure/requests/checkpoints.py` and `features/erasure/purging/checkpoints_action.py`."""
    with_people(lake)
    key, gone = "lakewarden.backfill.crm_001", "p1@example.org"
    copy = lake.catalog.create_table("crm.copy", pa.schema([("id", pa.int64())]))
    for number, email in enumerate((gone, "p2@example.org")):
        noted = json.loads(stamp(email)) | {"source": {"crm.people": "17"}}
        copy.append(pa.table({"id": [number]}), snapshot_properties={key: json.dumps(noted)})
    other = lake.catalog.create_table("crm.other", copy.schema())
    other.append(pa.table({"id": [1]}), snapshot_properties={key: stamp(gone)})
    asked = ask(lake, 1)
    plan = lake.warden.erasure.purge("crm.people").plan
    says = {action.subject: action.says for action in plan.actions if action.verb == "purge"}
    assert says["main.crm.copy"] == (
        "forget checkpoints of backfills that are values to erase; 1 version that had them expires"
    )
    purge(lake, "crm.people")
    assert lake.warden.erasure.show(asked).state == "closed"
    written = " ".join(file.read_text(errors="replace") for file in stored(lake, "crm.copy"))
    assert gone not in written and "p2@example.org" in written
    assert sorted(row["id"] for row in lake.warden.version.read("crm.copy")) == [0, 1]
    assert gone in " ".join(file.read_text(errors="replace") for file in stored(lake, "crm.other"))  # not of people


def test_a_checkpoint_elsewhere_keeps_a_request_open(lake: SmallLake) -> None:
    with_people(lake)
    noted = {**json.loads(stamp("p77@example.org")), "source": {"crm.people": "17"}}
    properties = {"lakewarden.backfill.crm_001": json.dumps({"position": noted, "snapshot": 1, "sequence": 1, "at": 0})}
    lake.catalog.create_table("crm.copy", pa.schema([("id", pa.int64())]), properties=properties)
    asked = ask(lake, 77)
    with pytest.raises(TracesLeft, match=r"main\.crm\.copy: checkpoints of backfills still have values") as error:
        lake.warden.erasure.prove(asked).apply()
    assert error.value.details["places"][0]["object"] == "main.crm.copy"
    purge(lake, "crm.people")
    assert lake.warden.erasure.show(asked).state == "closed"
    assert "p77@" not in " ".join(file.read_text(errors="replace") for file in stored(lake, "crm.copy"))
