"""`orphan find`.

Covers `features/orphan/unfinished.py`.
"""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from lakewarden import Warden
from lakewarden.errors import BadValue, DeletionForbidden
from lakewarden.features.orphan.judgement import is_hidden, kind_of
from lakewarden.lifecycle.action import Action
from lakewarden.lifecycle.journal import Record
from lakewarden.lifecycle.plan import Plan
from lakewarden.lifecycle.states import State
from tests.features.orphan.orphans import age, age_all, contents, folder, plant, set_property
from tests.small_lake import ANY_FORMAT, SCHEMA, SmallLake


def names(lake: SmallLake, **asked: Any) -> list[str]:
    """The orphans that are found, below the table's location."""
    top = f"file://{folder(lake)}/"
    return [row.path.removeprefix(top) for row in lake.warden.orphan.find("sales.orders", files=True, **asked)]


@ANY_FORMAT
def test_of_a_table_that_nobody_disturbed_nothing_is_an_orphan(orders: SmallLake) -> None:
    age_all(orders)
    (row,) = orders.warden.orphan.find("sales.orders")
    assert (row.orphans, row.bytes, row.oldest, row.next) == (0, 0, None, "")
    assert (row.kept_recent, row.kept_unknown_age, row.kept_in_use) == (0, 0, 0)


def test_what_nothing_leads_to_is_found_and_nothing_else(lake: SmallLake) -> None:
    lake.create()
    age_all(lake)
    planted = ["data/a.parquet", "data/city=Bern/b.parquet", "metadata/snap-1.avro", "metadata/m0.avro", "x/y/z"]
    plant(lake, *planted)
    before = contents(lake)

    assert names(lake) == sorted(planted)
    (row,) = lake.warden.orphan.find("sales.orders")
    assert (row.orphans, row.bytes) == (5, 25)
    assert row.oldest is not None and abs(row.oldest - (datetime.now(UTC) - timedelta(days=10))) < timedelta(minutes=5)
    assert row.next == "lakewarden orphan quarantine main.sales.orders"
    assert contents(lake) == before


def test_what_tags_branches_and_old_versions_need_is_none(lake: SmallLake) -> None:
    lake.create()
    oldest = lake.warden.version.list("sales.orders")[-1].snapshot_id
    lake.warden.version.branch("sales.orders", "try").apply()
    lake.warden.version.rollback(f"sales.orders@{oldest}").apply()
    lake.catalog.load_table("sales.orders").delete("id = 0")
    age_all(lake)
    assert names(lake) == []


class TestAge:
    def test_older_than_three_days_unless_said_otherwise(self, lake: SmallLake) -> None:
        lake.create()
        plant(lake, "data/old", days=3.1)
        plant(lake, "data/young", days=2.9)
        assert names(lake) == ["data/old"]
        assert lake.warden.orphan.find("sales.orders")[0].kept_recent == 1
        assert names(lake, older_than="2d") == ["data/old", "data/young"]
        assert names(lake, older_than="4d") == []

    def test_never_younger_than_a_day_unless_that_is_said_too(self, lake: SmallLake) -> None:
        lake.create()
        plant(lake, "data/new", days=0.1)
        with pytest.raises(BadValue, match="the minimum is 24h"):
            lake.warden.orphan.find("sales.orders", older_than="23h")
        with pytest.raises(BadValue, match="--even-recent requires --older-than"):
            lake.warden.orphan.find("sales.orders", even_recent=True)
        assert names(lake, older_than="1h", even_recent=True) == ["data/new"]
        (row,) = lake.warden.orphan.find("sales.orders", older_than="1h", even_recent=True)
        assert row.next.endswith("quarantine main.sales.orders --older-than 1h --even-recent")

    def test_the_configuration_says_what_is_old_but_never_less_than_a_day(self, lake: SmallLake) -> None:
        lake.create()
        plant(lake, "data/old", days=1.5)
        plant(lake, "data/young", days=0.5)
        config = lake.folder / "lakewarden.yaml"
        settings = yaml.safe_load(config.read_text())
        settings["defaults"] = {"orphans": {"older_than": "1h"}}
        config.write_text(yaml.safe_dump(settings))
        with Warden.open(lake.folder) as warden:
            assert [Path(row.path).name for row in warden.orphan.find("sales.orders", files=True)] == ["old"]

    def test_unknown_age_is_kept(self, lake: SmallLake, monkeypatch: pytest.MonkeyPatch) -> None:
        """Some storage does not tell when a file was written."""
        lake.create()
        plant(lake, "data/ageless")
        stored = lake.warden.ground.storage("main")
        walk: Callable[..., Any] = stored.walk
        monkeypatch.setattr(lake.warden.ground, "storage", lambda name: stored)
        monkeypatch.setattr(stored, "walk", lambda *a, **more: (replace(f, modified_at=None) for f in walk(*a, **more)))
        (row,) = lake.warden.orphan.find("sales.orders")
        assert (row.orphans, row.kept_unknown_age) == (0, 1)


