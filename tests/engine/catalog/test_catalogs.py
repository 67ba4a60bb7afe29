"""Lakes as PyIceberg and as Spark are told of them, and catalogs that do not answer."""

from __future__ import annotations

import builtins
import socket
import sys
import traceback
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pyarrow as pa
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.engine import make_url

from lakewarden.config import Environment, LakeSettings, Settings
from lakewarden.engine.catalog.catalogs import (
    Catalogs,
    open_catalog,
    pyiceberg_properties,
    spark_properties,
    sqlite_file,
)
from lakewarden.engine.catalog.tables import Tables
from lakewarden.engine.spark.session import Spark
from lakewarden.errors import CatalogUnavailable
from lakewarden.features.lake.init import Init
from lakewarden.warden import Warden
from tests.engine.lakes import Lake, digest, lake

if TYPE_CHECKING:
    from tests.services.postgres import Postgres

__all__ = ["lake"]

SECRET = "hunter2"


def settings(catalog: dict[str, Any], warehouse: str = "file:///wh", **others: Any) -> LakeSettings:
    return LakeSettings.model_validate({"catalog": catalog, "warehouse": warehouse, **others})


def in_spark(lake: LakeSettings) -> dict[str, str]:
    """What Spark is told, without the prefix."""
    told = spark_properties("eu", lake)
    assert told.pop("spark.sql.catalog.eu") == "org.apache.iceberg.spark.SparkCatalog"
    assert all(key.startswith("spark.sql.catalog.eu.") for key in told)
    return {key.removeprefix("spark.sql.catalog.eu."): value for key, value in told.items()}


