"""`erasure withdraw`: what was hidden is seen again, by everyone, and the values are forgotten.

Covers `features/erasure/hidden/revealing.py`.
"""

from __future__ import annotations

import sqlite3
import zlib
from typing import Any

import pytest
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.transforms import IdentityTransform

from lakewarden.errors import Conflict, Interrupted, LakewardenError, LeaseHeld, NotFound, StalePlan
from lakewarden.features.erasure.withdraw import hiding_refs
from lakewarden.lifecycle.failpoints import when
from lakewarden.records.erasure import Evidence, EvidenceKind
from tests import killing
from tests.cases import in_soak
from tests.deletes_by_hand import commit_deletes
from tests.engine.cleansed import People, local
from tests.features.erasure.people import SCHEMA, configured, ids, with_people
from tests.features.erasure.seen import append, seen
from tests.small_lake import SmallLake


def test_rows_are_back_exactly(any_lake: SmallLake) -> None:
    lake = with_people(any_lake)
    before = lake.warden.version.read("crm.people", limit=100)
    asked = lake.warden.erasure.request("crm.people", key="id", value=["1", "4"])
    other = lake.warden.erasure.request("crm.people", key="id", value=["4"])
    assert lake.warden.erasure.withdraw(asked.id).apply().result["requests_withdrawn"] == 1
    assert lake.warden.erasure.show(asked.id).state == "withdrawn"
    assert ids(lake) == [0, 1, 2, 3, 5]
    lake.warden.erasure.withdraw(other.id).apply()
    assert lake.warden.version.read("crm.people", limit=100) == before


def test_the_values_leave_the_control_database(lake: SmallLake) -> None:
    with_people(lake)
    asked = lake.warden.erasure.request("crm.people", key="email", value=["p1@example.org"])
    packed = zlib.compress(b'["p1@example.org"]', level=1)
    assert any(packed in file.read_bytes() for file in lake.folder.glob("lakewarden.db*"))
    lake.warden.erasure.withdraw(asked.id).apply()
    with sqlite3.connect(lake.folder / "lakewarden.db") as database:
        rows = database.execute("SELECT packed, length(digests) FROM tombstones").fetchall()
    assert rows == [(None, 32)]
    files = list(lake.folder.glob("lakewarden.db*"))
    assert files and not any(packed in file.read_bytes() or b"p1@" in file.read_bytes() for file in files)


def test_only_once(lake: SmallLake) -> None:
    with_people(lake)
    asked = lake.warden.erasure.request("crm.people", key="id", value=["1"])
    lake.warden.erasure.withdraw(asked.id).apply()
    with pytest.raises(Conflict, match="is already withdrawn"):
        lake.warden.erasure.withdraw(asked.id)
    with pytest.raises(NotFound):
        lake.warden.erasure.withdraw("er-1")


def test_it_acts_at_once_on_the_command_line(lake: SmallLake) -> None:
    with_people(lake)
    asked = lake.warden.erasure.request("crm.people", key="id", value=["1"])
    lake.run("erasure", "withdraw", asked.id)
    assert ids(lake) == [0, 1, 2, 3, 4, 5]