class TestNames:
    def test_a_version_hint_is_none(self, lake: SmallLake) -> None:
        lake.create()
        plant(lake, "metadata/version-hint.text", "metadata/.version-hint.text.crc")
        assert names(lake) == []

    def test_hidden_files_are_left_alone(self, lake: SmallLake) -> None:
        lake.create()
        plant(lake, "_SUCCESS", "data/_temporary/0/a", ".hidden", "data/.staging/b", "_lakewarden/quarantine/x/files/c")
        plant(lake, "data/_source=web/d.parquet")
        assert names(lake) == ["data/_source=web/d.parquet"]

    def test_a_checksum_goes_where_its_file_goes(self, lake: SmallLake) -> None:
        lake.create()
        age_all(lake)
        live = next((folder(lake) / "data").glob("*.parquet")).name
        plant(lake, f"data/.{live}.crc", "data/gone.parquet", "data/.gone.parquet.crc", "data/.left.parquet.crc")
        assert names(lake) == ["data/.gone.parquet.crc", "data/.left.parquet.crc", "data/gone.parquet"]

    def test_the_same_file_by_another_spelling_is_none(self, lake: SmallLake) -> None:
        """A writer that names local files `file:/x` or `/x` instead of `file:///x`."""
        lake.create()
        table = lake.catalog.load_table("sales.orders")
        copies = []
        for number, scheme in enumerate(("file:", "")):
            source = next((folder(lake) / "data").glob("*.parquet"))
            copy = folder(lake) / f"data/copy-{number}.parquet"
            shutil.copy(source, copy)
            copies.append(f"{scheme}{copy}")
        table.add_files(copies, check_duplicate_files=False)
        age_all(lake)
        assert names(lake) == []

    @pytest.mark.parametrize(
        ("name", "kind"),
        [
            ("metadata/00001-x.metadata.json", "metadata"),
            ("metadata/00001-x.gz.metadata.json", "metadata"),
            ("metadata/snap-1-2.avro", "manifest-list"),
            ("metadata/x-m0.avro", "manifest"),
            ("metadata/x.stats", "statistics"),
            ("data/x-deletes.puffin", "deletes"),
            ("data/x.avro", "data"),
            ("data/.x.parquet.crc", "data"),
        ],
    )
    def test_kinds(self, name: str, kind: str) -> None:
        assert kind_of(f"file:///lake/t/{name}") == kind

    def test_hidden(self) -> None:
        assert is_hidden("_x/a") and is_hidden("data/.x") and is_hidden("_x")
        assert not is_hidden("data/_x=1/a") and not is_hidden("data/.a.crc") and not is_hidden("a_b/.c=1/d")


