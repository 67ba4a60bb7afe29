"""A lake in a real REST catalog: the server checks what commits require, and writes the metadata.

Covers `engine/commit/lost_refs.py`.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import unquote, urlsplit
from urllib.request import Request, urlopen

import pytest
import yaml

from lakewarden import Warden
from lakewarden.engine.commit.merged_manifests import ManifestMerge
from lakewarden.engine.commit.publish import ATTEMPTS
from lakewarden.engine.commit.refs import RefChange, SetRef
from lakewarden.engine.files.manifests import Manifests
from lakewarden.errors import CatalogUnavailable, CommitRefused, StalePlan
from lakewarden.features.lake.init import Init
from lakewarden.lifecycle.basics import PUBLISH, SPARK_SQL
from tests.cases import in_soak
from tests.engine.direct_commits import DirectCommits
from tests.engine.lakes import STAMP, unfenced
from tests.services.rest_catalog import RestCatalog
from tests.small_lake import SmallLake

pytestmark = pytest.mark.spark  # the server is Java too
ORDERS = "sales.orders"
ALL_BUT_ONE = {"keep_last": 1, "keep_days": 0}


class RestLake(SmallLake):
    """An installation whose lake is in the REST catalog, and the same lake as somebody else has it."""

    def __init__(self, folder: Path, uri: str, warehouse: str, **sections: Any) -> None:
        self.folder = folder
        Init(directory=folder, catalog="rest", uri=uri, warehouse=warehouse).make()
        config = folder / "lakewarden.yaml"
        spark = {"master": "local[2]", "memory": "2g", "conf": {"spark.sql.shuffle.partitions": 2}}
        config.write_text(yaml.safe_dump(yaml.safe_load(config.read_text()) | {"spark": spark} | sections))
        self.warden = Warden.open(folder)
        self.elsewhere = Warden.open(folder)

    def __enter__(self) -> RestLake:
        return self

    def __exit__(self, *_: object) -> None:
        self.elsewhere.close()
        super().__exit__()

    @property
    def theirs(self) -> Any:
        """The table as another client has it."""
        return self.elsewhere.ground.catalogs.get("main").load_table(ORDERS)

    def tag_elsewhere(self, name: str, at: int) -> None:
        with self.theirs.manage_snapshots() as manage:
            manage.create_tag(at, name)

    def upgrade(self) -> None:
        """Make the table one of format v3."""
        from pyiceberg.table.update import AssertTableUUID, UpgradeFormatVersionUpdate

        table = self.theirs
        same = AssertTableUUID.model_validate({"uuid": str(table.metadata.table_uuid)})
        upgrade = UpgradeFormatVersionUpdate.model_validate({"format-version": 3})
        table.catalog.commit_table(table, (same,), (upgrade,))

    def age(self, days: int) -> None:
        """Have all that happened to the table so far have happened earlier."""
        table = self.catalog.load_table(ORDERS)
        told, earlier = json.loads(local(table.metadata_location).read_text()), days * 86_400_000
        for dated in (*told["snapshots"], *told["snapshot-log"]):
            dated["timestamp-ms"] -= earlier
        told |= {"last-updated-ms": told["last-updated-ms"] - earlier, "metadata-log": []}
        aged = local(table.metadata_location).with_name("00099-11111111-2222-4333-8444-555555555555.metadata.json")
        aged.write_text(json.dumps(told))
        self.catalog.drop_table(ORDERS)
        self.catalog.register_table(ORDERS, f"file://{aged}")

    @property
    def metadata(self) -> Any:
        return self.catalog.load_table(ORDERS).metadata

    @property
    def snapshots(self) -> list[int]:
        """Oldest first."""
        return [int(s.snapshot_id) for s in sorted(self.metadata.snapshots, key=lambda s: s.sequence_number)]

    def files(self, suffix: str = "") -> set[str]:
        """Files in the table's folders, but for those in quarantine and those that are Hadoop's."""
        folder = local(self.metadata.location)
        found = (path for place in ("data", "metadata") for path in (folder / place).rglob(f"*{suffix}"))
        return {str(path.relative_to(folder)) for path in found if path.is_file() and path.suffix != ".crc"}

    def orphans(self) -> list[str]:
        rows = self.warden.orphan.find(ORDERS, older_than="0m", even_recent=True, files=True)
        return [row.path for row in rows]

    def before_commits(self, *acts: Callable[[], object]) -> None:
        """Let somebody else do something after each of our attempts has looked at the table, and before the server."""
        catalog, left = self.catalog, list(acts)
        commit = catalog.commit_table

        def late(*args: Any, **kwargs: Any) -> Any:
            if left:
                left.pop(0)()
            return commit(*args, **kwargs)

        catalog.commit_table = late


@pytest.fixture
def lake(tmp_path: Path, rest_catalog: RestCatalog) -> Iterator[RestLake]:
    with RestLake(tmp_path / "lake", rest_catalog.uri, rest_catalog.warehouse) as lake:
        yield lake


def local(location: str) -> Path:
    return Path(unquote(urlsplit(location).path))


class TestVersions:
    def test_are_listed_named_and_gone_back_to(self, lake: RestLake) -> None:
        lake.create()
        lake.create("sales.eu.empty", appends=0)
        version = lake.warden.version
        newest, middle, oldest = (each.snapshot_id for each in version.list(ORDERS))

        version.tag(ORDERS, "v1", note="on REST", keep="30d").apply()
        version.branch(f"{ORDERS}@{middle}", "work").apply()
        version.rollback(f"{ORDERS}@{oldest}").apply()

        rows = {row.table: (row.rows, row.tags) for row in lake.warden.table.list()}
        assert rows == {"main.sales.eu.empty": (0, 0), "main.sales.orders": (2, 2)}
        left = f"before-rollback-{newest}"
        assert lake.refs() == {"main": oldest, "v1": newest, "work": middle, left: newest}
        shown = lake.warden.table.show(ORDERS)
        assert shown.changed_by == PUBLISH
        [(note, until)] = [(ref.note, ref.kept_until) for ref in shown.refs if ref.name == "v1"]
        assert note == "on REST" and until is not None and until - datetime.now(UTC) > timedelta(days=29)
        assert len(version.read(f"{ORDERS}@v1", limit=10)) == 6
        version.untag(ORDERS, "v1").apply()
        assert set(lake.refs()) == {"main", "work", left}
        assert lake.append() == lake.head()
        assert lake.ids() == [0, 1, 2, 3]

    def test_many_at_once_all_land(self, lake: RestLake) -> None:
        lake.create(appends=1)
        commits = DirectCommits(lake.warden.ground.tables, unfenced, STAMP, Manifests())
        uuid, head, names = str(lake.metadata.table_uuid), lake.head(), [f"v{number}" for number in range(12)]

        def tag(name: str) -> None:
            commits.publish(RefChange(f"main.{ORDERS}", uuid, {name: None}, set=(SetRef(name, "tag", head),)))

        with ThreadPoolExecutor(4) as writers:
            list(writers.map(tag, names))

        assert lake.refs() == dict.fromkeys(["main", *names], head)

    def test_a_stale_plan_is_refused(self, lake: RestLake) -> None:
        lake.create()
        rollback = lake.warden.version.rollback(f"{ORDERS}@{lake.snapshots[0]}")
        head = lake.append()

        with pytest.raises(StalePlan, match=f"moved from .* to {head}"):
            rollback.apply()

        assert lake.refs() == {"main": head}

    def test_what_others_name_while_we_commit_stays(self, lake: RestLake) -> None:
        lake.create()
        oldest = lake.snapshots[0]
        lake.before_commits(lambda: lake.tag_elsewhere("theirs", oldest))
        lake.warden.version.tag(ORDERS, "ours").apply()
        assert set(lake.refs()) == {"main", "ours", "theirs"}

        lake.before_commits(lambda: lake.tag_elsewhere("late", oldest))
        with pytest.raises(StalePlan, match="ref late of main.sales.orders moved from nowhere"):
            lake.warden.version.tag(ORDERS, "late").apply()
        assert lake.refs()["late"] == oldest

    def test_what_others_write_while_we_go_back_stays(self, lake: RestLake) -> None:
        lake.create()
        head = lake.head()
        lake.before_commits(lake.append)

        with pytest.raises(StalePlan, match=f"ref main of main.sales.orders moved from {head}"):
            lake.warden.version.rollback(f"{ORDERS}@{lake.snapshots[0]}").apply()

        assert lake.ids() == list(range(8))

    @pytest.mark.parametrize("format", [3, *in_soak(2)])
    def test_a_rollback_restores_the_columns_in_the_same_commit(self, lake: RestLake, format: int) -> None:
        lake.create()
        if format == 3:
            lake.upgrade()
        oldest, columns = lake.snapshots[0], lake.metadata.schema()
        with lake.theirs.update_schema() as change:
            change.delete_column("city")

        planned = lake.warden.version.rollback(f"{ORDERS}@{oldest}", with_schema=True)
        assert [(action.verb, action.route) for action in planned.plan.actions] == [("rollback", PUBLISH)]
        planned.apply()

        assert lake.metadata.schema() == columns
        assert [row["city"] for row in lake.warden.version.read(ORDERS).rows] == ["city 0", "city 1"]

    def test_columns_that_change_while_we_go_back_make_the_plan_stale(self, lake: RestLake) -> None:
        lake.create()
        with lake.theirs.update_schema() as change:
            change.delete_column("city")

        def meddle() -> None:
            with lake.theirs.update_schema() as change:
                change.rename_column("id", "number")

        planned, refs = lake.warden.version.rollback(f"{ORDERS}@{lake.snapshots[0]}", with_schema=True), lake.refs()
        lake.before_commits(meddle)
        with pytest.raises(StalePlan, match="the schema of main.sales.orders was 1 and is now 2"):
            planned.apply()
        assert lake.refs() == refs


class TestExpiry:
    def test_a_replaced_snapshot_stays_while_travel_by_time_needs_it(self, lake: RestLake) -> None:
        """The server clears the log before a gap, and then no older version could be found by its time."""
        lake.create(appends=12)
        lake.warden.compaction.manifests(ORDERS).apply()
        lake.age(3)
        replaced = lake.snapshots[-2]
        planned = lake.warden.retention.expire(ORDERS, keep_last=5, keep_days=0)
        reasons = {verdict.item: verdict.reasons for verdict in planned.plan.verdicts}
        assert reasons[str(replaced)] == ("time travel: the catalog would lose the times of older versions",)
        planned.apply()
        assert [entry.snapshot_id for entry in lake.metadata.snapshot_log] == lake.snapshots
        assert len(lake.snapshots) == 6
        lake.warden.retention.expire(ORDERS, **ALL_BUT_ONE).apply()
        assert len(lake.snapshots) == 1

    @pytest.mark.parametrize("format", [3, *in_soak(2)])
    def test_lets_versions_and_their_files_go(self, lake: RestLake, format: int) -> None:
        lake.create(appends=5)
        _, tagged, _, earlier, head = lake.snapshots
        lake.warden.version.tag(f"{ORDERS}@{tagged}", "v2").apply()
        if format == 3:
            lake.upgrade()
        planned = lake.warden.retention.expire(ORDERS, keep_last=2, keep_days=0)
        listed = {local(file.path).name for action in planned.plan.actions for file in action.files.items}
        before = lake.files()

        result = planned.apply().result

        assert [action.route for action in planned.plan.actions] == [PUBLISH]
        assert (result["snapshots_kept"], result["snapshots_expired"]) == (3, 2)
        assert result["files_quarantined"] == len(listed) == 2
        assert {Path(path).name for path in before - lake.files()} == listed
        assert lake.snapshots == [tagged, earlier, head]
        assert [entry.snapshot_id for entry in lake.metadata.snapshot_log] == [earlier, head]
        assert lake.warden.retention.expire(ORDERS, keep_last=2, keep_days=0).is_empty
        for back in (earlier, tagged):  # over what has gone
            lake.warden.version.rollback(f"{ORDERS}@{back}").apply()
        assert lake.ids() == [0, 1, 2, 3]
        assert lake.orphans() == []

    def test_files_can_go_for_good(self, tmp_path: Path, rest_catalog: RestCatalog) -> None:
        straight = {"expired_files": "never"}
        with RestLake(tmp_path / "lake", rest_catalog.uri, rest_catalog.warehouse, quarantine=straight) as lake:
            lake.create()
            lake.catalog.load_table(ORDERS).delete("id < 4")  # the files of two versions are nobody else's now
            planned = lake.warden.retention.expire(ORDERS, **ALL_BUT_ONE)
            listed = {local(file.path) for action in planned.plan.actions for file in action.files.items}
            before = {path for path in rest_catalog.folder.rglob("*") if path.is_file()}

            result = planned.apply().result

            after = {path for path in rest_catalog.folder.rglob("*") if path.is_file()}
            assert before - after == listed
            assert result["files_removed"] == len(listed) == 3 + 2 + 2  # lists, manifests, data files
            assert lake.ids() == [4, 5]

    def test_a_tag_made_after_planning_keeps_its_version(self, lake: RestLake) -> None:
        lake.create()
        planned, snapshots = lake.warden.retention.expire(ORDERS, **ALL_BUT_ONE), lake.snapshots
        lake.tag_elsewhere("theirs", snapshots[0])

        with pytest.raises(StalePlan, match=f"tag theirs is at snapshot {snapshots[0]}, which was to expire"):
            planned.apply()

        assert lake.snapshots == snapshots

    @pytest.mark.parametrize("format", [2, *in_soak(3)])
    def test_a_tag_made_while_we_commit_comes_back(self, lake: RestLake, format: int) -> None:
        """The server cannot be told that there are to be no other tags, and drops one with its snapshot."""
        lake.create()
        lake.age(10)
        lake.append()
        if format == 3:
            lake.upgrade()
        snapshots, files, times = lake.snapshots, lake.files("avro") | lake.files("parquet"), self.times(lake)
        planned = lake.warden.retention.expire(ORDERS, **ALL_BUT_ONE)
        lake.before_commits(lambda: lake.tag_elsewhere("theirs", snapshots[1]))

        with pytest.raises(StalePlan, match=f"tag theirs was created at snapshot {snapshots[1]}, which was to expire"):
            planned.apply()

        assert lake.refs() == {"main": snapshots[-1], "theirs": snapshots[1]}
        assert self.times(lake) == times
        assert lake.files("avro") | lake.files("parquet") == files
        assert len(lake.warden.version.read(f"{ORDERS}@theirs", limit=10)) == 4
        lake.warden.retention.expire(ORDERS, **ALL_BUT_ONE).apply()
        assert lake.snapshots == [snapshots[1], snapshots[-1]]
        lake.warden.version.rollback(f"{ORDERS}@theirs").apply()
        assert lake.ids() == [0, 1, 2, 3]

    def test_it_comes_back_after_a_kill_too(self, tmp_path: Path, rest_catalog: RestCatalog) -> None:
        with RestLake(tmp_path / "lake", rest_catalog.uri, rest_catalog.warehouse, leases={"timeout": "2s"}) as lake:
            lake.create()
            oldest, waiting = lake.snapshots[0], lake.folder / "waiting"
            expire = ("retention", "expire", ORDERS, "--keep-last", "1", "--keep-days", "0", "--apply")
            running = lake.start(*expire, failpoints=f"wait@commit.fenced:{waiting},kill@commit.landed")
            wait_for(waiting)
            lake.tag_elsewhere("theirs", oldest)
            waiting.unlink()
            running.communicate(timeout=60)
            assert "theirs" not in lake.refs()

            with pytest.raises(StalePlan, match="tag theirs was created"):
                lake.warden.operation.resume(lake.warden.operation.list()[0].id, wait="20s")

            assert lake.refs()["theirs"] == oldest
            assert len(lake.warden.version.read(f"{ORDERS}@theirs", limit=10)) == 2

    @staticmethod
    def times(lake: RestLake) -> dict[int, int]:
        return {s.snapshot_id: s.timestamp_ms for s in lake.metadata.snapshots}


def wait_for(file: Path) -> None:
    deadline = time.monotonic() + 60
    while not file.exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)


class TestFiles:
    def test_upkeep_and_then_nothing_more(self, lake: RestLake) -> None:
        lake.create(appends=12)
        assert lake.warden.table.health()[0].next == f"lakewarden compaction compact main.{ORDERS}"
        run = lake.warden.policy.run()
        assert [(action.verb, action.route) for action in run.plan.actions] == [
            ("merge-manifests", PUBLISH),
            ("compact", PUBLISH),
        ]

        result = run.apply().result

        assert (result["manifests_replaced"], result["files_rewritten"], result["files_written"]) == (12, 12, 1)
        assert lake.warden.policy.run().is_empty
        (health,) = lake.warden.table.health()
        assert (health.score, health.files, health.manifests) == (100, 1, 1)
        assert lake.warden.dataframe(ORDERS).count() == 24
        assert lake.orphans() == []
        (local(lake.metadata.location) / "data" / "stray.parquet").touch()
        assert [local(path).name for path in lake.orphans()] == ["stray.parquet"]

    def test_appends_and_deletes_while_we_commit_are_kept(self, lake: RestLake) -> None:
        lake.create(appends=12)
        planned = lake.warden.compaction.compact(ORDERS)
        lake.before_commits(lake.append, lambda: lake.theirs.delete("id = 3"))

        result = planned.apply().result

        assert lake.ids() == [id for id in range(26) if id != 3]
        assert result["groups_sent_back"] == 1
        assert lake.orphans() == []

    def test_races_that_are_lost_leave_nothing(self, lake: RestLake) -> None:
        lake.create(appends=3)
        table = lake.catalog.load_table(ORDERS)
        rows = table.scan(limit=1).to_arrow()
        bundle = tuple(manifest.manifest_path for manifest in table.current_snapshot().manifests(table.io))
        commits = DirectCommits(lake.warden.ground.tables, unfenced, STAMP, Manifests(), sleep=lambda _: None)
        lake.before_commits(*[lambda: lake.theirs.append(rows)] * ATTEMPTS)

        with pytest.raises(CommitRefused, match="commit attempts lost"):
            commits.publish(ManifestMerge(f"main.{ORDERS}", str(table.metadata.table_uuid), (bundle,)))

        assert not [name for name in lake.files() if STAMP.file_prefix in name]

    @pytest.mark.parametrize("verb", ["compact", *in_soak("manifests")])
    def test_a_refusal_is_told_and_leaves_nothing(self, lake: RestLake, verb: str) -> None:
        lake.create(appends=11)
        folder, planned = local(lake.metadata.location), getattr(lake.warden.compaction, verb)(ORDERS)
        before = {path.name for path in folder.rglob("*") if path.is_file()}
        lake.before_commits(lambda: lake.theirs.catalog.drop_table(ORDERS))

        with pytest.raises(CommitRefused, match="the catalog refuses the commit: .*does not exist"):
            planned.apply()

        assert {path.name for path in folder.rglob("*") if path.is_file()} == before

    def test_format_v3_goes_through_spark(self, lake: RestLake) -> None:
        lake.create(appends=12)
        planned = [lake.warden.compaction.manifests(ORDERS), lake.warden.compaction.compact(ORDERS)]
        lake.upgrade()
        before = lake.files()
        for stale in planned:
            with pytest.raises(StalePlan, match="format v3: only Spark writes its manifests"):
                stale.apply()
        assert lake.files() == before

        merge = lake.warden.compaction.manifests(ORDERS)
        merged = merge.apply().result
        compact = lake.warden.compaction.compact(ORDERS)
        compact.apply()

        assert merged["manifests_written"] == 1
        for action in (*merge.plan.actions, *compact.plan.actions):
            assert (action.route, action.because) == (SPARK_SQL, "format v3: only Spark writes its manifests")
        assert lake.ids() == list(range(24))
        assert len(list(lake.catalog.load_table(ORDERS).scan().plan_files())) == 1
        assert lake.warden.policy.run().is_empty
        assert lake.warden.table.show(ORDERS).changed_by == PUBLISH  # refs and expiry


class Relay(BaseHTTPRequestHandler):
    """Passes requests on to the server; where it is told to, the answer to a commit never comes back."""

    to: str
    cut: list[int]

    def relay(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        request = Request(self.to + self.path, body or None, dict(self.headers), method=self.command)
        try:
            answer = urlopen(request, timeout=20)
        except HTTPError as refused:
            answer = refused
        with answer:
            content = answer.read()
        if self.cut and self.command == "POST" and self.path.endswith("/tables/orders"):
            self.cut.pop()
            self.close_connection = True
            return
        self.send_response(answer.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_DELETE = do_HEAD = relay

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def relayed(to: str, cut: list[int]) -> Iterator[str]:
    handler = type("ToThatServer", (Relay,), {"to": to, "cut": cut})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_an_answer_that_never_comes(tmp_path: Path, rest_catalog: RestCatalog) -> None:
    """The commit may have landed, so nothing that was written for it is taken back; resume looks."""
    cut: list[int] = []
    with (
        relayed(rest_catalog.uri, cut) as uri,
        RestLake(tmp_path / "lake", uri, rest_catalog.warehouse) as lake,
    ):
        lake.create(appends=10)
        planned = lake.warden.compaction.manifests(ORDERS)
        cut.append(1)

        with pytest.raises(CatalogUnavailable, match="did not confirm whether the commit landed"):
            planned.apply()

        assert not cut
        assert lake.ids() == list(range(20))
        (operation,) = lake.warden.operation.list()
        lake.warden.operation.resume(operation.id)
        assert lake.warden.operation.show(operation.id).state == "done"
        assert lake.ids() == list(range(20))
        assert len(lake.snapshots) == 11
        assert lake.orphans() == []


def test_a_server_that_is_not_there(tmp_path: Path, rest_catalog: RestCatalog) -> None:
    with relayed(rest_catalog.uri, []) as uri, RestLake(tmp_path / "lake", uri, rest_catalog.warehouse) as lake:
        lake.create()
    with Warden.open(lake.folder) as warden, pytest.raises(CatalogUnavailable, match="the catalog does not respond"):
        warden.version.tag(ORDERS, "v1")