class TestHiddenFromEveryEngine:
    def test_only_the_rows_of_that_request_come_back(self, any_lake: SmallLake) -> None:
        lake = with_people(any_lake)
        lake.warden.version.branch("crm.people", "dev").apply()
        one = lake.warden.erasure.request("crm.people", key="id", value=["1", "4"])
        two = lake.warden.erasure.request("crm.people", key="email", value=["p4@example.org", "p5@example.org"])
        lake.warden.erasure.hide("crm.people").apply()
        append(lake, 6)
        assert seen(lake) == [0, 2, 3, 6]
        planned = lake.warden.erasure.withdraw(one.id)
        assert [action.verb for action in planned.plan.actions] == ["reveal", "withdraw"]
        assert "branches dev, main" in planned.plan.actions[0].says
        assert planned.plan.warnings == ()
        planned.apply()
        assert seen(lake) == [0, 1, 2, 3, 6] and seen(lake, "dev") == [0, 1, 2, 3]
        assert ids(lake) == [0, 1, 2, 3, 6]
        lake.warden.erasure.withdraw(two.id).apply()
        assert seen(lake) == [0, 1, 2, 3, 4, 5, 6] and seen(lake, "dev") == [0, 1, 2, 3, 4, 5]

    def test_in_all_tables_of_a_subject(self, lake: SmallLake) -> None:
        for name in ("crm.people", "web.people"):
            with_people(lake, name)
        configured(lake, subjects={"customer": {"crm.people": "email", "web.people": "email"}})
        asked = lake.warden.erasure.request(subject="customer", value=["p3@example.org"])
        lake.warden.erasure.hide(request=[asked.id]).apply()
        assert seen(lake, name="crm.people") == seen(lake, name="web.people") == [0, 1, 2, 4, 5]
        planned = lake.warden.erasure.withdraw(asked.id)
        assert "from main.crm.people, main.web.people" in planned.plan.actions[-1].says
        planned.apply()
        assert seen(lake, name="crm.people") == seen(lake, name="web.people") == [0, 1, 2, 3, 4, 5]
        assert lake.warden.erasure.show(asked.id).state == "withdrawn"

    def test_one_table_that_fails_leaves_the_request_open(self, lake: SmallLake) -> None:
        for name in ("crm.people", "web.people"):
            with_people(lake, name)
        configured(lake, subjects={"customer": {"crm.people": "email", "web.people": "email"}})
        asked = lake.warden.erasure.request(subject="customer", value=["p3@example.org"])
        lake.warden.erasure.hide(request=[asked.id]).apply()
        planned = lake.warden.erasure.withdraw(asked.id)
        first = lake.catalog.load_table("crm.people")
        key, timeout = f"table:{first.metadata.table_uuid}", lake.warden.runner().lease_timeout
        lake.warden.ground.leases.acquire(key, "crm.people", "op-1", "elsewhere", timeout)
        with pytest.raises(LakewardenError):
            planned.apply()
        assert lake.warden.erasure.show(asked.id).state == "open"
        assert (seen(lake, name="crm.people"), seen(lake, name="web.people")) == ([0, 1, 2, 4, 5], [0, 1, 2, 3, 4, 5])

    @pytest.mark.parametrize(
        "point", ["commit.landed", "withdraw.revealed", *in_soak("action.applied", "action.journaled")]
    )
    def test_killed_anywhere_a_second_one_finishes(self, lake: SmallLake, point: str) -> None:
        with_people(lake)
        lake.warden.version.branch("crm.people", "dev").apply()
        asked = lake.warden.erasure.request("crm.people", key="id", value=["1", "4"])
        lake.warden.erasure.hide("crm.people").apply()
        killing.kill(lake, point, point, "erasure", "withdraw", asked.id)
        killing.bury(lake)
        killing.run(lake, "erasure", "withdraw", asked.id)
        assert seen(lake) == seen(lake, "dev") == ids(lake) == [0, 1, 2, 3, 4, 5]
        assert lake.warden.erasure.show(asked.id).state == "withdrawn"

    def test_rows_that_are_hidden_in_another_table_in_the_very_moment(self, lake: SmallLake) -> None:
        for name in ("crm.people", "web.people"):
            with_people(lake, name)
        configured(lake, subjects={"customer": {"crm.people": "email", "web.people": "email"}})
        asked = lake.warden.erasure.request(subject="customer", value=["p3@example.org"])

        when("withdraw.revealed", lambda: lake.warden.erasure.hide("web.people").apply())
        with pytest.raises(StalePlan, match="still hidden in main.web.people, or hidden again") as caught:
            lake.warden.erasure.withdraw(asked.id).apply()
        assert "It is withdrawn. Withdraw it again" in caught.value.hint
        lake.warden.erasure.withdraw(asked.id).apply()
        assert seen(lake, name="web.people") == [0, 1, 2, 3, 4, 5]

    def test_nobody_hides_rows_of_its_table_meanwhile(self, lake: SmallLake) -> None:
        with_people(lake)
        asked = lake.warden.erasure.request("crm.people", key="id", value=["1"])
        planned = lake.warden.erasure.hide("crm.people")

        def hide() -> None:
            with pytest.raises(LeaseHeld):
                planned.apply()

        when("withdraw.revealed", hide)
        lake.warden.erasure.withdraw(asked.id).apply()
        assert seen(lake) == [0, 1, 2, 3, 4, 5]

    def test_a_withdrawn_request_whose_rows_are_hidden_still_is_taken_up(self, lake: SmallLake) -> None:
        with_people(lake)
        asked = lake.warden.erasure.request("crm.people", key="id", value=["1"])
        lake.warden.erasure.hide("crm.people").apply()
        hidden = lake.head("crm.people")
        lake.warden.erasure.withdraw(asked.id).apply()
        with lake.catalog.load_table("crm.people").manage_snapshots() as change:
            change.rollback_to_snapshot(hidden)
        assert seen(lake) == [0, 2, 3, 4, 5]
        planned = lake.warden.erasure.withdraw(asked.id)
        assert [action.verb for action in planned.plan.actions] == ["reveal"]
        planned.apply()
        assert seen(lake) == [0, 1, 2, 3, 4, 5]