class TestOtherTables:
    def test_another_tables_metadata_below_it_is_refused(self, lake: SmallLake, tmp_path: Path) -> None:
        """A table of another catalog, of which this lake knows nothing."""
        lake.create()
        with SmallLake(tmp_path / "other") as other:
            other.create("web.events", appends=1)
            shutil.copytree(folder(other, "web.events"), folder(lake) / "data/events")
        with pytest.raises(DeletionForbidden, match="the metadata of another table lies under its location") as refused:
            lake.warden.orphan.find("sales.orders")
        assert "data/events/metadata/" in refused.value.message

    @pytest.mark.parametrize("name", ["v3.gz.metadata.json", "00003-x.metadata.json.gz"])
    def test_a_compressed_one_too(self, lake: SmallLake, name: str) -> None:
        lake.create()
        foreign = json.dumps({"format-version": 2, "location": "x" * 10**6, "table-uuid": "another"})
        (folder(lake) / "metadata" / name).write_bytes(gzip.compress(foreign.encode()))
        with pytest.raises(DeletionForbidden, match="another table.*(another)"):
            lake.warden.orphan.find("sales.orders")

    def test_one_that_cannot_be_read_too_but_an_empty_one_is_nobodys(self, lake: SmallLake) -> None:
        lake.create()
        plant(lake, "metadata/00009-empty.metadata.json", content="")
        assert names(lake) == ["metadata/00009-empty.metadata.json"]
        plant(lake, "metadata/00010-torn.metadata.json", content='{"format-ver')
        with pytest.raises(DeletionForbidden, match="00010-torn.metadata.json .not readable"):
            lake.warden.orphan.find("sales.orders")

    def test_its_own_metadata_that_nothing_names_is_an_orphan_like_any_other(self, lake: SmallLake) -> None:
        """What a lost race leaves, and what has left the log; also as the oldest versions of Iceberg wrote it."""
        lake.create()
        current = max((folder(lake) / "metadata").glob("*.metadata.json"))
        lost = json.loads(current.read_text())
        plant(lake, "metadata/00009-lost.metadata.json", content=json.dumps(lost))
        plant(lake, "metadata/00010-torn.metadata.json", content=json.dumps(lost)[:400])
        lost.pop("table-uuid")
        plant(lake, "metadata/00000-ancient.metadata.json", content=json.dumps(lost))
        found = names(lake)
        assert [Path(name).name.split("-")[1] for name in found] == [
            "ancient.metadata.json",
            "lost.metadata.json",
            "torn.metadata.json",
        ]

    @pytest.mark.parametrize("place", ["{location}", "{location}/data", "{location}/sub/table"])
    def test_another_table_of_the_catalog_at_or_below_its_place(self, lake: SmallLake, place: str) -> None:
        lake.create()
        where = place.format(location=lake.catalog.load_table("sales.orders").metadata.location)
        lake.catalog.create_table("sales.lodger", SCHEMA, location=where)
        for name, other in (("sales.orders", "sales.lodger"), ("sales.lodger", "sales.orders")):
            with pytest.raises(DeletionForbidden, match=f"main.{name} shares its location with main.{other}"):
                lake.warden.orphan.find(name)

    def test_two_tables_that_write_to_one_folder(self, lake: SmallLake) -> None:
        lake.create("sales.a")
        lake.create("sales.b")
        for name in ("sales.a", "sales.b"):
            set_property(lake, "write.data.path", f"file://{lake.folder}/shared", name)
        rows = lake.warden.orphan.find(namespace="sales")
        assert [bool(row.problem) for row in rows] == [True, True]

    def test_a_name_that_begins_alike_is_no_neighbour(self, lake: SmallLake) -> None:
        lake.create("sales.orders")
        lake.create("sales.orders2")
        assert [row.problem for row in lake.warden.orphan.find(namespace="sales")] == ["", ""]

    def test_one_table_under_two_names(self, lake: SmallLake) -> None:
        lake.create()
        lake.catalog.register_table("sales.twin", lake.catalog.load_table("sales.orders").metadata_location)
        with pytest.raises(DeletionForbidden, match="shares its location with main.sales.twin"):
            lake.warden.orphan.find("sales.orders")