class TestProperties:
    def test_sqlite(self) -> None:
        lake = settings({"type": "sql", "uri": "sqlite:////data/catalog.db"})
        assert pyiceberg_properties(lake) == {
            "type": "sql",
            "uri": "sqlite:////data/catalog.db",
            "warehouse": "file:///wh",
        }
        assert in_spark(lake) == {
            "type": "jdbc",
            "uri": "jdbc:sqlite:/data/catalog.db",
            "jdbc.schema-version": "V1",
            "warehouse": "file:///wh",
            "cache-enabled": "false",
        }
        assert sqlite_file(lake) == Path("/data/catalog.db")

    def test_sqlite_with_options(self) -> None:
        lake = settings({"type": "sql", "uri": "sqlite:////data/catalog.db?timeout=30"})
        assert sqlite_file(lake) == Path("/data/catalog.db")
        assert in_spark(lake)["uri"] == "jdbc:sqlite:/data/catalog.db"

    @pytest.mark.parametrize(
        ("uri", "jdbc", "user", "password"),
        [
            ("postgresql+psycopg://u:p@host:5433/db", "jdbc:postgresql://host:5433/db", "u", "p"),
            ("postgresql://u:p@host/db", "jdbc:postgresql://host/db", "u", "p"),
            ("postgresql+psycopg://host/db", "jdbc:postgresql://host/db", None, None),
            ("postgresql+psycopg:///db", "jdbc:postgresql://localhost/db", None, None),
            ("postgresql+psycopg://u@host/db", "jdbc:postgresql://host/db", "u", None),
            (
                "postgresql+psycopg://u:p@host/db?sslmode=require&application_name=x",
                "jdbc:postgresql://host/db?sslmode=require&application_name=x",
                "u",
                "p",
            ),
            ("postgresql+psycopg://u:a%40b%2Fc%3A%25@host/db", "jdbc:postgresql://host/db", "u", "a@b/c:%"),
            ("postgresql+psycopg://a%40b:p@host/db", "jdbc:postgresql://host/db", "a@b", "p"),
            ("postgresql+psycopg://u:p/#?[]:+ é@host:1/db", "jdbc:postgresql://host:1/db", "u", "p/#?[]:+ é"),
            ("postgresql+psycopg://u:p@[::1]:5432/db", "jdbc:postgresql://[::1]:5432/db", "u", "p"),
            ("mysql+pymysql://u:p@host/db", "jdbc:mysql://host/db", "u", "p"),
        ],
    )
    def test_databases(self, uri: str, jdbc: str, user: str | None, password: str | None) -> None:
        lake = settings({"type": "sql", "uri": uri})
        told = in_spark(lake)
        assert (told["uri"], told.get("jdbc.user"), told.get("jdbc.password")) == (jdbc, user, password)
        assert told["type"] == "jdbc" and told["jdbc.schema-version"] == "V1"
        assert pyiceberg_properties(lake)["uri"] == uri
        assert sqlite_file(lake) is None
        understood = make_url(uri)  # both see the same account
        assert (understood.username, understood.password) == (user, password)

    @given(st.text(min_size=1), st.text(min_size=1))
    def test_any_account(self, user: str, password: str) -> None:
        uri = f"postgresql+psycopg://{quote(user, safe='')}:{quote(password, safe='')}@host/db"
        told = in_spark(settings({"type": "sql", "uri": uri}))
        assert (told["jdbc.user"], told["jdbc.password"]) == (user, password)
        assert told["uri"] == "jdbc:postgresql://host/db"

    @pytest.mark.parametrize("uri", ["postgresql://u:hunter2@x@host/db", "postgresql://u:p@host:hunter2/db"])
    def test_an_address_that_cannot_be_read(self, uri: str) -> None:
        with pytest.raises(CatalogUnavailable, match="is invalid") as caught:
            in_spark(settings({"type": "sql", "uri": uri}))
        assert SECRET not in caught.value.message and "%40" in caught.value.hint

    def test_rest(self) -> None:
        lake = settings(
            {"type": "rest", "uri": "http://host:8181", "credential": "id:secret", "ssl": True, "n": 5}, "s3://b/wh"
        )
        assert pyiceberg_properties(lake) == {
            "type": "rest",
            "uri": "http://host:8181",
            "credential": "id:secret",
            "ssl": "true",
            "n": "5",
            "warehouse": "s3://b/wh",
        }
        told = in_spark(lake)
        assert (told["type"], told["uri"], told["credential"]) == ("rest", "http://host:8181", "id:secret")
        assert told["io-impl"] == "org.apache.iceberg.aws.s3.S3FileIO"
        assert "s3.path-style-access" not in told  # Amazon's own

    def test_hive_and_glue(self) -> None:
        hive = in_spark(settings({"type": "hive", "uri": "thrift://host:9083"}))
        assert (hive["type"], hive["uri"]) == ("hive", "thrift://host:9083")
        glue = in_spark(settings({"type": "glue", "glue.region": "eu-1"}, "s3://b/wh"))
        assert glue["type"] == "glue" and "uri" not in glue and glue["glue.region"] == "eu-1"

    @pytest.mark.parametrize("path_style", [True, False])
    def test_s3(self, path_style: bool) -> None:
        storage = {
            "endpoint": "http://minio:9000",
            "access_key": "a",
            "secret_key": "s",
            "session_token": "t",
            "region": "eu-1",
            "path_style": path_style,
        }
        lake = settings({"type": "sql", "uri": "sqlite:////c.db"}, "s3://bucket/wh", storage=storage)
        told = pyiceberg_properties(lake)
        assert told["s3.endpoint"] == "http://minio:9000"
        assert (told["s3.access-key-id"], told["s3.secret-access-key"], told["s3.session-token"]) == ("a", "s", "t")
        assert told["s3.region"] == "eu-1"
        assert told["s3.force-virtual-addressing"] == str(not path_style).lower()
        spark = in_spark(lake)
        assert spark["s3.path-style-access"] == str(path_style).lower()
        assert (spark["s3.endpoint"], spark["client.region"]) == ("http://minio:9000", "eu-1")
        assert (spark["s3.access-key-id"], spark["s3.secret-access-key"], spark["s3.session-token"]) == ("a", "s", "t")

    def test_what_the_file_says_wins(self) -> None:
        lake = settings(
            {"type": "rest", "uri": "http://x", "s3.region": "mine"},
            storage={"region": "other"},
            spark={"cache-enabled": "true", "header.X": "y"},
        )
        assert pyiceberg_properties(lake)["s3.region"] == "mine"
        assert in_spark(lake)["cache-enabled"] == "true" and in_spark(lake)["header.X"] == "y"


