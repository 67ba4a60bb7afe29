"""`lake init`: a new lake on this machine, or one that is there already.

Covers `features/lake/template.py`.
"""

from __future__ import annotations

import json
import socket
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pyarrow as pa
import pytest
import yaml

from lakewarden.doors.cli.main import run
from lakewarden.errors import AlreadyExists, CatalogUnavailable, ConfigProblem, LakewardenError, StorageUnavailable
from lakewarden.features.lake.init import Init, NewLake
from lakewarden.warden import Warden
from tests.engine.lakes import Lake, digest, open_path, read_only

__all__ = ["open_path"]


def init(directory: Path, **given: Any) -> NewLake:
    return Init(directory=directory, **given).make()


def files(folder: Path) -> list[str]:
    return sorted(digest(folder))


class TestEmbedded:
    def test_what_is_made(self, tmp_path: Path) -> None:
        folder = tmp_path / "new" / "lake"
        made = init(folder)
        assert made == NewLake(
            config=str(folder / "lakewarden.yaml"),
            lake="main",
            catalog=f"sql sqlite:///{folder}/lake/catalog.db",
            warehouse=f"file://{folder}/lake/warehouse",
            tables=0,
            public_key=Warden.open(folder).lake.key().public_key,
            next=[
                f"lakewarden --config {folder}/lakewarden.yaml lake doctor",
                f"lakewarden --config {folder}/lakewarden.yaml table list",
            ],
        )
        assert files(folder) == ["lake/catalog.db", "lakewarden.yaml", "signing-key.pem"]
        assert (folder / "lake/warehouse").is_dir()

    def test_it_works(self, tmp_path: Path) -> None:
        init(tmp_path)
        with Warden.open(tmp_path) as warden:
            catalog = warden.ground.catalogs.get("main")
            catalog.create_namespace("sales")
            catalog.create_table("sales.orders", pa.schema([("id", pa.int64())])).append(pa.table({"id": [1]}))
            assert [row.table for row in warden.table.list()] == ["main.sales.orders"]
            assert warden.ground.settings.state == f"sqlite:///{tmp_path}/lakewarden.db"

    def test_it_can_be_moved(self, tmp_path: Path) -> None:
        """Nothing in the file says where the folder is."""
        init(tmp_path / "a")
        assert str(tmp_path) not in (tmp_path / "a/lakewarden.yaml").read_text()
        (tmp_path / "a").rename(tmp_path / "b")
        assert Warden.open(tmp_path / "b").table.list() == []

    def test_the_file_is_commented_and_its_comments_work(self, tmp_path: Path) -> None:
        init(tmp_path)
        path = tmp_path / "lakewarden.yaml"
        text = path.read_text()
        assert text.count("#") > 10
        lines = text.splitlines()
        optional = [line.removeprefix("# ") for line in lines if line.startswith("# ") and "Lakewarden's" not in line]
        path.write_text("\n".join([*lines, *optional]))
        settings = Warden.open(tmp_path).ground.settings
        assert settings.leases.timeout.total_seconds() == 60
        assert settings.defaults.retention.keep_last == 30
        assert list(settings.tables) == ["bronze.*", "gold.customers", "flink.*"]

    @pytest.mark.parametrize("name", ["a b", "é", "a'b", 'a"b', "a\\b", "\U0001f9ca", "a:b@c", "[x]"])
    def test_folders_of_any_name(self, tmp_path: Path, name: str) -> None:
        made = init(tmp_path / name)
        assert made.catalog == f"sql sqlite:///{tmp_path}/{name}/lake/catalog.db"
        assert Warden.open(tmp_path / name).table.list() == []
        assert files(tmp_path / name) == ["lake/catalog.db", "lakewarden.yaml", "signing-key.pem"]

    @pytest.mark.parametrize("name", ["a#b", "a?b", "a%20b"])
    def test_folders_that_would_be_mistaken(self, tmp_path: Path, name: str) -> None:
        with pytest.raises(ConfigProblem, match="cannot be used"):
            init(tmp_path / name)
        assert files(tmp_path) == []

    def test_only_its_owner_reads_the_key(self, tmp_path: Path) -> None:
        init(tmp_path / "a")
        init(tmp_path / "b")
        keys = [tmp_path / name / "signing-key.pem" for name in ("a", "b")]
        assert [stat.S_IMODE(key.stat().st_mode) for key in keys] == [0o600, 0o600]
        assert keys[0].read_bytes() != keys[1].read_bytes()

    def test_a_key_that_is_there_stays(self, tmp_path: Path) -> None:
        made = init(tmp_path)
        (tmp_path / "lakewarden.yaml").unlink()
        assert init(tmp_path).public_key == made.public_key

    def test_a_key_that_is_there_and_cannot_be_used(self, tmp_path: Path) -> None:
        (tmp_path / "signing-key.pem").write_text("mine")
        with pytest.raises(ConfigProblem, match="signing-key.pem"):
            init(tmp_path)
        assert (tmp_path / "signing-key.pem").read_text() == "mine"
        assert not (tmp_path / "lakewarden.yaml").exists()

    def test_another_name(self, tmp_path: Path) -> None:
        assert init(tmp_path, name="eu").lake == "eu"
        assert Warden.open(tmp_path).ground.settings.default_lake == "eu"

    def test_another_warehouse(self, tmp_path: Path) -> None:
        made = init(tmp_path / "a", warehouse=str(tmp_path / "elsewhere"))
        assert made.warehouse == f"file://{tmp_path}/elsewhere" and (tmp_path / "elsewhere").is_dir()

    def test_in_the_working_folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        assert run(["lake", "init"]) == 0
        assert run(["table", "list"]) == 0


