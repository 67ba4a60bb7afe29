"""The configuration file: what it takes, and how it says what is wrong with it.

Covers `config/document.py`, `config/environment.py`, `config/erasure.py`, `config/lakes.py`, `config/leases.py`,
`config/orphans.py`, `config/spark.py` and `config/tables.py`.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, example, given
from hypothesis import strategies as st

from lakewarden.config import FILE_NAME, Environment, Settings, find, load
from lakewarden.errors import ConfigProblem, LakeNotFound
from tests.engine.lakes import nobody
from tests.examples import examples

LAKE: dict[str, Any] = {"catalog": {"type": "sql", "uri": "sqlite:///lake/catalog.db"}, "warehouse": "lake/warehouse"}


def environment(**variables: str) -> Environment:
    return Environment.read({"HOME": "/home/someone", **variables})


def read(folder: Path, data: Any, **variables: str) -> Settings:
    path = folder / FILE_NAME
    path.write_text(data if isinstance(data, str) else yaml.safe_dump(data, sort_keys=False), encoding="utf-8")
    return load(path, environment(**variables))


def problem(folder: Path, data: Any, **variables: str) -> ConfigProblem:
    """What is said of a configuration: one line, with the file's name in it and something to do."""
    with pytest.raises(ConfigProblem) as caught:
        read(folder, data, **variables)
    error = caught.value
    assert error.exit_code == 2 and error.hint
    assert FILE_NAME in error.message
    assert "\n" not in error.message + error.hint
    return error


class TestWhatIsTaken:
    def test_the_smallest(self, tmp_path: Path) -> None:
        settings = read(tmp_path, {"lakes": {"main": LAKE}})
        assert settings.default_lake == "main"
        assert settings.lake("main").type == "sql"
        assert settings.spark.master == "local[*]" and settings.spark.memory == "4g" and settings.spark.conf == {}
        assert settings.leases.timeout == timedelta(seconds=60)
        assert settings.defaults.retention.keep_last == 30
        assert settings.defaults.compaction.target_file_size_mb == 512

    def test_the_sample_of_the_design(self, tmp_path: Path) -> None:
        settings = read(
            tmp_path,
            """
            lakes:
              main: {catalog: {type: sql, uri: "sqlite:///lake/catalog.db"}, warehouse: lake/warehouse}
              eu: {catalog: {type: rest, uri: "http://eu:8181", token: "${EU_TOKEN}"}, warehouse: s3://lake-eu/wh,
                   storage: {endpoint: "http://eu:9000", access_key: "${EU_KEY}"}, spark: {"header.X-Team": lake}}
            spark: {master: "local[*]", memory: 4g, conf: {}}
            state: sqlite:///lakewarden.db
            defaults:
              retention: {keep_last: 30, keep_days: 90, keep_tagged: true, production_keep_days: 730}
              compaction: {target_file_size_mb: 512, min_file_size_mb: 10, max_concurrent_files: 100,
                           rewrite_all: false}
            tables:
              "bronze.*": {retention: {keep_days: 30}}
              gold.customers: {production: true, erasure: {keys: [email], grace: 7d}}
              "flink.*": {skip: true}
            """,
            EU_TOKEN="t0ken",
            EU_KEY="k3y",
        )
        assert list(settings.lakes) == ["main", "eu"] and settings.default_lake == "main"
        eu = settings.lake("eu")
        assert eu.catalog == {"type": "rest", "uri": "http://eu:8181", "token": "t0ken"}
        assert eu.storage.access_key == "k3y" and eu.storage.path_style and not eu.is_local
        assert eu.spark == {"header.X-Team": "lake"}
        bronze = settings.tables["bronze.*"].retention
        assert bronze is not None and bronze.model_dump(exclude_unset=True) == {"keep_days": 30}
        customers = settings.tables["gold.customers"]
        assert customers.production and customers.erasure is not None
        assert customers.erasure.keys == ["email"] and customers.erasure.grace == timedelta(days=7)
        assert settings.skips("main", "flink.events") and not settings.skips("main", "gold.customers")

    def test_spark_settings_are_text(self, tmp_path: Path) -> None:
        conf = {"a": True, "b": 2, "c": 1.5, "d": "x", "e": False}
        assert read(tmp_path, {"lakes": {"main": LAKE}, "spark": {"conf": conf}}).spark.conf == {
            "a": "true",
            "b": "2",
            "c": "1.5",
            "d": "x",
            "e": "false",
        }

    def test_merge_keys(self, tmp_path: Path) -> None:
        text = """
        lakes:
          main: &main {catalog: {type: sql, uri: "sqlite:///a.db"}, warehouse: wh}
          eu: {<<: *main, warehouse: eu}
        """
        settings = read(tmp_path, text)
        assert settings.lake("eu").warehouse == f"file://{tmp_path}/eu"
        assert settings.lake("eu").catalog == settings.lake("main").catalog

    def test_an_unknown_lake(self, tmp_path: Path) -> None:
        settings = read(tmp_path, {"lakes": {"main": LAKE, "europe": LAKE}})
        with pytest.raises(LakeNotFound, match="no lake 'eurpe'") as near:
            settings.lake("eurpe")
        assert near.value.hint == "Did you mean europe?"
        with pytest.raises(LakeNotFound) as far:
            settings.lake("x")
        assert far.value.hint == "Configured: main, europe."