def test_what_a_purge_for_somebody_else_leaves_comes_back_exactly(lake: SmallLake) -> None:
    """Files are written anew by it, and deletes that hide other rows in them go along."""
    with_people(lake)
    lake.warden.version.branch("crm.people", "dev").apply()
    before = {row["id"]: row for row in lake.warden.version.read("crm.people", limit=100)}
    kept = lake.warden.erasure.request("crm.people", key="id", value=["1", "2", "5"])
    gone = lake.warden.erasure.request("crm.people", key="id", value=["0", "2", "4"])
    lake.warden.erasure.hide("crm.people").apply()
    lake.warden.erasure.purge(request=[gone.id]).apply()
    assert lake.warden.erasure.show(gone.id).state == "closed"
    assert seen(lake) == seen(lake, "dev") == [3]
    planned = lake.warden.erasure.withdraw(kept.id)
    assert not [note for note in planned.plan.warnings if "come back" in note]
    planned.apply()
    assert seen(lake) == seen(lake, "dev") == [1, 3, 5]
    after = {row["id"]: row for row in lake.warden.version.read("crm.people", limit=100)}
    assert after == {n: before[n] for n in (1, 3, 5)}


class TestWhatDoesNotComeBack:
    def test_a_file_that_others_wrote_anew(self, lake: SmallLake) -> None:
        with_people(lake)
        lake.warden.version.branch("crm.people", "dev").apply()
        asked = lake.warden.erasure.request("crm.people", key="id", value=["1", "4"])
        lake.warden.erasure.hide("crm.people").apply()
        hidden = lake.head("crm.people")
        lake.catalog.load_table("crm.people").delete("id = 2")  # it writes the file anew, without what is masked
        rewritten = lake.head("crm.people")
        planned = lake.warden.erasure.withdraw(asked.id)
        (note,) = planned.plan.warnings
        assert f"1 row on branch main does not come back: snapshot {rewritten} (overwrite)" in note
        assert f"snapshot {hidden} still has them" in note
        planned.apply()
        assert seen(lake) == [0, 3, 4, 5] and seen(lake, "dev") == [0, 1, 2, 3, 4, 5]

    @pytest.mark.parametrize("content", [None, b"damaged"], ids=["missing", "damaged"])
    def test_deletes_of_others_that_cannot_be_read_are_told_and_hinder_nothing(
        self, lake: SmallLake, content: bytes | None
    ) -> None:
        lake.catalog.create_namespace("crm")
        table = lake.catalog.create_table("crm.people", SCHEMA)
        with table.update_spec() as spec:
            spec.add_field("email", IdentityTransform(), "mail")
        append(lake, 1, 2)
        asked = lake.warden.erasure.request("crm.people", key="email", value=["p1@example.org"])
        lake.warden.erasure.hide("crm.people").apply()

        people = People(lake.warden)
        (data,) = (file for file in people.files().data if "mail=p1" in file.path)
        deletes = DataFile.from_args(
            3,
            content=DataFileContent.POSITION_DELETES,
            file_path=data.path.replace(".parquet", "-deletes.parquet"),
            file_format=FileFormat.PARQUET,
            partition=data.record,
            record_count=1,
            file_size_in_bytes=16,
        )
        deletes.spec_id = data.partition[0]
        commit_deletes(people.table, deletes)
        if content is not None:
            local(deletes.file_path).write_bytes(content)

        planned = lake.warden.erasure.withdraw(asked.id)
        (note,) = planned.plan.warnings
        assert "main.crm.people: it is unknown whether all rows come back on branch main: " in note
        assert "/mail=*/" in note and "p1" not in note
        planned.apply()
        assert lake.warden.erasure.show(asked.id).state == "withdrawn"

    def test_a_branch_that_went_back_has_lost_nothing(self, lake: SmallLake) -> None:
        with_people(lake)
        before = lake.head("crm.people")
        asked = lake.warden.erasure.request("crm.people", key="id", value=["1"])
        lake.warden.erasure.hide("crm.people").apply()
        with lake.catalog.load_table("crm.people").manage_snapshots() as change:
            change.rollback_to_snapshot(before)
        planned = lake.warden.erasure.withdraw(asked.id)
        assert [action.verb for action in planned.plan.actions] == ["withdraw"]
        assert not any("come back" in note for note in planned.plan.warnings)
        planned.apply()
        assert seen(lake) == [0, 1, 2, 3, 4, 5]

    def test_tags_that_were_made_meanwhile(self, lake: SmallLake) -> None:
        with_people(lake)
        asked = lake.warden.erasure.request("crm.people", key="id", value=["1"])
        lake.warden.erasure.hide("crm.people").apply()
        lake.warden.version.tag("crm.people", "v1").apply()
        planned = lake.warden.erasure.withdraw(asked.id)
        warning = "main.crm.people: tags created while the rows were hidden still hide them: v1"
        assert planned.plan.warnings == (warning,)
        planned.apply()
        assert seen(lake, "v1") == [0, 2, 3, 4, 5] and seen(lake) == [0, 1, 2, 3, 4, 5]

    def test_a_table_that_is_gone(self, lake: SmallLake) -> None:
        with_people(lake)
        asked = lake.warden.erasure.request("crm.people", key="id", value=["1"])
        lake.catalog.drop_table("crm.people")
        planned = lake.warden.erasure.withdraw(asked.id)
        assert planned.plan.warnings == ("main.crm.people no longer exists: none of its rows come back",)
        when("action.applied", _interrupt)
        with pytest.raises(Interrupted):
            planned.apply()
        (resumed,) = lake.warden.operation.resume()
        assert (resumed.state, lake.warden.erasure.show(asked.id).state) == ("done", "withdrawn")

    def test_after_a_purge_it_is_refused(self, lake: SmallLake) -> None:
        with_people(lake)
        asked = lake.warden.erasure.request("crm.people", key="id", value=["1"])
        uuid = str(lake.catalog.load_table("crm.people").metadata.table_uuid)
        now, some = lake.warden.ground.clock(), {"files": [{"path": "x", "bytes": 1}]}

        def purged(document: dict[str, Any]) -> None:
            lake.warden.ground.state.erasure.record(
                Evidence(EvidenceKind.PURGED, "main.crm.people", uuid, "op-1", "a", now, (asked.id,), document)
            )

        purged({"files": []})  # nothing was found to erase
        assert lake.warden.erasure.withdraw(asked.id).plan.actions
        purged(some)
        with pytest.raises(Conflict, match=r"already erased from main.crm.people"):
            lake.warden.erasure.withdraw(asked.id)

    def test_a_purge_that_has_begun(self, lake: SmallLake) -> None:
        with_people(lake)
        asked = lake.warden.erasure.request("crm.people", key="id", value=["1"])
        table = lake.catalog.load_table("crm.people")
        now, uuid = lake.warden.ground.clock(), str(table.metadata.table_uuid)

        def intended(*snapshots: int) -> None:
            document = {"snapshots": list(snapshots), "dirty": list(snapshots), "files": []}
            lake.warden.ground.state.erasure.record(
                Evidence(EvidenceKind.INTENT, "main.crm.people", uuid, "op-1", "a", now, (asked.id,), document)
            )

        intended(lake.head("crm.people"))  # its commit has not landed
        assert lake.warden.erasure.withdraw(asked.id).plan.actions
        intended(123)
        with pytest.raises(Conflict, match="a purge has started") as caught:
            lake.warden.erasure.withdraw(asked.id)
        assert "operation resume op-1" in caught.value.hint