class TestPlaces:
    def test_folders_that_properties_name_are_looked_at_too(self, lake: SmallLake) -> None:
        lake.create()
        elsewhere = lake.folder / "elsewhere"
        set_property(lake, "write.data.path", f"file://{elsewhere}")
        lake.append()
        plant(lake, "data/here")
        (elsewhere / "there").write_text("x")
        age(elsewhere / "there", 10)
        found = [Path(row.path).name for row in lake.warden.orphan.find("sales.orders", files=True)]
        assert found == ["there", "here"] or found == ["here", "there"]

    def test_a_place_that_metadata_spells_in_another_way_is_refused(self, lake: SmallLake) -> None:
        """Through a link every file has another path: all would look like orphans."""
        lake.create()
        table = lake.catalog.load_table("sales.orders")
        link = lake.folder / "link"
        link.symlink_to(folder(lake))
        age_all(lake)
        metadata = json.loads(Path(table.metadata_location.removeprefix("file://")).read_text())
        metadata["location"] = f"file://{link}"
        moved = folder(lake) / "metadata/00009-moved.metadata.json"
        moved.write_text(json.dumps(metadata))
        lake.catalog.drop_table("sales.orders")
        lake.catalog.register_table("sales.orders", f"file://{moved}")
        with pytest.raises(DeletionForbidden, match="its metadata references none of the .* files at .*link"):
            lake.warden.orphan.find("sales.orders")

    def test_a_folder_that_only_holds_what_is_being_written_is_fine(self, lake: SmallLake) -> None:
        lake.create()
        elsewhere = lake.folder / "elsewhere"
        elsewhere.mkdir()
        set_property(lake, "write.data.path", f"file://{elsewhere}")
        (elsewhere / "not committed yet").write_text("x")
        (row,) = lake.warden.orphan.find("sales.orders")
        assert (row.orphans, row.kept_recent) == (0, 1)
        age(elsewhere / "not committed yet", 10)
        with pytest.raises(DeletionForbidden, match="none of the 1 files at .*elsewhere"):
            lake.warden.orphan.find("sales.orders")

    def test_gc_enabled_false_is_refused(self, lake: SmallLake) -> None:
        lake.create()
        set_property(lake, "gc.enabled", "false")
        with pytest.raises(DeletionForbidden, match="gc.enabled=false") as refused:
            lake.warden.orphan.find("sales.orders")
        assert "gc.enabled to true" in refused.value.hint


class TestOperationsUnderWay:
    def operation(self, lake: SmallLake, state: State, id: str = "op-20261101-101112-ab12cd") -> str:
        """An operation in the journal, in this state."""
        now, plan = (
            datetime.now(UTC),
            Plan("version.tag", "t", (Action("tag", "main.sales.orders", "main.sales.orders", "tag", {}),)),
        )
        journal = lake.warden.ground.journal
        journal.add(Record.planned(id, plan, "{}", "somebody", now))
        for step in {
            State.RUNNING: [State.RUNNING],
            State.PAUSED: [State.RUNNING, State.PAUSED],
            State.VERIFYING: [State.RUNNING, State.VERIFYING],
            State.DONE: [State.RUNNING, State.VERIFYING, State.DONE],
            State.FAILED: [State.RUNNING, State.FAILED],
            State.CANCELLED: [State.CANCELLED],
        }[state]:
            journal.move(id, step, now)
        return f"data/lw-{id}-{plan.actions[0].id}/00001-x.parquet"

    @pytest.mark.parametrize("state", [State.RUNNING, State.VERIFYING, State.PAUSED])
    def test_its_files_are_kept_however_old(self, lake: SmallLake, state: State) -> None:
        lake.create()
        plant(lake, self.operation(lake, state), days=100)
        (row,) = lake.warden.orphan.find("sales.orders")
        assert (row.orphans, row.kept_in_use) == (0, 1)

    @pytest.mark.parametrize("state", [State.DONE, State.FAILED, State.CANCELLED])
    def test_those_of_one_that_has_ended_are_orphans(self, lake: SmallLake, state: State) -> None:
        lake.create()
        left = self.operation(lake, state)
        plant(lake, left)
        assert names(lake) == [left]

    def test_of_an_operation_that_nobody_knows_only_recent_files_are_kept(self, lake: SmallLake) -> None:
        lake.create()
        strange = "metadata/lw-op-20261101-000000-ffffff-0123456789ab-m0.avro"
        plant(lake, strange, days=2.5)
        (row,) = lake.warden.orphan.find("sales.orders", older_than="2d")
        assert (row.orphans, row.kept_in_use) == (0, 1)
        plant(lake, strange, days=3.5)
        assert names(lake) == [strange]

    def test_metadata_files_bear_its_mark_in_their_uuid(self, lake: SmallLake) -> None:
        from lakewarden.engine.base.file_naming import naming, owned_name
        from lakewarden.lifecycle.basics import Stamp

        lake.create()
        self.operation(lake, State.RUNNING)
        action = lake.warden.ground.journal.get("op-20261101-101112-ab12cd").plan.actions[0].id
        with naming(Stamp("op-20261101-101112-ab12cd", action, "")):
            marked = owned_name("metadata/00009-5d5bd6e4-6f12-4f4e-8f5e-3a0e7c1d9b77.metadata.json")
        own = next((folder(lake) / "metadata").glob("00003-*.metadata.json")).read_text()
        plant(lake, marked, "metadata/00009-5d5bd6e4-6f12-4f4e-8f5e-3a0e7c1d9b77.metadata.json", content=own)
        assert names(lake) == ["metadata/00009-5d5bd6e4-6f12-4f4e-8f5e-3a0e7c1d9b77.metadata.json"]