class TestPaths:
    def test_relative_ones_are_relative_to_the_file(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir("/")
        settings = read(tmp_path, {"lakes": {"main": LAKE}, "state": "sqlite:///state/x.db"})
        assert settings.lake("main").catalog["uri"] == f"sqlite:///{tmp_path}/lake/catalog.db"
        assert settings.lake("main").warehouse == f"file://{tmp_path}/lake/warehouse"
        assert settings.lake("main").is_local
        assert settings.state == f"sqlite:///{tmp_path}/state/x.db"

    def test_the_default_state_too(self, tmp_path: Path) -> None:
        assert read(tmp_path, {"lakes": {"main": LAKE}}).state == f"sqlite:///{tmp_path}/lakewarden.db"

    @pytest.mark.parametrize(
        ("given_warehouse", "becomes"),
        [
            ("/data/wh", "file:///data/wh"),
            ("/data/wh/", "file:///data/wh"),
            ("file:///data/wh", "file:///data/wh"),
            ("s3://bucket/wh/", "s3://bucket/wh"),
            ("s3a://bucket", "s3a://bucket"),
            ("../wh", "file://{parent}/wh"),
            ("./a b", "file://{folder}/a b"),
        ],
    )
    def test_warehouses(self, tmp_path: Path, given_warehouse: str, becomes: str) -> None:
        settings = read(tmp_path, {"lakes": {"main": LAKE | {"warehouse": given_warehouse}}})
        assert settings.lake("main").warehouse == becomes.format(folder=tmp_path, parent=tmp_path.parent)

    @pytest.mark.parametrize("character", ["#", "?", "%20"])
    def test_what_would_be_taken_for_something_else(self, tmp_path: Path, character: str) -> None:
        folder = tmp_path / f"a{character}b"
        folder.mkdir()
        told = "cannot be used: the path contains #, ? or %"
        for data in (
            {"lakes": {"main": LAKE}},
            {
                "lakes": {"main": LAKE | {"catalog": {"type": "sql", "uri": "sqlite:////c.db"}}},
                "state": "sqlite:////s.db",
            },
        ):
            with pytest.raises(ConfigProblem) as caught:
                read(folder, data)
            assert told in caught.value.message

    @pytest.mark.parametrize(
        "uri",
        [
            "sqlite:////data/catalog.db",
            "sqlite:////data/catalog.db?timeout=30",
            "sqlite:///:memory:",
            "postgresql+psycopg://u:p@host:5432/db?sslmode=require",
            "http://localhost:8181",
        ],
    )
    def test_what_is_absolute_stays(self, tmp_path: Path, uri: str) -> None:
        kind = "rest" if uri.startswith("http") else "sql"
        settings = read(tmp_path, {"lakes": {"main": LAKE | {"catalog": {"type": kind, "uri": uri}}}})
        assert settings.lake("main").catalog["uri"] == uri


class TestVariables:
    def test_are_put_in_anywhere(self, tmp_path: Path) -> None:
        data = {
            "lakes": {"main": LAKE | {"storage": {"access_key": "${KEY}", "secret_key": "a${SECRET}b${SECRET}"}}},
            "state": "postgresql+psycopg://u:${SECRET}@h/d",
            "tables": {"a.*": {"erasure": {"keys": ["${COLUMN}"]}}},
        }
        settings = read(tmp_path, data, KEY="${SECRET}", SECRET="s$1", COLUMN="email")
        storage = settings.lake("main").storage
        assert storage.access_key == "${SECRET}"  # what is put in is not looked at again
        assert storage.secret_key == "as$1bs$1"
        assert settings.state == "postgresql+psycopg://u:s$1@h/d"
        erasure = settings.tables["a.*"].erasure
        assert erasure is not None and erasure.keys == ["email"]

    def test_an_empty_one_is_set(self, tmp_path: Path) -> None:
        data = {"lakes": {"main": LAKE | {"storage": {"region": "${REGION}"}}}}
        assert read(tmp_path, data, REGION="").lake("main").storage.region == ""

    def test_one_that_is_not_set(self, tmp_path: Path) -> None:
        error = problem(tmp_path, {"lakes": {"main": LAKE | {"storage": {"access_key": "${EU_KEY}"}}}})
        assert error.message.endswith("uses ${EU_KEY}, which is not set")
        assert error.hint == "export EU_KEY=…"

    @pytest.mark.parametrize("text", ["$HOME", "${}", "${1A}", "${a-b}", "$${", "${HOME"])
    def test_what_is_not_a_variable(self, tmp_path: Path, text: str) -> None:
        data = {"lakes": {"main": LAKE | {"storage": {"region": text}}}}
        assert read(tmp_path, data).lake("main").storage.region == text


class TestUnknownKeys:
    @pytest.mark.parametrize(
        ("data", "key", "hint"),
        [
            ({"lake": {}}, "lake", "Did you mean lakes?"),
            ({"spark": {"masster": "x"}}, "spark.masster", "Did you mean master?"),
            ({"leases": {"timeot": "1s"}}, "leases.timeot", "Did you mean timeout?"),
            ({"defaults": {"retension": {}}}, "defaults.retension", "Did you mean retention?"),
            ({"defaults": {"retention": {"keep_day": 1}}}, "defaults.retention.keep_day", "Did you mean keep_days?"),
            (
                {"defaults": {"compaction": {"rewrite": True}}},
                "defaults.compaction.rewrite",
                "Did you mean rewrite_all?",
            ),
            ({"lakes": {"main": LAKE | {"warehous": "x"}}}, "lakes.main.warehous", "Did you mean warehouse?"),
            (
                {"lakes": {"main": LAKE | {"storage": {"acces_key": "x"}}}},
                "lakes.main.storage.acces_key",
                "Did you mean access_key?",
            ),
            ({"tables": {"a.*": {"skp": True}}}, "tables.a.*.skp", "Did you mean skip?"),
            ({"tables": {"a.*": {"erasure": {"key": []}}}}, "tables.a.*.erasure.key", "Did you mean keys?"),
            (
                {"tables": {"a.*": {"retention": {"keep_dayz": 1}}}},
                "tables.a.*.retention.keep_dayz",
                "Did you mean keep_days?",
            ),
            (
                {"tables": {"a.*": {"compaction": {"target_file_size": 1}}}},
                "tables.a.*.compaction.target_file_size",
                "Did you mean target_file_size_mb?",
            ),
            (
                {"qwertz": 1},
                "qwertz",
                f"Known keys: {', '.join(sorted(Settings.model_fields))}.",
            ),
        ],
    )
    def test_are_named_with_the_nearest(self, tmp_path: Path, data: dict[str, Any], key: str, hint: str) -> None:
        error = problem(tmp_path, {"lakes": {"main": LAKE}} | data)
        assert error.message == f"{tmp_path / FILE_NAME}: unknown key {key}"
        assert error.hint == hint

    def test_all_are_told_at_once(self, tmp_path: Path) -> None:
        error = problem(tmp_path, {"lakes": {"main": LAKE | {"storag": {}}}, "stat": "x", "spark": {"memory": 4}})
        assert "unknown key lakes.main.storag" in error.message
        assert "unknown key stat" in error.message
        assert "spark.memory: " in error.message
        assert error.hint == "Did you mean storage? Did you mean state?"


class TestValues:
    @pytest.mark.parametrize(
        ("data", "told"),
        [
            ({"lakes": {}}, "lakes: "),
            ({"lakes": None}, "lakes: "),
            ({"lakes": ["main"]}, "lakes: "),
            ({"lakes": {"main": None}}, "lakes.main: "),
            ({"lakes": {"main": {"warehouse": "x"}}}, "lakes.main.catalog: "),
            ({"lakes": {"main": {"catalog": LAKE["catalog"]}}}, "lakes.main.warehouse: "),
            ({"lakes": {"main": LAKE | {"catalog": {}}}}, "type must be one of sql, rest, hive, glue"),
            ({"lakes": {"main": LAKE | {"catalog": {"type": "sq"}}}}, "type must be one of sql, rest, hive, glue"),
            ({"lakes": {"main": LAKE | {"catalog": {"type": ["sql"]}}}}, "type must be one of"),
            ({"lakes": {"main": LAKE | {"catalog": {"type": "rest"}}}}, "a catalog of type rest needs a uri"),
            ({"lakes": {"main": LAKE | {"catalog": {"type": "sql", "uri": "lake.db"}}}}, "uri"),
            ({"lakes": {"main": LAKE | {"catalog": {"type": "sql", "uri": "sqlite:lake.db"}}}}, "sqlite:///"),
            ({"lakes": {"main": LAKE | {"catalog": {"type": "sql", "uri": "sqlite://"}}}}, "sqlite:///"),
            ({"lakes": {"1a": LAKE}}, "'1a' is not a valid lake name"),
            ({"lakes": {"a.b": LAKE}}, "'a.b' is not a valid lake name"),
            ({"lakes": {"ä": LAKE}}, "'ä' is not a valid lake name"),
            ({"lakes": {"x" * 64: LAKE}}, "is not a valid lake name"),
            ({"lakes": {"main": LAKE}, "leases": {"timeout": "soon"}}, "leases.timeout: 'soon' is not a duration"),
            ({"lakes": {"main": LAKE}, "leases": {"timeout": "0s"}}, "leases.timeout: "),
            ({"lakes": {"main": LAKE}, "spark": {"conf": ["a"]}}, "spark.conf: "),
            ({"lakes": {"main": LAKE}, "defaults": {"retention": {"keep_last": 0}}}, "defaults.retention.keep_last: "),
            ({"lakes": {"main": LAKE}, "tables": {"a.*": {"retention": {"keep_days": -1}}}}, "retention.keep_days: "),
            ({"lakes": {"main": LAKE}, "tables": {"a.*": {"erasure": {"grace": "7"}}}}, "tables.a.*.erasure.grace: "),
            ({1: 2}, "1"),
        ],
    )
    def test_what_does_not_fit_is_told_by_its_place(self, tmp_path: Path, data: Any, told: str) -> None:
        assert told in problem(tmp_path, data).message

    def test_values_are_not_repeated(self, tmp_path: Path) -> None:
        storage = {"access_key": ["hunter2"], "secret_key": {"a": "hunter2"}, "session_token": 77}
        error = problem(tmp_path, {"lakes": {"main": LAKE | {"storage": storage}}, "state": ["hunter2"]})
        assert "hunter2" not in error.message and "77" not in error.message


class TestYaml:
    @pytest.mark.parametrize(
        ("text", "told"),
        [
            ("lakes: {main: [", "line 1, column 1"),
            ("lakes:\n  main:\n bad: x\n", "line 3, column"),
            ("lakes:\n\tmain: x", "line 2, column 1"),
            ('lakes: "x', "line 1, column"),
            ("a: &x 1\nb: *y", "line 2, column 4"),
            ("a: !!python/object:os.system x", "line 1, column 4"),
            ("{[1]: 2}", "line 1, column 2"),
            ("lakes: 1\nspark: 2\nlakes: 3", "line 1, column 1: duplicate key 'lakes'"),
            ("spark:\n  master: a\n  master: b", "line 2, column 3: duplicate key 'master'"),
            ("a: 1\n---\nb: 2", "line 2"),
            ("", "has no keys"),
            ("# nothing\n", "has no keys"),
            ("[1, 2]", "has no keys"),
            ("text", "has no keys"),
            ("null", "has no keys"),
            ("a: \x00", "cannot be read"),
            ("state: 2024-13-45", "cannot be read"),
            ("state: !!int x", "cannot be read"),
            ("state: !!map x", "cannot be read"),
            ("state: &a [*a]", "cannot be read"),
            ("state: " + "[" * 5000, "cannot be read"),
        ],
    )
    def test_what_cannot_be_read(self, tmp_path: Path, text: str, told: str) -> None:
        assert told in problem(tmp_path, text).message

    def test_not_utf_8(self, tmp_path: Path) -> None:
        path = tmp_path / FILE_NAME
        path.write_bytes("state: Zürich".encode("latin-1"))
        with pytest.raises(ConfigProblem, match="cannot be read: .*utf-8"):
            load(path, environment())

    def test_no_right_to_read(self, tmp_path: Path) -> None:
        path = tmp_path / FILE_NAME
        path.write_text("lakes: {}")
        path.chmod(0)
        with nobody(), pytest.raises(ConfigProblem) as caught:
            load(path, environment())
        assert "Permission denied" in caught.value.message or "no configuration" in caught.value.message

    def test_a_bomb_of_aliases_is_not_blown_up(self, tmp_path: Path) -> None:
        lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
        lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 12)]
        problem(tmp_path, "\n".join(lines))


