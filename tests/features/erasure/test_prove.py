"""`erasure prove`: told place by place, written down, and the only way that a request is closed.

Covers `features/erasure/proofs/prove_action.py` and `features/erasure/proofs/traces.py`.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sqlalchemy import Engine, event

from lakewarden.errors import Conflict, LakewardenError, NotFound, SomeFailed, StalePlan, TracesLeft
from lakewarden.features.erasure.proofs.proof_records import ThisRun, to_close
from lakewarden.lifecycle.failpoints import when
from lakewarden.records.erasure import Evidence, EvidenceKind
from tests import killing
from tests.cases import in_soak
from tests.engine.lakes import local
from tests.features.erasure.people import SCHEMA, configured, person, with_people
from tests.killing import bury
from tests.services.s3_versions import VersionedS3
from tests.small_lake import SmallLake

VALUE = "nobody-here@example.org"
LONG_AGO = time.time() - 40 * 24 * 3600


def request(lake: SmallLake, *values: str, table: str = "crm.people", key: str = "email") -> str:
    return str(lake.warden.erasure.request(table, key=key, value=list(values)).id)


def proofs(lake: SmallLake, id: str) -> list[dict[str, Any]]:
    told = lake.warden.ground.state.erasure.evidence([EvidenceKind.PROVED], request=id)
    return [dict(evidence.document) for evidence in told]


def state(lake: SmallLake, id: str) -> str:
    return str(lake.warden.erasure.show(id).state)


def data_folder(lake: SmallLake, name: str = "crm.people") -> Path:
    return local(lake.catalog.load_table(name).metadata.location) / "data"


class TestClean:
    def test_closes_the_request_and_forgets_its_values(self, lake: SmallLake) -> None:
        with_people(lake)
        id = request(lake, VALUE)

        report = lake.warden.erasure.prove(id).apply()

        assert report.result["requests_closed"] == 1
        assert report.result["objects_read"] == 10 and report.result["bytes_read"] > 0
        assert state(lake, id) == "closed"
        uuid = str(lake.catalog.load_table("crm.people").metadata.table_uuid)
        assert lake.warden.ground.state.erasure.hidden(uuid) == []
        (proof,) = proofs(lake, id)
        assert proof["clean"] and proof["places"] == [] and proof["young"] == 0
        assert proof["by_kind"] == {"data": 2, "manifest": 2, "manifest-list": 2, "metadata": 4}  # the mark too
        assert proof["refs"] == lake.refs("crm.people")
        assert proof["metadata"] == lake.catalog.load_table("crm.people").metadata_location
        assert any("decoded by type" in step for step in proof["method"])

    def test_a_plan_shows_the_bytes_to_read_and_changes_nothing(self, lake: SmallLake) -> None:
        with_people(lake)
        id = request(lake, VALUE)
        shown = json.loads(lake.run("erasure", "prove", id, "--plan", "--json").stdout)
        (action,) = shown["plan"]["actions"]
        stored = sum(path.stat().st_size for path in data_folder(lake).parent.rglob("*") if path.is_file())
        assert action["estimate"]["files"] == 10 and action["estimate"]["bytes"] == stored
        assert state(lake, id) == "open" and proofs(lake, id) == []

    def test_a_request_in_its_grace_is_closed_where_nothing_is_there(self, lake: SmallLake) -> None:
        with_people(lake)
        configured(lake, tables={"crm.people": {"erasure": {"grace": "7d"}}})
        id = request(lake, VALUE)
        assert state(lake, id) == "waiting"
        lake.warden.erasure.prove(id).apply()
        assert state(lake, id) == "closed"


class TestTraces:
    def test_exit_code_3_and_where(self, lake: SmallLake) -> None:
        with_people(lake)
        id = request(lake, "p4@example.org", "p5@example.org")

        done = lake.run("erasure", "prove", id, "--json", check=3)

        error = json.loads(done.stdout)["error"]
        assert error["code"] == "traces-left"
        assert f"still hold values of request {id}: data/" in error["message"]
        assert error["hint"] == f"lakewarden erasure purge --request {id}"
        assert {"column email, 2 rows", "upper bound of column email"} <= {place["where"] for place in error["places"]}
        assert all(place["live"] for place in error["places"])
        assert "@example.org" not in done.stdout + done.stderr
        assert state(lake, id) == "open"
        (proof,) = proofs(lake, id)
        assert not proof["clean"] and proof["places"] == error["places"]

    def test_all_places_are_written_down_and_the_first_hundred_told(self, lake: SmallLake) -> None:
        with_people(lake, rows=2)
        table = lake.catalog.load_table("crm.people")
        for _ in range(40):
            table.append(pa.Table.from_pylist([person(7)], schema=SCHEMA))
        id = request(lake, "p7@example.org")
        with pytest.raises(TracesLeft) as told:
            lake.warden.erasure.prove(id).apply()
        (proof,) = proofs(lake, id)
        assert len(told.value.details["places"]) == 100 < len(proof["places"])
        assert f"; and {len(proof['places']) - 5:,} more" in told.value.message

    def test_looks_again_each_time(self, lake: SmallLake) -> None:
        """A row that arrives after a proof is found by the next one."""
        with_people(lake)
        configured(lake, subjects={"person": {"crm.people": "email", "crm.others": "email"}})
        with_people(lake, "crm.others", rows=10)
        id = str(lake.warden.erasure.request(subject="person", value=["p8@example.org"]).id)
        for table in ("crm.people", "crm.others"):
            assert lake.catalog.load_table(table)
        with pytest.raises(SomeFailed) as first:
            lake.warden.erasure.prove(id).apply()
        assert first.value.exit_code == 3 and "main.crm.others" in first.value.message
        assert [proof["clean"] for proof in proofs(lake, id)] in ([True, False], [False, True])
        lake.catalog.load_table("crm.people").append(pa.Table.from_pylist([person(8)], schema=SCHEMA))
        with pytest.raises(SomeFailed) as second:
            lake.warden.erasure.prove(id).apply()
        assert len(second.value.details["failures"]) == 2
        assert state(lake, id) == "open"

    def test_young_files_that_nothing_leads_to(self, lake: SmallLake) -> None:
        with_people(lake)
        id = request(lake, "p8@example.org")
        pq.write_table(pa.Table.from_pylist([person(8)], schema=SCHEMA), data_folder(lake) / "uncommitted.parquet")

        with pytest.raises(TracesLeft, match="new unreferenced files") as told:
            lake.warden.erasure.prove(id).apply()

        assert "Purge again after" in told.value.hint
        (proof,) = proofs(lake, id)
        assert proof["young"] >= 1 and not proof["clean"]

    def test_in_another_column(self, lake: SmallLake) -> None:
        with_people(lake)
        id = request(lake, "u1@example.org")  # it stands in user.email
        with pytest.raises(TracesLeft, match="bytes of an entry|bytes of column user.email|bytes") as told:
            lake.warden.erasure.prove(id).apply()
        assert "request that too: lakewarden erasure request main.crm.people" in told.value.hint

    def test_what_cannot_be_read_is_no_proof(self, lake: SmallLake) -> None:
        with_people(lake)
        id = request(lake, VALUE)
        (data_folder(lake) / "half.parquet").write_bytes(b"PAR1" + b"\0" * 100)
        with pytest.raises(TracesLeft, match="1 object cannot be read, such as .*half.parquet") as told:
            lake.warden.erasure.prove(id).apply()
        assert [unread["object"].endswith("/half.parquet") for unread in told.value.details["not_read"]] == [True]
        assert state(lake, id) == "open"

    def test_in_every_member_of_a_gzip_file(self, lake: SmallLake) -> None:
        with_people(lake)
        id = request(lake, "p4@example.org")
        export = data_folder(lake) / "export.csv.gz"
        export.write_bytes(gzip.compress(b"id,email\n") + gzip.compress(b"4,p4@example.org\n"))
        os.utime(export, (LONG_AGO, LONG_AGO))
        with pytest.raises(TracesLeft) as told:
            lake.warden.erasure.prove(id).apply()
        assert any(place["object"].endswith("export.csv.gz") for place in told.value.details["places"])
        lake.warden.erasure.purge(request=[id]).apply()
        assert not export.exists() and state(lake, id) == "closed"


class TestWhatToDo:
    """Where a purge alone does not help, the hint says what does: that is done, and the request can be closed."""

    def left(self, lake: SmallLake, id: str) -> TracesLeft:
        with pytest.raises(TracesLeft) as told:
            lake.warden.erasure.purge(request=[id]).apply()
        assert "@example.org" not in str(told.value) + told.value.hint + repr(told.value.details)
        return told.value

    @pytest.mark.parametrize("value", ["p4@example.org", VALUE])
    def test_the_name_of_a_tag(self, lake: SmallLake, value: str) -> None:
        table = with_people(lake).catalog.load_table("crm.people")
        table.manage_snapshots().create_tag(table.metadata.snapshots[0].snapshot_id, f"before-{value}").commit()
        id = request(lake, value)
        left = self.left(lake, id)
        assert left.message.endswith(".metadata.json: name of a branch or tag")
        assert left.hint == (
            "Rename or remove the branch or tag that contains the value in its name, then: "
            f"lakewarden erasure purge --request {id}"
        )
        lake.catalog.load_table("crm.people").manage_snapshots().remove_tag(f"before-{value}").commit()
        with pytest.raises(TracesLeft) as told:
            lake.warden.erasure.prove(id).apply()
        assert told.value.hint == f"lakewarden erasure purge --request {id}"  # it is left only in what a purge removes
        lake.warden.erasure.purge(request=[id]).apply()
        assert state(lake, id) == "closed"

    def test_a_property(self, lake: SmallLake) -> None:
        with with_people(lake).catalog.load_table("crm.people").transaction() as transaction:
            transaction.set_properties({"owner": "p4@example.org"})
        id = request(lake, "p4@example.org")
        left = self.left(lake, id)
        assert left.message.endswith(".metadata.json: table property")
        assert left.hint.startswith("Change or remove the table property that contains the value, then: lakewarden")
        with lake.catalog.load_table("crm.people").transaction() as transaction:
            transaction.remove_properties("owner")
        lake.warden.erasure.purge(request=[id]).apply()
        assert state(lake, id) == "closed"

    def test_the_summary_of_a_version_that_has_no_such_row(self, lake: SmallLake) -> None:
        rows = pa.Table.from_pylist([person(7)], schema=SCHEMA)
        with_people(lake).catalog.load_table("crm.people").append(rows, snapshot_properties={"by": VALUE})
        id = request(lake, VALUE)
        with pytest.raises(TracesLeft, match="snapshot summary") as told:
            lake.warden.erasure.prove(id).apply()
        assert told.value.hint == (
            f"lakewarden erasure purge --request {id}. If a summary still has the value, expire that version: "
            "lakewarden retention expire main.crm.people"
        )

    def test_a_phone_number_that_a_property_tells(self, lake: SmallLake) -> None:
        with with_people(lake).catalog.load_table("crm.people").transaction() as transaction:
            transaction.set_properties({"contact": "5551234"})
        with pytest.raises(TracesLeft, match=r"\.metadata\.json: table property\. "):
            lake.warden.erasure.prove(request(lake, "5551234")).apply()

    def test_a_damaged_file_that_nothing_leads_to(self, lake: SmallLake) -> None:
        with_people(lake)
        id = request(lake, "p4@example.org")
        half = data_folder(lake) / "half.parquet"
        half.write_bytes(b"PAR1" + b"x" * 500)
        os.utime(half, (LONG_AGO, LONG_AGO))
        assert self.left(lake, id).hint == (
            "Fix them, or move them out of the table's location. If no version references them: "
            "lakewarden orphan quarantine main.crm.people, then lakewarden orphan delete main.crm.people"
        )
        lake.warden.orphan.quarantine("crm.people").apply()
        assert self.left(lake, id).hint == (
            "Files in quarantine are searched until they are deleted: "
            "lakewarden orphan delete main.crm.people (--now ends their grace period)"
        )
        lake.warden.orphan.delete("crm.people", now=True).apply()
        lake.warden.erasure.purge(request=[id]).apply()
        assert state(lake, id) == "closed"


class TestManyRequests:
    def test_take_no_more_queries_than_a_few(self, lake: SmallLake) -> None:
        """Each request used to be asked for by itself, and each time all that its proof is about was read."""
        with_people(lake)
        ground, uuid = lake.warden.ground, str(lake.catalog.load_table("crm.people").metadata.table_uuid)
        few = [request(lake, f"x{n}@example.org") for n in range(3)]
        many = [*few, *(request(lake, f"y{n}@example.org") for n in range(40))]
        location = lake.catalog.load_table("crm.people").metadata_location

        def proved(operation: str, requests: Sequence[str], clean: bool) -> None:
            facts = {"clean": clean, "metadata": location}
            at = ground.clock()
            ground.state.erasure.record(
                Evidence(EvidenceKind.PROVED, "main.crm.people", uuid, operation, "act-1", at, tuple(requests), facts)
            )

        def closable(requests: Sequence[str], by: str = "", this_run: bool = True) -> tuple[list[str], int]:
            run = ThisRun({"act-1"} if this_run else set())
            with queries() as asked:
                found = to_close(ground, requests, (), by, run)
            return [each.id for each in found], len(asked)

        assert closable(many)[0] == []
        proved("op-1", many, True)
        assert closable(few)[0] == few
        assert closable(many) == (many, closable(few)[1])
        proved("op-2", many[:2], False)
        assert closable(many) == (many[2:], closable(few)[1])
        proved("op-3", many[:1], True)
        assert closable(many)[0] == [many[0], *many[2:]]
        for number, id in enumerate(many):  # each proved by itself
            proved(f"op-x{number:02}", [id], number != 7)
        assert closable(many)[0] == [id for id in many if id != many[7]]
        assert closable(many)[1] <= closable(few)[1]
        lake.catalog.load_table("crm.people").append(pa.Table.from_pylist([person(7)], schema=SCHEMA))
        assert closable(many)[0] == []
        assert closable(many, "op-x03")[0] == [many[3]]
        assert closable(many, "op-x03", this_run=False)[0] == []

    def test_a_plan_for_one_that_is_withdrawn_by_now(self, lake: SmallLake) -> None:
        with_people(lake)
        id = request(lake, VALUE)
        planned = lake.warden.erasure.prove(id)
        assert planned.plan.actions
        lake.warden.erasure.withdraw(id).apply()
        with pytest.raises(StalePlan, match=f"request {id} is withdrawn"):
            planned.apply()
        assert proofs(lake, id) == []


@contextmanager
def queries() -> Iterator[list[str]]:
    """What databases are asked meanwhile."""
    asked: list[str] = []

    def note(connection: Any, cursor: Any, statement: str, *_: Any) -> None:
        asked.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield asked
    finally:
        event.remove(Engine, "before_cursor_execute", note)


class TestSeveralTables:
    @pytest.fixture
    def both(self, lake: SmallLake) -> SmallLake:
        with_people(lake)
        with_people(lake, "crm.others")
        configured(lake, subjects={"person": {"crm.people": "email", "crm.others": "email"}})
        return lake

    def test_closed_only_when_all_are_proved(self, both: SmallLake) -> None:
        id = str(both.warden.erasure.request(subject="person", value=[VALUE]).id)
        report = both.warden.erasure.prove(id).apply()
        assert report.result["requests_closed"] == 1 and state(both, id) == "closed"
        assert len(proofs(both, id)) == 2

    def test_a_table_that_is_gone_is_told_and_closes_nothing(self, both: SmallLake) -> None:
        id = str(both.warden.erasure.request(subject="person", value=[VALUE]).id)
        both.catalog.drop_table("crm.others")

        with pytest.raises(SomeFailed, match="main.crm.others: the table .* is no longer in the catalog"):
            both.warden.erasure.prove(id).apply()

        assert state(both, id) == "open" and len(proofs(both, id)) == 1
        both.warden.erasure.prove(id, accept_missing=True).apply()
        assert state(both, id) == "closed"
        assert [proof.get("gone") for proof in proofs(both, id)][-2:] in ([None, True], [True, None])
        assert any("were not searched" in step for proof in proofs(both, id) for step in proof["method"])

    def test_one_that_is_gone_is_proved_by_a_run_that_is_resumed(self, both: SmallLake) -> None:
        id = str(both.warden.erasure.request(subject="person", value=[VALUE]).id)
        both.catalog.drop_table("crm.others")
        killing.kill(both, "action.applied", "action.applied", "erasure", "prove", id, "--accept-missing")
        killing.bury(both)
        (resumed,) = both.warden.operation.resume()
        assert (resumed.state, state(both, id)) == ("done", "closed")

    def test_a_renamed_table_is_found_by_what_it_is(self, both: SmallLake) -> None:
        id = str(both.warden.erasure.request(subject="person", value=["p4@example.org"]).id)
        both.catalog.rename_table("crm.others", "crm.renamed")
        plan = both.warden.erasure.prove(id).plan
        assert set(plan.subjects) == {"main.crm.people", "main.crm.renamed"} and plan.refused == ()


class TestResumed:
    """An operation keeps its id for days: what an earlier run of it proved is looked at again before it counts."""

    STRAY = "stray.parquet"

    def failed_on_the_second(self, lake: SmallLake, kind: str) -> tuple[str, str]:
        """The request, and an operation that proved crm.a and not crm.b, where a new file tells the value."""
        for name in ("crm.a", "crm.b"):
            with_people(lake, name)
        configured(lake, subjects={"person": {"crm.a": "email", "crm.b": "email"}})
        id = str(lake.warden.erasure.request(subject="person", value=["p8@example.org"]).id)
        actions = self.planned(lake, kind, id).plan.actions
        first, second = dict.fromkeys(action.subject.removeprefix("main.") for action in actions)
        self.first, self.stray = first, data_folder(lake, second) / self.STRAY
        pq.write_table(pa.Table.from_pylist([person(8)], schema=SCHEMA), self.stray)
        with pytest.raises(SomeFailed) as failed:
            self.planned(lake, kind, id).apply()
        assert [failure["subject"] for failure in failed.value.details["failures"]] == [f"main.{second}"]
        assert sorted(proof["clean"] for proof in proofs(lake, id)) == [False, True]
        self.stray.unlink()
        return id, str(failed.value.details["operation"])

    def planned(self, lake: SmallLake, kind: str, id: str) -> Any:
        return lake.warden.erasure.prove(id) if kind == "prove" else lake.warden.erasure.purge(request=[id])

    @pytest.mark.parametrize("kind", ["purge", *in_soak("prove")])
    def test_a_row_came_to_what_was_proved(self, lake: SmallLake, kind: str) -> None:
        id, operation = self.failed_on_the_second(lake, kind)
        lake.catalog.load_table(self.first).append(pa.Table.from_pylist([person(8)], schema=SCHEMA))

        told = " ".join(lake.run("operation", "resume", operation).stderr.split())
        result = lake.warden.operation.show(operation).result

        assert state(lake, id) == "open"
        assert f"left open: {id}, because main.{self.first} changed" in told
        assert result["requests_closed"] == 0
        assert result["left_open"] == (
            f"{id}, because main.{self.first} changed after an earlier run proved it; "
            f"lakewarden erasure purge --request {id} --apply proves it again"
        )
        again = lake.warden.erasure.purge(request=[id]).apply()
        assert again.result["requests_closed"] == 1 and "left_open" not in again.result
        assert state(lake, id) == "closed"
        emails = lake.catalog.load_table(self.first).scan().to_arrow()["email"].to_pylist()
        assert "p8@example.org" not in emails and len(emails) == 6

    @pytest.mark.parametrize("kind", ["purge", *in_soak("prove")])
    def test_nothing_came(self, lake: SmallLake, kind: str) -> None:
        id, operation = self.failed_on_the_second(lake, kind)
        lake.run("operation", "resume", operation)
        result = lake.warden.operation.show(operation).result
        assert state(lake, id) == "closed"
        assert result["requests_closed"] == 1 and "left_open" not in result

    @pytest.mark.parametrize("kind", ["purge", *in_soak("prove")])
    def test_a_table_that_others_write_to_all_the_time(self, lake: SmallLake, kind: str) -> None:
        """What came after its proof in this very run is for the watch: else such a request could never be closed."""
        for name in ("crm.a", "crm.b"):
            with_people(lake, name)
        configured(lake, subjects={"person": {"crm.a": "email", "crm.b": "email"}})
        id = str(lake.warden.erasure.request(subject="person", value=["p8@example.org"]).id)

        def append() -> None:
            for name in ("crm.a", "crm.b"):
                lake.catalog.load_table(name).append(pa.Table.from_pylist([person(9)], schema=SCHEMA))

        when("prove.recorded", append, times=2)
        report = self.planned(lake, kind, id).apply()
        assert report.result["requests_closed"] == 1 and state(lake, id) == "closed"

    def test_a_proof_that_was_made_and_not_counted_yet(self, lake: SmallLake) -> None:
        with_people(lake)
        id = request(lake, "p8@example.org")
        killed = lake.run("erasure", "prove", id, failpoints="kill@prove.recorded", check=None)
        assert killed.returncode != 0 and [proof["clean"] for proof in proofs(lake, id)] == [True]
        lake.catalog.load_table("crm.people").append(pa.Table.from_pylist([person(8)], schema=SCHEMA))
        bury(lake)
        lake.run("operation", "resume", check=None)
        assert state(lake, id) == "open"
        assert [proof["clean"] for proof in proofs(lake, id)] == [False]
        lake.warden.erasure.purge(request=[id]).apply()
        assert state(lake, id) == "closed"

    def test_the_same_plan_applied_twice_by_one_program(self, lake: SmallLake) -> None:
        for name in ("crm.a", "crm.b"):
            with_people(lake, name)
        configured(lake, subjects={"person": {"crm.a": "email", "crm.b": "email"}})
        id = str(lake.warden.erasure.request(subject="person", value=["p8@example.org"]).id)
        planned = lake.warden.erasure.prove(id)
        first, second = (table.removeprefix("main.") for table in planned.plan.subjects)
        stray = data_folder(lake, second) / self.STRAY
        pq.write_table(pa.Table.from_pylist([person(8)], schema=SCHEMA), stray)
        with pytest.raises(SomeFailed):
            planned.apply()
        stray.unlink()
        lake.catalog.load_table(first).append(pa.Table.from_pylist([person(8)], schema=SCHEMA))
        with suppress(LakewardenError):
            planned.apply()
        assert state(lake, id) == "open"


class TestVersions:
    def test_on_a_bucket_that_keeps_them(self, on_versioned_s3: SmallLake, versioned_s3: VersionedS3) -> None:
        """A proof finds what was deleted there in the plain way; a purge leaves no version with the row."""
        lake = with_people(on_versioned_s3)
        id = request(lake, "p4@example.org")
        location = lake.catalog.load_table("crm.people").metadata.location
        copy = versioned_s3.put(f"{location}/data/copy.parquet", _parquet(person(4)))
        versioned_s3.delete(copy)

        with pytest.raises(TracesLeft) as told:
            lake.warden.erasure.prove(id).apply()
        assert {True, False} == {place["live"] for place in told.value.details["places"]}
        assert copy in {place["object"] for place in told.value.details["places"] if place["version"]}

        lake.warden.erasure.purge(request=[id]).apply()

        assert state(lake, id) == "closed"
        bucket = location.removeprefix("s3://").partition("/")[0]
        assert _emails(versioned_s3, bucket) == {f"p{n}@example.org" for n in (1, 2, 3, 5)} | {None}


def _parquet(row: dict[str, Any]) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist([row], schema=SCHEMA), file)
    return file.getvalue()


def _emails(s3: VersionedS3, bucket: str) -> set[str | None]:
    """Of every version of every data file in a bucket."""
    found: set[str | None] = set()
    for page in s3.client.get_paginator("list_object_versions").paginate(Bucket=bucket):
        for one in page.get("Versions", ()):
            if one["Key"].endswith(".parquet"):
                answer = s3.client.get_object(Bucket=bucket, Key=one["Key"], VersionId=one["VersionId"])
                found |= set(pq.read_table(io.BytesIO(answer["Body"].read()))["email"].to_pylist())
    return found


class TestRefused:
    def test_closed_and_withdrawn(self, lake: SmallLake) -> None:
        with_people(lake)
        closed, withdrawn = request(lake, VALUE), request(lake, "p1@example.org")
        lake.warden.erasure.prove(closed).apply()
        lake.run("erasure", "withdraw", withdrawn)
        with pytest.raises(Conflict, match="already closed") as told:
            lake.warden.erasure.prove(closed).apply()
        assert "lakewarden erasure watch" in told.value.hint and "values were deleted" in told.value.hint
        with pytest.raises(Conflict, match="already withdrawn"):
            lake.warden.erasure.prove(withdrawn).apply()

    def test_unknown(self, lake: SmallLake) -> None:
        with pytest.raises(NotFound, match="no erasure request er-none"):
            lake.warden.erasure.prove("er-none").apply()


class TestKilled:
    @pytest.mark.parametrize("point", ["prove.recorded", "prove.closed"])
    def test_resumed_ends_closed(self, lake: SmallLake, point: str) -> None:
        with_people(lake)
        id = request(lake, VALUE)
        killed = lake.run("erasure", "prove", id, failpoints=f"kill@{point}", check=None)
        assert killed.returncode != 0
        bury(lake)
        lake.run("operation", "resume")
        assert state(lake, id) == "closed"
        assert len(proofs(lake, id)) == 1
