"""`POST /api/v1/query`, and what any statement gives (doors/rest/query.py, config/query.py)."""

from __future__ import annotations

from typing import Any

from tests.doors.rest.client import API, Client, error_of
from tests.small_lake import SmallLake


def query(client: Client, sql: str, **more: Any) -> Any:
    return client.http.post(f"{API}/query", json={"sql": sql, **more})


def test_rows_come_with_their_columns(shared: Client) -> None:
    answer = query(shared, 'SELECT id, id, city FROM "sales.orders@v1" ORDER BY id LIMIT 2').json()
    assert answer["columns"] == [
        {"name": "id", "type": "int64"},
        {"name": "id_2", "type": "int64"},
        {"name": "city", "type": "string"},
    ]
    assert [row[:2] for row in answer["rows"]] == [[0, 0], [1, 1]] and answer["notes"] == []


def test_lists_of_a_lake_without_view_sets_are_empty(shared: Client) -> None:
    assert query(shared, "SELECT * FROM list_view_sets()").json()["rows"] == []
    columns = query(shared, "SELECT * FROM list_partitions()").json()["columns"]
    assert [column["name"] for column in columns] == [
        "view_set_name", "view_instance_id", "begin_insert_time", "end_insert_time", "min_event_time", "max_event_time",
        "updated", "file_path", "file_size", "file_schema_hash", "source_data_hash", "num_rows",
        "partition_format_version", "sort_order", "max_sort_key_time",
    ]  # fmt: skip


def test_a_table_without_versions_has_no_rows(client: Client, lake: SmallLake) -> None:
    lake.catalog.create_table("sales.empty", lake.catalog.load_table("sales.orders").schema())
    assert query(client, "SELECT count(*) AS n FROM sales.empty").json()["rows"] == [[0]]


def test_plans(shared: Client) -> None:
    answer = query(shared, "SELECT retire_partition_by_file('x') AS told").json()
    assert answer["rows"] == [["ERROR: Partition not found: x"]] and answer["plans"] == []


def test_errors(shared: Client) -> None:
    for sql, status, message in (
        ("DROP TABLE sales.orders", 400, "not one SELECT"),
        ("SELECT * FROM sales.nothing", 404, "sales.nothing"),
        ("SELECT nothing FROM sales.orders", 400, "nothing"),
    ):
        answer = query(shared, sql)
        assert answer.status_code == status and message in str(error_of(answer)["message"])
    assert query(shared, "SELECT 1", engine="other").status_code == 400
