"""The section `sequences`, and the file of the tool that operators use today."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.config import DatabaseAddress, Environment, SequenceSettings, load, load_sequences
from lakewarden.errors import ConfigProblem, LakeNotFound

QUERY = "SELECT UNIX_TIMESTAMP(`created`) FROM `cats` WHERE `id` > '?' ORDER BY `id` ASC LIMIT 1;"
FILE = f"""
partitionmanager:
  num_empty: 3
  partition_period:
    days: 90
  dburl: "sql://user:p%40ss@localhost:3307/test_db"
  noop: false
  tables:
    cats:
      retention:
        days: 60
      earliest_utc_timestamp_query: >
        {QUERY}
    dogs:
      partition_period: {{days: 30}}
      retention_period: {{days: 14}}
    birds:
  prometheus_stats: "/tmp/partition-manager.prom"
"""


def refused(tmp_path: Path, **settings: Any) -> ConfigProblem:
    file = tmp_path / "partman.yaml"
    file.write_text(yaml.safe_dump({"partitionmanager": settings}))
    with pytest.raises(ConfigProblem) as raised:
        load_sequences(file)
    return raised.value


def test_a_file_is_read_unchanged(tmp_path: Path) -> None:
    (tmp_path / "partman.yaml").write_text(FILE)
    found = load_sequences(tmp_path / "partman.yaml")
    assert found.address == DatabaseAddress("localhost", 3307, "user", "test_db", "p@ss")
    assert (found.num_empty, found.noop, str(found.prometheus_stats)) == (3, False, "/tmp/partition-manager.prom")
    assert found.period("cats") == timedelta(days=90) and found.period("dogs") == timedelta(days=30)
    assert [found.table(name).kept_for for name in ("cats", "dogs", "birds")] == [
        timedelta(days=60),
        timedelta(days=14),
        None,
    ]
    assert found.table("cats").earliest_utc_timestamp_query == QUERY
    assert found.grace_of("cats") == timedelta(days=7)
    assert "p@ss" not in repr(found) and "p%40ss" not in repr(found) and "ss" not in str(found.model_dump()["dburl"])


def test_the_section_needs_no_lake(tmp_path: Path) -> None:
    file = tmp_path / "lakewarden.yaml"
    section = {
        "mariadb": "mariadb",
        "prometheus_stats": "x.prom",
        "tables": {"orders": {"archive": {"table": "raw.orders"}, "grace": "3d"}},
    }
    file.write_text(yaml.safe_dump({"sequences": section}))
    settings = load(file, Environment.read({}))
    assert settings.sequences is not None and settings.sequences.table("orders").archive.table == "raw.orders"
    assert settings.sequences.grace_of("orders") == timedelta(days=3)
    assert settings.sequences.prometheus_stats == tmp_path / "x.prom"
    with pytest.raises(LakeNotFound, match="has no lake"):
        assert settings.default_lake


def test_unknown_keys_are_errors(tmp_path: Path) -> None:
    error = refused(tmp_path, num_emty=2, tables={"cats": {"retenton": {"days": 1}}})
    assert "unknown key num_emty" in error.message and "unknown key tables.cats.retenton" in error.message
    assert error.hint == "Did you mean retention? Did you mean num_empty?"
    (tmp_path / "other.yaml").write_text("partitionmanager: {}\nother: 1")
    with pytest.raises(ConfigProblem, match="exactly one key"):
        load_sequences(tmp_path / "other.yaml")


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"partition_period": {"weeks": 1}}, "write a period as"),
        ({"partition_period": {"days": 0}}, "at least an hour"),
        ({"partition_period": {"days": "x"}}, "write a period as"),
        ({"num_empty": 0}, "greater than or equal to 1"),
        ({"dburl": "sql://u:p@h/d", "mariadb": "x"}, "not both"),
        ({"tables": {"t": {"retention": {"days": 1}, "retention_period": {"days": 2}}}}, "they mean the same"),
        ({"tables": {"t": {"earliest_utc_timestamp_query": "SELECT 1 FROM t WHERE id > ?"}}}, "semicolon"),
        ({"tables": {"t": {"earliest_utc_timestamp_query": "SELECT ?; DROP TABLE t;"}}}, "one statement"),
        ({"tables": {"t": {"earliest_utc_timestamp_query": "SELECT 1;"}}}, "exactly one ?"),
        ({"tables": {"t": {"earliest_utc_timestamp_query": "SELECT ? + ?;"}}}, "exactly one ?"),
        ({"tables": {"t": {"earliest_utc_timestamp_query": "DELETE FROM t WHERE id > ?;"}}}, "one SELECT"),
        ({"tables": {"t": {"earliest_utc_timestamp_query": "SELECT ? INTO OUTFILE '/tmp/x';"}}}, "one SELECT"),
    ],
)
def test_what_is_refused(tmp_path: Path, settings: dict[str, Any], reason: str) -> None:
    assert reason in refused(tmp_path, **settings).message


@pytest.mark.parametrize(
    "url",
    [
        "sql://u:s3cret/word@host/db",
        "sql://u:s3cret@host:port/db",
        "mysql://u:s3cret@h/d",
        "sql://u:s3cret@h",
        "s3cret",
    ],
)
def test_a_refused_dburl_is_not_quoted(tmp_path: Path, url: str) -> None:
    error = refused(tmp_path, dburl=url)
    assert "sql://user:password@host:port/database" in error.message and "s3cret" not in str(error)


@given(user=st.text(min_size=1), password=st.text(), database=st.text(min_size=1))
def test_every_password_can_be_written(user: str, password: str, database: str) -> None:
    parts = [quote(part, safe="") for part in (user, password, database)]
    settings = SequenceSettings.model_validate({"dburl": "sql://{}:{}@db.example.org:33/{}".format(*parts)})
    assert settings.address == DatabaseAddress("db.example.org", 33, user, database, password)