class TestOpening:
    def test_once(self, lake: Lake) -> None:
        assert lake.warden.ground.catalogs.get("main") is lake.warden.ground.catalogs.get("main")
        assert lake.catalog.name == "main"

    def test_a_file_that_is_not_there_is_not_made(self, lake: Lake) -> None:
        (lake.folder / "lake/catalog.db").unlink()
        before = digest(lake.folder)
        fresh = Warden.open(lake.folder)
        for look in (fresh.ground.tables.names, lambda: fresh.ground.catalogs.get("main"), fresh.table.list):
            with pytest.raises(
                CatalogUnavailable, match="lake main: its catalog .*catalog.db does not exist"
            ) as caught:
                look()
            assert "lakewarden lake init" in caught.value.hint
        assert digest(lake.folder) == before

    def test_a_database_without_a_catalog_is_left_as_it_is(self, lake: Lake) -> None:
        file = lake.folder / "lake/catalog.db"
        file.unlink()
        file.touch()
        with pytest.raises(CatalogUnavailable, match="no such table"):
            Warden.open(lake.folder).ground.tables.names()
        assert file.read_bytes() == b""

    def test_a_folder_in_its_place(self, lake: Lake) -> None:
        file = lake.folder / "lake/catalog.db"
        file.unlink()
        file.mkdir()
        with pytest.raises(CatalogUnavailable):
            Warden.open(lake.folder).ground.tables.names()

    @pytest.mark.parametrize(
        ("catalog", "module", "extra"),
        [
            ({"type": "sql", "uri": "postgresql+psycopg://u:hunter2@host/db"}, "psycopg", "postgres"),
            ({"type": "sql", "uri": "postgresql+psycopg2://u:hunter2@host/db"}, "psycopg2", "postgres"),
            ({"type": "hive", "uri": "thrift://host:9083"}, "hive_metastore", "hive"),
            ({"type": "hive", "uri": "thrift://host:9083"}, "thrift", "hive"),
            ({"type": "glue"}, "boto3", "glue"),
        ],
    )
    def test_what_is_not_installed(
        self, monkeypatch: pytest.MonkeyPatch, catalog: dict[str, Any], module: str, extra: str
    ) -> None:
        _without(monkeypatch, module)
        with pytest.raises(CatalogUnavailable, match=f"a catalog of type {catalog['type']} needs ") as caught:
            open_catalog("eu", settings(catalog), create=False)
        assert "which is not installed" in caught.value.message and "lake eu" in caught.value.message
        assert caught.value.hint == f"pip install 'lakewarden[{extra}]'"

    def test_a_property_that_does_not_fit(self) -> None:
        with pytest.raises(CatalogUnavailable, match="lake eu: ") as caught:
            open_catalog("eu", settings({"type": "sql", "uri": "nosuch+db://x"}), create=False)
        assert caught.value.hint

    @pytest.mark.filterwarnings("ignore:Deprecated in 0.8.0:DeprecationWarning")  # PyIceberg's own word on OAuth
    @pytest.mark.parametrize(
        "catalog",
        [
            {"type": "sql", "uri": "postgresql+psycopg://u:hunter2@127.0.0.1:{port}/db?connect_timeout=3"},
            {"type": "sql", "uri": "postgresql+psycopg://u:hunter2@x@127.0.0.1:{port}/db"},
            {"type": "sql", "uri": "postgresql+psycopg://u:p@127.0.0.1:hunter2/db"},
            {"type": "sql", "uri": "nosuch+db://u:hunter2@host/db"},
            {"type": "rest", "uri": "http://127.0.0.1:{port}", "token": SECRET},
            {"type": "rest", "uri": "http://127.0.0.1:{port}", "credential": f"id:{SECRET}"},
            {"type": "rest", "uri": "http://user:hunter2@127.0.0.1:{port}"},
            {"type": "hive", "uri": "thrift://127.0.0.1:{port}"},
        ],
    )
    def test_what_does_not_answer_is_told_without_secrets(
        self, monkeypatch: pytest.MonkeyPatch, catalog: dict[str, str]
    ) -> None:
        monkeypatch.setenv("PYICEBERG_MAX_WORKERS", "1")
        port = _closed_port()
        told = {key: value.replace("{port}", str(port)) for key, value in catalog.items()}
        storage = {"access_key": SECRET, "secret_key": SECRET}
        everything = Settings.model_validate(
            {"lakes": {"eu": {"catalog": told, "warehouse": "s3://b/wh", "storage": storage}}}
        )
        with pytest.raises(CatalogUnavailable) as caught:
            Tables(Catalogs(everything), everything).names("eu")
        error = caught.value
        assert error.hint and "\n" not in error.message
        assert SECRET not in f"{error.document()} {everything!r} {everything}"


