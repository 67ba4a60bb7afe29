"""SQL from callers, on real tables: at every door, on DuckDB and on Spark (features/shared/sql_function.py,
features/viewset/sql_functions.py, features/viewset/reading.py, doors/cli/query.py)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from unittest.mock import ANY

import pytest
from pyiceberg.types import StringType

from lakewarden.doors.cli.main import run
from lakewarden.errors import BadValue, NotFound
from lakewarden.features.query.statement import ENGINES, Engine
from lakewarden.features.query.statement import run as run_statement
from lakewarden.lifecycle.states import State
from lakewarden.warden import LeftOut
from tests.doors.rest.client import API, Client
from tests.features.viewset.logs import RANGE, Logs
from tests.small_lake import SmallLake

if TYPE_CHECKING:
    from lakewarden.lifecycle.plan import Plan
    from lakewarden.lifecycle.report import Report
    from lakewarden.lifecycle.request import Operation

pytestmark = pytest.mark.spark
WIDER = f"SELECT time, process_id, level, msg, upper(msg) AS shout FROM raw.logs WHERE {RANGE}"


@pytest.fixture
def logs(lake: SmallLake) -> Logs:
    """Three hours of entries, materialized for `global` and for `p1`."""
    found = Logs(lake)
    found.insert(0, 1, 61, level=1)
    found.insert(2, 122, process="o'; DROP TABLE x", level=3)
    found.define(instances="process_id")
    found.write(3)
    found.write(3, instance="p1")
    return found


def rows(logs: Logs, sql: str, engine: Engine = "duckdb", **more: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = logs.lake.warden.queried(sql, engine, **more).rows.to_pylist()
    return found


@pytest.mark.parametrize("engine", ENGINES)
def test_tables_lists_and_functions(logs: Logs, engine: Engine) -> None:
    assert rows(logs, "SELECT count(*) AS n, max(level) AS most FROM raw.logs", engine) == [{"n": 5, "most": 3}]
    joined = (
        "SELECT p.view_instance_id AS instance, count(*) AS n, sum(num_rows) AS total, array_agg(file_path) AS paths "
        "FROM list_partitions() p JOIN list_view_sets() v ON p.view_set_name = v.view_set_name "
        "AND p.file_schema_hash = v.current_schema_hash GROUP BY p.view_instance_id ORDER BY instance"
    )
    found = rows(logs, joined, engine)
    assert [(row["instance"], row["n"], row["total"]) for row in found] == [("global", 3, 5), ("p1", 3, 3)]
    paths = {row.file_path for row in logs.viewset.partitions() if row.view_instance_id == "global"}
    assert set(found[0]["paths"]) == paths

    logs.define(WIDER, instances="process_id")
    told = rows(
        logs,
        "SELECT p.begin_insert_time AS at, retire_partition_by_file(p.file_path) AS told FROM list_partitions() p "
        "JOIN list_view_sets() v ON p.view_set_name = v.view_set_name AND p.file_schema_hash <> v.current_schema_hash "
        "WHERE p.file_path IS NOT NULL AND p.view_instance_id = 'global' ORDER BY p.begin_insert_time",
        engine,
    )
    assert {row["told"].split(" partition ")[1] for row in told} == paths
    assert all(row["told"].startswith("SUCCESS: Retired partition ") for row in told)
    made = rows(
        logs,
        "SELECT msg FROM materialize_partitions('entries', TIMESTAMP '2026-01-01 00:00:00', "
        "(SELECT TIMESTAMP '2026-01-01 03:00:00' FROM list_view_sets()), 60 * 60) ORDER BY time",
        engine,
    )
    assert made[0]["msg"].startswith("write 3 partitions of global")
    assert made[1]["msg"].startswith("done op-")
    assert rows(logs, "SELECT count(*) AS n FROM viewsets.entries", engine) == [{"n": 5}]


def test_retiring_twice_succeeds_once(logs: Logs) -> None:
    row = next(row for row in logs.viewset.partitions() if row.view_instance_id == "p1")
    call = f"SELECT retire_partition_by_file('{row.file_path}') AS told"
    assert rows(logs, call) == [{"told": f"SUCCESS: Retired partition {row.file_path}"}]
    assert rows(logs, call) == [{"told": f"ERROR: Partition not found: {row.file_path}"}]
    assert rows(logs, "SELECT retire_partition_by_file('x''; DROP TABLE ü') AS told") == [
        {"told": "ERROR: Partition not found: x'; DROP TABLE ü"}
    ]
    # the journal has one operation; what failed changed nothing
    assert [one.state for one in logs.lake.warden.operation.list() if one.kind == "viewset.retire"] == [State.DONE]


def test_by_metadata_empty_partitions_too(logs: Logs) -> None:
    logs.write(5)  # the last two have no rows
    call = (
        "SELECT num_rows, retire_partition_by_metadata(view_set_name, view_instance_id, begin_insert_time, "
        "end_insert_time, file_schema_hash) AS told FROM list_partitions() "
        "WHERE begin_insert_time >= '2026-01-01 02:00:00Z' AND view_instance_id = 'global' ORDER BY begin_insert_time"
    )
    told = rows(logs, call)
    assert [(row["num_rows"], row["told"].split()[0]) for row in told] == [
        (1, "SUCCESS:"),
        (0, "SUCCESS:"),
        (0, "SUCCESS:"),
    ]
    assert rows(logs, call) == []
    assert len([one for one in logs.lake.warden.operation.list() if one.kind == "viewset.retire"]) == 1
    assert {row.num_rows for row in logs.viewset.partitions() if row.view_instance_id == "global"} == {3, 1}


def test_times_and_identities_that_do_not_fit(logs: Logs) -> None:
    logs.write(1, instance="NULL")  # no rows have it, and it is not NULL
    row = next(row for row in logs.viewset.partitions() if row.view_instance_id == "p1")
    call = "SELECT retire_partition_by_metadata('entries', {}, {}, '2026-01-01 01:00:00', '{}') AS told"
    for instance, begin, told in (
        ("'p1'", "'soon'", "ERROR: soon is not a time"),
        ("NULL", "'2026-01-01'", "ERROR: Partition not found: entries/NULL"),
        ("'p1'", "NULL", "ERROR: NULL is not a time"),
        ("'p1'", "DATE '2026-01-01'", "SUCCESS: Retired partition entries/p1"),
    ):
        (found,) = rows(logs, call.format(instance, begin, row.file_schema_hash))
        assert found["told"].startswith(told)


def test_an_error_comes_before_the_change(logs: Logs) -> None:
    before, retire = logs.held(), "retire_partitions('entries', 'global', '2026-01-01', '2026-01-02')"
    for sql in (
        f"SELECT message FROM {retire}",
        f"SELECT * FROM {retire} WHERE msg IN (SELECT city FROM raw.nothing)",
        "SELECT retire_partition_by_file(file_path), retire_partition_by_metadata('entries') FROM list_partitions()",
        "SELECT retire_partition_by_file(file_path) AS r, r AS again FROM list_partitions()",
        "SELECT * FROM retire_partitions('entries', unnest(['global', 'p1']), '2026-01-01', '2026-01-02')",
        "SELECT * FROM retire_partitions('entries', NULL, '2026-01-01', '2026-01-02')",
    ):
        with pytest.raises((BadValue, NotFound)):
            rows(logs, sql)
        assert logs.held() == before, sql
    other = "SELECT * FROM retire_partitions('entries', '', '2026-01-01', '2026-01-02')"  # an instance like any other
    assert rows(logs, other) == [{"time": ANY, "msg": "nothing to do"}] and logs.held() == before


def test_one_that_is_gone_does_not_stop_the_others(logs: Logs) -> None:
    """Another process retires one of two between the plan and its application: only one is ours."""
    warden = logs.lake.warden
    paths = sorted(row.file_path for row in logs.viewset.partitions() if row.view_instance_id == "global")[:2]

    def operate(operation: Operation) -> tuple[Plan, Report | None]:
        planned = warden.plan(operation)
        logs.viewset.retire("entries", file=[paths[0]]).apply()
        return planned.plan, planned.apply()

    sql = f"SELECT retire_partition_by_file(p) AS told FROM (VALUES ('{paths[0]}'), ('{paths[1]}')) AS t(p)"
    told = run_statement(warden.ground, sql, "duckdb", operate).rows.to_pydict()["told"]
    assert [text.split()[0] for text in told] == ["ERROR:", "SUCCESS:"]
    paths[0] = next(row.file_path for row in logs.viewset.partitions() if row.view_instance_id == "p1")
    told = run_statement(warden.ground, f"SELECT retire_partition_by_file('{paths[0]}') AS told", "duckdb", operate)
    assert told.rows.to_pydict() == {"told": [f"ERROR: Partition not found: {paths[0]}"]}
    gone = logs.viewset.retire("entries", file=[paths[0], logs.viewset.partitions()[0].file_path])
    assert gone.plan.warnings[0] == f"Partition not found: {paths[0]}" and len(gone.plan.actions) == 1


def test_versions_are_read_with_their_own_schema(logs: Logs) -> None:
    logs.lake.warden.version.tag("raw.logs", "v1").apply()
    with logs.lake.catalog.load_table("raw.logs").update_schema() as change:
        change.delete_column("level")
        change.add_column("more", StringType())
    for engine in ENGINES:
        table = '"raw.logs@v1"' if engine == "duckdb" else "`raw.logs@v1`"
        assert list(rows(logs, f"SELECT * FROM {table}", engine)[0]) == [
            "inserted_at",
            "time",
            "process_id",
            "level",
            "msg",
        ]
        both = f"SELECT count(*) AS n FROM {table} a JOIN raw.logs b ON a.msg = b.msg WHERE b.more IS NULL"
        assert rows(logs, both, engine) == [{"n": 5}]


def test_an_instance_with_quotes_is_data(logs: Logs) -> None:
    name = "o'; DROP TABLE x"
    logs.write(3, instance=name)
    assert rows(logs, "SELECT count(*) AS n FROM view_instance('entries', 'o''; DROP TABLE x')") == [{"n": 2}]
    assert rows(logs, "SELECT msg FROM retire_partitions('entries', 'o''; DROP TABLE x', '2026-01-01', '2026-01-02')")
    assert name not in {row.view_instance_id for row in logs.viewset.partitions()}
    assert rows(logs, "SELECT count(*) AS n FROM raw.logs") == [{"n": 5}]


def test_readers_see_one_instance_with_the_current_schema(logs: Logs) -> None:
    warden = logs.lake.warden
    found = warden.queried("SELECT * FROM viewsets.entries")
    assert found.rows.column_names == ["time", "process_id", "level", "msg"] and found.rows.num_rows == 5
    assert found.notes == ("entries, instance global: left out 3 partitions of other instances",)
    before = warden.version.list("viewsets.entries")[0].snapshot_id
    logs.define(WIDER, instances="process_id")
    logs.write(1)
    with pytest.warns(LeftOut, match="left out 3 partitions of another schema and 3 partitions of other instances"):
        frame = warden.query("SELECT shout FROM viewsets.entries ORDER BY shout")
    assert frame["shout"].tolist() == ["M0", "M1", "M2"]
    assert rows(logs, f'SELECT count(*) AS n FROM "viewsets.entries@{before}"') == [{"n": 5}]
    then = warden.version.list("viewsets.entries")[0].snapshot_id
    logs.define(WIDER, instances="process_id", schema_version=2)
    logs.write(1)
    assert rows(logs, f'SELECT count(*) AS n FROM "viewsets.entries@{then}"') == [{"n": 3}]
    assert sorted(rows(logs, "SELECT msg FROM view_instance('entries', 'p1')"), key=str) == []
    read = warden.version.read("viewsets.entries")
    assert {row["shout"] for row in read} == {"M0", "M1", "M2"} and "view_instance_id" not in read[0]
    with pytest.warns(LeftOut):
        assert len(warden.arrow("viewsets.entries")) == 3 and warden.dataframe("viewsets.entries").count() == 3


def test_hidden_rows_are_not_read(logs: Logs) -> None:
    warden = logs.lake.warden
    warden.erasure.request("raw.logs", key="msg", value=["m0"])
    for engine in ENGINES:
        assert rows(logs, "SELECT count(*) AS n FROM raw.logs", engine) == [{"n": 4}]


def test_a_plan_changes_nothing(logs: Logs) -> None:
    before = logs.held()
    call = "SELECT * FROM retire_partitions('entries', 'global', '2026-01-01', '2026-01-02')"
    found = logs.lake.warden.queried(call, plan=True)
    assert [plan.kind for plan in found.plans] == ["viewset.retire"] and logs.held() == before
    path = logs.viewset.partitions()[0].file_path
    told = logs.lake.warden.queried(f"SELECT retire_partition_by_file('{path}') AS told", plan=True)
    assert told.rows.to_pydict() == {"told": [f"PLANNED: would retire partition {path}"]}
    assert logs.lake.warden.operation.apply(found.plans[0].id).state is State.DONE
    assert logs.held() == {}


def test_over_http_nothing_is_changed_without_apply(logs: Logs) -> None:
    http, before = Client(logs.lake.warden).http, logs.held()
    call = "SELECT * FROM retire_partitions('entries', 'global', '2026-01-01', '2026-01-02')"
    planned = http.post(f"{API}/query", json={"sql": call}).json()
    assert [plan["kind"] for plan in planned["plans"]] == ["viewset.retire"] and logs.held() == before
    applied = http.post(f"{API}/query", json={"sql": call, "apply": True}).json()
    assert applied["plans"] == [] and logs.held() != before


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT * FROM raw.nothing", "raw.nothing"),
        ("SELECT * FROM view_instance('nothing', 'global')", "no view set nothing"),
        ("SELECT * FROM retire_partitions('entries', 'global')", "takes 4 arguments, not 2"),
        ("SELECT retire_partition_by_file('a', 'b')", "takes 1 arguments, not 2"),
        ("SELECT * FROM materialize_partitions('entries', '2026-01-01', '2026-01-02', 'x')", "delta_seconds is x"),
        ("SELECT * FROM materialize_partitions('entries', 'soon', '2026-01-02', 3600)", "soon is not a time"),
    ],
)
def test_errors(logs: Logs, sql: str, message: str) -> None:
    with pytest.raises((BadValue, NotFound), match=message):
        rows(logs, sql)


def test_tables_that_are_too_large_need_spark(logs: Logs) -> None:
    warden = logs.lake.warden
    settings = warden.ground.settings
    tight = settings.model_copy(update={"query": settings.query.model_copy(update={"in_process_mb": 0})})
    warden.ground.settings = tight
    with pytest.raises(BadValue, match="too much for one process"):
        rows(logs, "SELECT count(*) FROM raw.logs")
    assert rows(logs, "SELECT count(*) AS n FROM raw.logs", "spark") == [{"n": 5}]


def test_on_the_command_line(logs: Logs, capsys: pytest.CaptureFixture[str]) -> None:
    config = ["--config", str(logs.lake.folder)]
    sql = "SELECT view_set_name AS name, has_view_maker AS makes FROM list_view_sets()"
    assert run(["query", sql, "--json", *config]) == 0
    assert json.loads(capsys.readouterr().out) == [{"name": "entries", "makes": True}]
    assert run(["query", "SELECT count(*) AS n FROM viewsets.entries", *config]) == 0
    shown = capsys.readouterr()
    assert shown.out.split() == ["n", "─", "5"] and "left out 3 partitions" in shown.err
    retire = "SELECT * FROM retire_partitions('entries', 'p1', '2026-01-01', '2026-01-02')"
    assert run(["query", retire, "--plan", *config]) == 0
    assert "retire 3 partitions" in capsys.readouterr().out
    assert run(["query", "SELECT * FROM list_partitions() WHERE false", *config]) == 0
    assert capsys.readouterr().out == "No rows.\n"
    assert run(["query", "DROP TABLE x", *config]) == 2