class TestBesidePurges:
    """A request's rows are erased, or they come back: never does it end as withdrawn with rows gone."""

    def test_refused_where_a_purge_landed_and_versions_without_such_rows_stayed(self, lake: SmallLake) -> None:
        with_people(lake)
        first = lake.catalog.load_table("crm.people").metadata.snapshots[0].snapshot_id
        asked = lake.warden.erasure.request("crm.people", key="email", value=["p4@example.org"])
        killing.kill(lake, "purge.committed", "purge.committed", "erasure", "purge", "crm.people", "--apply")
        assert lake.catalog.load_table("crm.people").snapshot_by_id(first) is not None
        (begun,) = lake.warden.operation.list(kind="erasure.purge")
        with pytest.raises(Conflict, match=f"operation {begun.id} is about to erase rows of request {asked.id}"):
            lake.warden.erasure.withdraw(asked.id)  # for all that is known it lives
        killing.bury(lake)
        with pytest.raises(Conflict, match="a purge has started to erase rows") as caught:
            lake.warden.erasure.withdraw(asked.id)
        assert f"operation resume {begun.id}" in caught.value.hint
        lake.warden.operation.resume(begun.id)
        assert lake.warden.erasure.show(asked.id).state == "closed"

    def test_a_purge_that_never_landed_is_no_hindrance(self, lake: SmallLake) -> None:
        with_people(lake)
        asked = lake.warden.erasure.request("crm.people", key="email", value=["p4@example.org"])
        killing.kill(lake, "purge.intended", "purge.intended", "erasure", "purge", "crm.people", "--apply")
        (begun,) = lake.warden.operation.list(kind="erasure.purge")
        with pytest.raises(Conflict, match="is about to erase rows"):
            lake.warden.erasure.withdraw(asked.id)
        killing.bury(lake)
        lake.warden.erasure.withdraw(asked.id).apply()
        assert lake.warden.erasure.show(asked.id).state == "withdrawn"
        with pytest.raises(LakewardenError, match=f"request {asked.id} is withdrawn"):
            lake.warden.operation.resume(begun.id)
        assert seen(lake) == ids(lake) == [0, 1, 2, 3, 4, 5]
        assert lake.warden.ground.state.erasure.evidence([EvidenceKind.INTENT]) == []

    def test_withdrawn_before_a_purge_of_another_table_commits(self, any_lake: SmallLake) -> None:
        lake = any_lake
        asked = self.asked_in_two_tables(lake)
        when("purge.rewritten", lambda: lake.warden.erasure.withdraw(asked).apply())
        with pytest.raises(StalePlan, match=f"request {asked} is withdrawn"):
            lake.warden.erasure.purge("web.people").apply()
        assert lake.warden.erasure.show(asked).state == "withdrawn"
        assert seen(lake, name="crm.people") == seen(lake, name="web.people") == [0, 1, 2, 3, 4, 5]

    def test_refused_while_a_purge_of_another_table_commits(self, any_lake: SmallLake) -> None:
        lake = any_lake
        asked = self.asked_in_two_tables(lake)
        planned = lake.warden.erasure.withdraw(asked)

        def withdraw() -> None:
            with pytest.raises(Conflict, match="is about to erase rows"):
                planned.apply()

        when("purge.intended", withdraw)
        lake.warden.erasure.purge("web.people").apply()
        assert lake.warden.erasure.show(asked).state == "open"
        assert (seen(lake, name="crm.people"), seen(lake, name="web.people")) == ([0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 5])

    def test_refused_where_a_purge_came_in_the_very_moment(self, any_lake: SmallLake) -> None:
        lake = any_lake
        asked = self.asked_in_two_tables(lake)
        when("withdraw.revealed", lambda: lake.warden.erasure.purge("web.people").apply())
        with pytest.raises(Conflict, match="a purge is erasing rows of request .* in main.web.people, or has just"):
            lake.warden.erasure.withdraw(asked).apply()
        assert lake.warden.erasure.show(asked).state == "open"
        lake.warden.erasure.purge(request=[asked]).apply()
        assert lake.warden.erasure.show(asked).state == "closed"

    def asked_in_two_tables(self, lake: SmallLake) -> str:
        for name in ("crm.people", "web.people"):
            with_people(lake, name)
        configured(lake, subjects={"customer": {"crm.people": "email", "web.people": "email"}})
        return str(lake.warden.erasure.request(subject="customer", value=["p4@example.org"]).id)


def test_names_of_masks_are_found_on_every_branch(lake: SmallLake) -> None:
    with_people(lake)
    asked = lake.warden.erasure.request("crm.people", key="id", value=["1", "4"])
    lake.warden.erasure.hide("crm.people").apply()
    ground, table = lake.warden.ground, lake.catalog.load_table("crm.people")
    assert hiding_refs(ground, table, asked.id, "branch") == ["main"]
    assert hiding_refs(ground, table, asked.id, "tag") == []
    assert hiding_refs(ground, table, "er-1", "branch") == []


def _interrupt() -> None:
    raise KeyboardInterrupt