def _without(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    """Let a module be missing, as where an extra was not installed."""
    real = builtins.__import__

    def missing(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.split(".")[0] == module:
            raise ModuleNotFoundError(f"No module named {module!r}", name=module)
        return real(name, *args, **kwargs)

    for loaded in list(sys.modules):
        if loaded.split(".")[0] == module or loaded in ("pyiceberg.catalog.hive", "pyiceberg.catalog.glue"):
            monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setattr(builtins, "__import__", missing)


def _closed_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.postgres
class TestPostgres:
    """A lake whose catalog is in a real PostgreSQL."""

    @pytest.fixture
    def warden(self, postgres: Postgres, tmp_path: Path) -> Iterator[Warden]:
        uri = postgres.new_database()
        request = Init(directory=tmp_path, catalog="sql", uri=uri, warehouse=str(tmp_path / "wh"))
        made = request.make()
        assert "correct-horse" not in str(made) and made.catalog.startswith("sql postgresql+psycopg://warden@127.0.0.1")
        with Warden.open(tmp_path) as warden:
            yield warden

    @pytest.fixture
    def orders(self, warden: Warden) -> Any:
        catalog = warden.ground.catalogs.get("main")
        catalog.create_namespace("sales")
        table = catalog.create_table("sales.orders", pa.schema([("id", pa.int64())]))
        table.append(pa.table({"id": [1, 2, 3]}))
        return table

    def test_tables_and_tags(self, warden: Warden, orders: Any) -> None:
        assert [str(name) for name in warden.ground.tables.names()] == ["main.sales.orders"]
        report = warden.version.tag("sales.orders", "v1").apply()
        assert report.state == "done"
        assert warden.ground.tables.ref("sales.orders", "v1") == orders.current_snapshot().snapshot_id
        assert warden.version.list("sales.orders")[0].tags == ["v1"]

    def test_a_wrong_password(self, warden: Warden, tmp_path: Path) -> None:
        config = yaml.safe_load((tmp_path / "lakewarden.yaml").read_text())
        uri = config["lakes"]["main"]["catalog"]["uri"]
        config["lakes"]["main"]["catalog"]["uri"] = uri.replace("correct-horse-battery", SECRET)
        (tmp_path / "lakewarden.yaml").write_text(yaml.safe_dump(config))
        with (
            pytest.raises(CatalogUnavailable, match="password authentication failed") as caught,
            Warden.open(tmp_path) as stranger,
        ):
            stranger.ground.tables.names()
        assert SECRET not in str(caught.value.document())
        assert SECRET not in "".join(traceback.format_exception(caught.value))

    def test_a_database_without_a_catalog(self, postgres: Postgres) -> None:
        lake = settings({"type": "sql", "uri": postgres.new_database()})
        everything = Settings.model_validate({"lakes": {"eu": lake.model_dump()}})
        with closing(Catalogs(everything)) as catalogs, pytest.raises(CatalogUnavailable, match="iceberg_tables"):
            Tables(catalogs, everything).names()

    @pytest.mark.spark
    def test_spark_reads_the_same_table(self, warden: Warden, orders: Any) -> None:
        warden.version.tag("sales.orders", "v1").apply()
        given = warden.ground.settings
        fast = given.model_copy(update={"spark": given.spark.model_copy(update={"master": "local[2]", "memory": "2g"})})
        spark = Spark(fast, Environment.read())
        rows = spark.sql("SELECT id FROM main.sales.orders VERSION AS OF 'v1' ORDER BY id").collect()
        assert [row["id"] for row in rows] == [1, 2, 3]
        spark.sql("INSERT INTO main.sales.orders VALUES (4)").collect()
        assert warden.table.show("sales.orders").rows == 4
        assert warden.ground.tables.ref("sales.orders", "v1") == orders.current_snapshot().snapshot_id