class TestFinding:
    def test_the_given_one_comes_first(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("given", "named", "here"):
            (tmp_path / name).mkdir()
            (tmp_path / name / FILE_NAME).touch()
        monkeypatch.chdir(tmp_path / "here")
        named = environment(LAKEWARDEN_CONFIG=str(tmp_path / "named" / FILE_NAME))
        assert find(tmp_path / "given" / FILE_NAME, named) == tmp_path / "given" / FILE_NAME
        assert find(tmp_path / "given", named) == tmp_path / "given" / FILE_NAME  # a folder will do
        assert find(None, named) == tmp_path / "named" / FILE_NAME
        assert find(None, environment()) == tmp_path / "here" / FILE_NAME
        assert find(Path("../given"), environment()) == tmp_path / "given" / FILE_NAME

    @pytest.mark.parametrize("path", ["nowhere.yaml", "a/b/c", "x" * 300, "a\0b"])
    def test_none_there(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
        monkeypatch.chdir(tmp_path)
        with pytest.raises(ConfigProblem, match="no configuration file at") as caught:
            find(Path(path), environment())
        assert "lakewarden lake init DIR" in caught.value.hint

    def test_one_that_may_not_be_looked_at(self, tmp_path: Path) -> None:
        folder = tmp_path / "closed"
        folder.mkdir()
        (folder / FILE_NAME).touch()
        folder.chmod(0)
        try:
            with nobody(), pytest.raises(ConfigProblem, match="no configuration file at|cannot be read"):
                find(folder / FILE_NAME, environment())
        finally:
            folder.chmod(0o755)


class TestEnvironment:
    def test_defaults(self) -> None:
        found = environment()
        assert found.cache == Path("/home/someone/.cache/lakewarden")
        assert found.logs == Path("/home/someone/.local/state/lakewarden")
        assert found.config is None and found.java_home is None and found.failpoints == "" and found.user

    def test_what_is_taken(self) -> None:
        found = environment(
            XDG_CACHE_HOME="/c", XDG_STATE_HOME="/s", JAVA_HOME="/j", LAKEWARDEN_ACTOR="ann", LAKEWARDEN_CONFIG="/x"
        )
        assert (found.cache, found.logs) == (Path("/c/lakewarden"), Path("/s/lakewarden"))
        assert (found.java_home, found.user, found.config) == (Path("/j"), "ann", Path("/x"))

    def test_empty_is_unset(self) -> None:
        found = environment(XDG_CACHE_HOME="", JAVA_HOME="", LAKEWARDEN_CONFIG="", LAKEWARDEN_ACTOR="", USER="bo")
        assert found.cache == Path("/home/someone/.cache/lakewarden")
        assert found.java_home is None and found.config is None and found.user == "bo"


class TestSkipping:
    @pytest.mark.parametrize(
        ("tables", "table", "skipped"),
        [
            ({}, "a.b", False),
            ({"a.*": True}, "a.b", True),
            ({"a.*": True}, "ab.c", False),
            ({"*": True, "a.*": False}, "a.b", False),
            ({"*": True, "a.*": False}, "b.b", True),
            ({"a.*": False, "a.b": True}, "a.b", True),
            ({"a.b": False, "a.*": True, "*": True}, "a.b", False),
            ({"a.*": True, "a.b*": False}, "a.bc", False),
            ({"a.b?": False, "a.*": True}, "a.bc", False),
            ({"main.a.*": True, "a.*": False}, "a.b", True),  # with its lake it is more specific
            ({"eu.a.*": True}, "a.b", False),
            ({"main.a.b": False, "a.b": True}, "a.b", False),
            ({"*.b": True}, "a.b", True),
            ({"A.*": True}, "a.b", False),
            ({"a.*": None, "*": True}, "a.b", True),  # says nothing of skipping, so the next one does
            ({"a.b": None, "a.*": True}, "a.b", True),
            ({"a.*": True}, "a.n.b", True),
        ],
    )
    def test_the_most_specific_pattern_wins(self, tables: dict[str, bool | None], table: str, skipped: bool) -> None:
        for order in (list(tables), list(reversed(tables))):
            declared = {pattern: {"skip": tables[pattern], "production": True} for pattern in order}
            assert (
                Settings.model_validate({"lakes": {"main": LAKE}, "tables": declared}).skips("main", table) is skipped
            )


class TestLayers:
    """A section of layers adds to the four that are there by themselves."""

    def layers(self, folder: Path, given: dict[str, Any] | None = None) -> Settings:
        return read(folder, {"lakes": {"main": LAKE}, **({} if given is None else {"layers": given})})

    def test_the_usual_ones(self, tmp_path: Path) -> None:
        settings = self.layers(tmp_path)
        assert set(settings.layers) == {"bronze", "silver", "gold", "platinum"}
        assert [name for name, layer in settings.layers.items() if layer.production] == ["gold", "platinum"]
        assert [layer.retention and layer.retention.keep_days for layer in settings.layers.values()][:2] == [30, 90]

    def test_one_of_ones_own_leaves_the_usual_ones(self, tmp_path: Path) -> None:
        settings = self.layers(tmp_path, {"raw": {"retention": {"keep_days": 7}}})
        usual = self.layers(tmp_path).layers
        assert {name: settings.layers[name] for name in usual} == usual
        assert settings.layer("raw.events") == ("raw", settings.layers["raw"])
        assert set(settings.layers) == {*usual, "raw"}

    def test_only_what_is_said_of_a_usual_one_changes(self, tmp_path: Path) -> None:
        given = {"bronze": {"retention": {"keep_last": 5}}, "gold": {"retention": {"keep_last": 9}}}
        layers = self.layers(tmp_path, given).layers
        bronze, gold = layers["bronze"].retention, layers["gold"]
        assert bronze is not None and bronze.model_dump(exclude_unset=True) == {"keep_days": 30, "keep_last": 5}
        assert gold.production is True and gold.retention is not None and gold.retention.keep_last == 9

    def test_a_usual_one_can_be_turned_off(self, tmp_path: Path) -> None:
        assert self.layers(tmp_path, {"gold": {"production": False}}).layers["gold"].production is False

    def test_a_wrong_key_is_named(self, tmp_path: Path) -> None:
        error = problem(tmp_path, {"lakes": {"main": LAKE}, "layers": {"gold": {"producton": True}}})
        assert error.hint == "Did you mean production?"


class TestSecrets:
    def test_are_not_in_the_text_of_settings(self, tmp_path: Path) -> None:
        secrets = {
            "lakes": {
                "main": {
                    "catalog": {"type": "rest", "uri": "http://x", "token": "hunter2", "credential": "id:hunter2"},
                    "warehouse": "s3://b/w",
                    "storage": {"access_key": "hunter2", "secret_key": "hunter2", "session_token": "hunter2"},
                    "spark": {"token": "hunter2"},
                }
            },
            "spark": {
                "conf": {"spark.hadoop.fs.s3a.secret.key": "hunter2"},
                "remote": "sc://host:15002/;token=hunter2",
            },
            "state": "postgresql+psycopg://u:hunter2@h/d",
        }
        settings = read(tmp_path, secrets)
        for shown in (settings, settings.lake("main"), settings.lake("main").storage, settings.spark):
            assert "hunter2" not in repr(shown) and "hunter2" not in str(shown)


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.dates()
keys = st.sampled_from(
    [
        *("lakes", "main", "catalog", "type", "uri", "warehouse", "storage", "spark", "conf", "master", "state"),
        *(
            "leases",
            "timeout",
            "defaults",
            "retention",
            "keep_days",
            "tables",
            "a.*",
            "skip",
            "erasure",
            "keys",
            "grace",
        ),
    ]
)
values = st.recursive(
    scalars | st.sampled_from(["sql", "rest", "sqlite:///a.db", "90d", "${HOME}", "${X}"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(keys | st.text(max_size=4) | st.integers(), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(st.dictionaries(keys, values, max_size=4) | values)
@example({"lakes": {"main": {"x": 1}}})
@example({"\n": None})
@example({"lakes": {"main": {"storage": {"x": 1}}}})
@example({"tables": {"a": {"retention": {"x": True}}}})
@example({"lakes": {"main": LAKE}, "tables": {"a": {"erasure": {"grace": float("nan")}}}})
@example({"lakes": {"main": LAKE | {"catalog": {"type": "sql", "uri": {"a": 1}}}}})
@examples(200, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_data_is_settings_or_a_problem(tmp_path: Path, data: Any) -> None:
    try:
        settings = read(tmp_path, data)
        assert settings.lakes or settings.sequences
    except ConfigProblem as error:
        told = error
    else:
        return
    assert told.hint and "\n" not in told.message


@given(st.text() | st.binary().map(lambda raw: raw.decode("utf-8", "replace")))
@examples(200, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_text_is_settings_or_a_problem(tmp_path: Path, text: str) -> None:
    path = tmp_path / FILE_NAME
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigProblem):  # no text that is made at random describes a lake
        load(path, environment())


class TestWarehousesOfRestCatalogs:
    """A REST catalog may know its warehouse by a name or an ARN; that is no path."""

    @pytest.mark.parametrize("name", ["prod", "arn:aws:s3tables:eu-central-1:1234:bucket/lake"])
    def test_a_name_stays_as_it_is(self, tmp_path: Path, name: str) -> None:
        lake = {"catalog": {"type": "rest", "uri": "https://catalog.example.org"}, "warehouse": name}
        file = tmp_path / "lakewarden.yaml"
        file.write_text(yaml.safe_dump({"lakes": {"main": lake}}))
        found = load(file, Environment.read({})).lake("main")
        assert (found.warehouse, found.has_named_warehouse, found.is_local) == (name, True, False)

    @pytest.mark.parametrize("path", ["./lake", "/lake", "file:///lake"])
    def test_a_path_is_a_path(self, tmp_path: Path, path: str) -> None:
        lake = {"catalog": {"type": "rest", "uri": "https://catalog.example.org"}, "warehouse": path}
        file = tmp_path / "lakewarden.yaml"
        file.write_text(yaml.safe_dump({"lakes": {"main": lake}}))
        found = load(file, Environment.read({})).lake("main")
        assert found.is_local and not found.has_named_warehouse