class TestRefused:
    def test_what_exists_is_not_overwritten(self, tmp_path: Path) -> None:
        init(tmp_path)
        before = digest(tmp_path)
        with pytest.raises(AlreadyExists, match="lakewarden.yaml already exists") as caught:
            init(tmp_path, name="other")
        assert caught.value.hint == "Edit it, or set up another folder."
        assert digest(tmp_path) == before

    def test_not_even_what_is_not_a_configuration(self, tmp_path: Path) -> None:
        (tmp_path / "lakewarden.yaml").write_text("mine")
        with pytest.raises(AlreadyExists):
            init(tmp_path)
        assert (tmp_path / "lakewarden.yaml").read_text() == "mine"
        assert files(tmp_path) == ["lakewarden.yaml"]

    def test_a_link_into_nowhere(self, tmp_path: Path) -> None:
        (tmp_path / "lakewarden.yaml").symlink_to(tmp_path / "target")
        with pytest.raises(AlreadyExists):
            init(tmp_path)
        assert not (tmp_path / "target").exists()

    def test_a_file_in_the_place_of_the_folder(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        for folder in (tmp_path / "file", tmp_path / "file" / "below"):
            with pytest.raises(LakewardenError) as caught:
                init(folder)
            assert caught.value.hint and caught.value.exit_code == 1

    def test_a_folder_that_cannot_be_written(self, open_path: Path) -> None:
        with read_only(open_path):
            for folder in (open_path, open_path / "below"):
                with pytest.raises(StorageUnavailable, match="cannot be written: Permission denied"):
                    init(folder)
        assert files(open_path) == []

    def test_a_warehouse_that_cannot_be_written(self, open_path: Path) -> None:
        lake, closed = open_path / "lake", open_path / "closed"
        lake.mkdir()
        lake.chmod(0o777)
        closed.mkdir()
        with (
            read_only(closed),
            pytest.raises(StorageUnavailable, match="closed/wh cannot be created: Perm"),
        ):
            init(lake, warehouse=str(closed / "wh"))
        assert not (lake / "lakewarden.yaml").exists()

    @pytest.mark.parametrize(
        ("given", "told"),
        [
            ({"uri": "http://x"}, "--uri requires --catalog"),
            ({"catalog": "rest", "warehouse": "s3://x"}, "a catalog of type rest requires --uri"),
            ({"catalog": "sql", "uri": "sqlite:///x.db"}, "an existing catalog requires --warehouse"),
            ({"catalog": "sql", "uri": "x.db", "warehouse": "wh"}, "uri"),
        ],
    )
    def test_half_of_what_is_needed(self, tmp_path: Path, given: dict[str, Any], told: str) -> None:
        with pytest.raises(ConfigProblem, match=told) as caught:
            init(tmp_path, **given)
        assert caught.value.hint and files(tmp_path) == []

    @pytest.mark.parametrize("name", ["", "1a", "a.b", "a b", "main\n", "x" * 64])
    def test_what_cannot_name_a_lake(self, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
        assert run(["lake", "init", str(tmp_path / "new"), "--name", name]) == 2
        assert "BadValue: name: " in capsys.readouterr().err
        assert files(tmp_path) == []


class TestExisting:
    def test_an_sqlite_catalog(self, tmp_path: Path) -> None:
        old = Lake(tmp_path / "old")
        old.create("sales.orders")
        uri = f"sqlite:///{tmp_path}/old/lake/catalog.db"
        made = init(tmp_path / "new", catalog="sql", uri=uri, warehouse=f"{tmp_path}/old/lake/warehouse")
        assert made.tables == 1 and made.catalog == f"sql {uri}"
        assert [row.rows for row in Warden.open(tmp_path / "new").table.list()] == [4]
        assert files(tmp_path / "new") == ["lakewarden.yaml", "signing-key.pem"]

    def test_one_that_was_mistyped_is_not_made(self, tmp_path: Path) -> None:
        uri = f"sqlite:///{tmp_path}/typo/catalog.db"
        with pytest.raises(CatalogUnavailable, match="typo/catalog.db does not exist"):
            init(tmp_path / "new", catalog="sql", uri=uri, warehouse=f"{tmp_path}/wh")
        assert files(tmp_path) == []

    @pytest.mark.parametrize(
        "catalog",
        [
            {"catalog": "rest", "uri": "http://127.0.0.1:{port}"},
            {"catalog": "sql", "uri": "postgresql+psycopg://u:hunter2@127.0.0.1:{port}/db?connect_timeout=2"},
            {"catalog": "hive", "uri": "thrift://127.0.0.1:{port}"},
        ],
    )
    def test_one_that_does_not_answer_leaves_no_file(self, tmp_path: Path, catalog: dict[str, Any]) -> None:
        with closing(socket.socket()) as probe:
            probe.bind(("127.0.0.1", 0))
            uri = catalog["uri"].replace("{port}", str(probe.getsockname()[1]))
        with pytest.raises(CatalogUnavailable, match="lake eu") as caught:
            init(tmp_path, name="eu", **catalog | {"uri": uri, "warehouse": "s3://bucket/wh"})
        assert "hunter2" not in str(caught.value.document())
        assert files(tmp_path) == []

    def test_a_failure_leaves_no_folder(self, tmp_path: Path) -> None:
        uri = f"sqlite:///{tmp_path}/typo/catalog.db"
        with pytest.raises(CatalogUnavailable):
            init(tmp_path / "a/b/new", catalog="sql", uri=uri, warehouse=f"{tmp_path}/w/h")
        assert list(tmp_path.iterdir()) == []

    def test_a_failure_leaves_what_was_there(self, tmp_path: Path) -> None:
        (tmp_path / "lake").mkdir()
        (tmp_path / "signing-key.pem").write_text("mine")
        with pytest.raises(ConfigProblem):
            init(tmp_path)
        assert {path.name for path in tmp_path.rglob("*")} == {"lake", "signing-key.pem"}

    def test_tables_under_another_name_are_not_passed_over(self, tmp_path: Path) -> None:
        old = init(tmp_path / "old", name="prod")
        with Warden.open(tmp_path / "old") as warden:
            catalog = warden.ground.catalogs.get("prod")
            catalog.create_namespace("sales")
            for name in ("sales.a", "sales.b"):
                catalog.create_table(name, pa.schema([("id", pa.int64())]))
        there = {
            "catalog": "sql",
            "uri": old.catalog.removeprefix("sql "),
            "warehouse": old.warehouse,
        }
        with pytest.raises(ConfigProblem, match=r"no tables under the name main; .* prod \(2 tables\)") as refused:
            init(tmp_path / "new", **there)
        assert refused.value.hint.startswith("Use --name prod, or")
        assert not (tmp_path / "new").exists()
        assert init(tmp_path / "new", name="prod", **there).tables == 2

        assert init(tmp_path / "empty", name="main", **there).tables == 0  # said so: a new catalog in that database
        checks = {check.part: check for check in Warden.open(tmp_path / "empty").lake.doctor(skip_spark=True)}
        assert checks["main: catalog"].state == "warning"
        assert "prod (2 tables)" in checks["main: catalog"].found

    def test_a_rest_catalog(self, tmp_path: Path) -> None:
        with _rest_catalog() as uri:
            made = init(tmp_path, catalog="rest", uri=uri, warehouse="s3://bucket/wh")
        assert (made.catalog, made.warehouse, made.tables) == (f"rest {uri}", "s3://bucket/wh", 2)
        assert not (tmp_path / "lake").exists()

    def test_from_pyiceberg(self, tmp_path: Path) -> None:
        Lake(tmp_path / "old").create("sales.orders")
        file = tmp_path / ".pyiceberg.yaml"
        uri = f"sqlite:///{tmp_path}/old/lake/catalog.db"
        catalog = {"uri": uri, "warehouse": f"file://{tmp_path}/old/lake/warehouse", "s3.region": "eu-1", "echo": False}
        file.write_text(yaml.safe_dump({"catalog": {"main": catalog, "other": {}}}))
        made = init(tmp_path / "new", pyiceberg=file)
        assert (made.tables, made.catalog) == (1, f"sql {uri}")
        lake = Warden.open(tmp_path / "new").ground.settings.lake("main")
        assert lake.catalog == {"type": "sql", "uri": uri, "s3.region": "eu-1", "echo": False}

    @pytest.mark.parametrize(
        ("uri", "kind"), [("http://h", "rest"), ("https://h", "rest"), ("thrift://h", "hive"), ("sqlite:///x", "sql")]
    )
    def test_kinds_are_inferred_as_pyiceberg_does(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uri: str, kind: str
    ) -> None:
        file = tmp_path / "p.yaml"
        file.write_text(yaml.safe_dump({"catalog": {"main": {"uri": uri, "warehouse": "s3://b"}}}))
        monkeypatch.setattr(Init, "_open", lambda *_: 0)
        assert init(tmp_path / "new", pyiceberg=file).catalog.startswith(f"{kind} ")

    @pytest.mark.parametrize(
        ("content", "told", "hint"),
        [
            ("catalog: [", "cannot be read", "Is it a .pyiceberg.yaml?"),
            ("x: 2024-13-45", "cannot be read", "Is it a .pyiceberg.yaml?"),
            ("", "describes no catalogs", "PyIceberg lists them under the key catalog."),
            ("[1]", "describes no catalogs", "PyIceberg lists them under the key catalog."),
            ("catalog: {}", "describes no catalogs", "PyIceberg lists them under the key catalog."),
            ("catalog: {mian: {}}", "has no catalog main", "Did you mean mian?"),
            ("catalog: {x: {}, y: {}}", "has no catalog main", "It has x, y: choose one with --name."),
            ("catalog: {1: {}}", "has no catalog main", "It has 1: choose one with --name."),
            ("catalog: {main: {uri: 'http://x'}}", "names no warehouse", "Add it there: warehouse: s3://…"),
            ("catalog: {main: text}", "has no properties", "PyIceberg lists them below its name."),
            ("catalog: {main: }", "has no properties", "PyIceberg lists them below its name."),
        ],
    )
    def test_what_is_no_use(self, tmp_path: Path, content: str, told: str, hint: str) -> None:
        file = tmp_path / "p.yaml"
        file.write_text(content)
        with pytest.raises(ConfigProblem, match=told) as caught:
            init(tmp_path / "new", pyiceberg=file)
        assert caught.value.hint == hint
        assert files(tmp_path) == ["p.yaml"]

    def test_no_such_file(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigProblem, match="cannot be read"):
            init(tmp_path / "new", pyiceberg=tmp_path / "nowhere.yaml")


def test_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["lake", "init", str(tmp_path), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["lake"] == "main" and answer["tables"] == 0 and len(answer["next"]) == 2


@contextmanager
def _rest_catalog() -> Iterator[str]:
    """As much of an Iceberg REST catalog as listing tables asks for."""
    answers = {
        "/v1/config": {"defaults": {}, "overrides": {}},
        "/v1/namespaces": {"namespaces": [["sales"]]},
        "/v1/namespaces/sales": {"namespace": ["sales"], "properties": {}},
        "/v1/namespaces/sales/tables": {
            "identifiers": [{"namespace": ["sales"], "name": "a"}, {"namespace": ["sales"], "name": "b"}]
        },
    }

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path, _, query = self.path.partition("?")
            answer: Any = {"namespaces": []} if "parent=sales" in query else answers.get(path)
            body = json.dumps(answer or {"error": {"message": path, "type": "NotFound", "code": 404}}).encode()
            self.send_response(200 if answer else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