class TestRaces:
    def test_a_commit_while_files_are_listed_makes_its_files_needed(
        self, lake: SmallLake, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The very file that is met while listing becomes part of the table before listing is over."""
        lake.create()
        source = next((folder(lake) / "data").glob("*.parquet"))
        shutil.copy(source, folder(lake) / "data/late.parquet")
        age_all(lake)
        stored = lake.warden.ground.storage("main")
        walk: Callable[..., Any] = stored.walk

        def walked(*asked: Any, **more: Any) -> Any:
            yield from walk(*asked, **more)
            table = lake.catalog.load_table("sales.orders")
            table.add_files([f"file://{folder(lake)}/data/late.parquet"], check_duplicate_files=False)

        monkeypatch.setattr(lake.warden.ground, "storage", lambda name: stored)
        monkeypatch.setattr(stored, "walk", walked)
        assert names(lake) == []

    def test_very_many_orphans_go_through_a_file(self, lake: SmallLake, monkeypatch: pytest.MonkeyPatch) -> None:
        from lakewarden.features.orphan import search

        monkeypatch.setattr(search, "_IN_MEMORY", 100)
        lake.create()
        planted = [f"data/city={number} “Zürich”/{number}.parquet" for number in range(300)]
        plant(lake, *planted)
        assert names(lake) == sorted(planted)


class TestManyTables:
    def test_one_that_cannot_be_looked_at_does_not_hold_up_the_others(self, lake: SmallLake) -> None:
        for name in ("sales.a", "sales.b", "web.c"):
            lake.create(name, appends=1)
            plant(lake, "data/x", table=name)
        set_property(lake, "gc.enabled", "false", "sales.b")

        rows = lake.warden.orphan.find(all=True)

        assert [(row.table, row.orphans) for row in rows] == [
            ("main.sales.a", 1),
            ("main.sales.b", None),
            ("main.web.c", 1),
        ]
        assert "gc.enabled=false" in rows[1].problem
        assert [row.table for row in lake.warden.orphan.find(namespace="web")] == ["main.web.c"]
        assert len(lake.warden.orphan.find("sales.*", files=True)) == 2

    def test_which_tables_must_be_said(self, lake: SmallLake) -> None:
        with pytest.raises(BadValue):
            lake.warden.orphan.find()

    def test_the_exit_code_tells_a_check(self, lake: SmallLake) -> None:
        lake.create()
        lake.run("orphan", "find", "--all", check=0)
        plant(lake, "data/x")
        answer = json.loads(lake.run("orphan", "find", "--all", "--json", check=3).stdout)
        assert answer[0]["orphans"] == 1 and answer[0]["next"].startswith("lakewarden orphan quarantine")
