"""`compare data`: what it answers is what the definition says, whatever histories tables have.

Covers `engine/kernel/compare_task.py`, `engine/kernel/compare_messages.py`, `engine/kernel/row_pairs.py`,
`engine/comparison/copied_rows.py`, `features/compare/estimate.py`, `features/compare/report.py`,
`features/shared/row_files.py` and `config/compare.py`.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from lakewarden.engine.comparison.exchange import Exchange
from lakewarden.features.compare.answer import DataComparison
from tests.features.compare import made_histories, oracle
from tests.features.compare.made_histories import MadeHistory
from tests.features.compare.typed import Typed, typed
from tests.small_lake import SmallLake


@pytest.fixture(scope="module")
def one_lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallLake]:
    with SmallLake(tmp_path_factory.mktemp("compare") / "lake") as lake:
        yield lake


def both_sides(table: Any, before: int, after: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The rows of two versions in the columns that both have, by the names of the later one."""
    known = {schema.schema_id: schema for schema in table.metadata.schemas}
    old, new = (
        {field.field_id: field for field in known[table.snapshot_by_id(one).schema_id].fields}
        for one in (before, after)
    )
    names = {one: field.name for one, field in new.items() if one in old}
    sides = []
    for snapshot, own, other in ((before, old, new), (after, new, old)):
        rows = table.scan(snapshot_id=snapshot).to_arrow().to_pylist()
        sides.append(
            [{name: _cut(row[own[one].name], own[one], other[one]) for one, name in names.items()} for row in rows]
        )
    return sides[0], sides[1]


def _cut(value: Any, own: Any, other: Any) -> Any:
    """Of a struct, only the fields that both sides have."""
    if not isinstance(value, dict):
        return value
    common = {field.field_id for field in other.field_type.fields}
    return {field.name: value[field.name] for field in own.field_type.fields if field.field_id in common}


@settings(max_examples=12, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(first=made_histories.rows, steps=made_histories.steps, keyed=st.booleans(), pick=st.integers(0, 10_000))
def test_any_history(one_lake: SmallLake, first: Any, steps: Any, keyed: bool, pick: int) -> None:
    """A short round; `make soak` has the long one."""
    check_history(one_lake, first, steps, keyed, pick)


def check_history(lake: SmallLake, first: Any, steps: Any, keyed: bool, pick: int) -> None:
    history = MadeHistory(lake.catalog, f"h.t_{secrets.token_hex(6)}", first)
    history.go(steps)
    table, versions = history.table, history.versions()
    before, after = versions[pick % len(versions)], versions[pick // 7 % len(versions)]
    key = ["id"] if keyed else []
    answer = lake.warden.compare.data(history.name, str(before), str(after), key=key)
    assert_equal(answer, *both_sides(table, before, after), key)


def assert_equal(
    answer: DataComparison, before: list[dict[str, Any]], after: list[dict[str, Any]], key: list[str]
) -> None:
    expected = oracle.compare(before, after, key)
    assert (answer.rows_from, answer.rows_to) == (expected.rows_from, expected.rows_to)
    assert (answer.rows_added, answer.rows_removed, answer.rows_changed, answer.rows_unchanged) == (
        expected.added,
        expected.removed,
        expected.changed,
        expected.unchanged,
    )
    assert (answer.ambiguous_keys, answer.null_keys) == (expected.ambiguous_keys, expected.null_keys)
    assert {column.name: column.changed for column in answer.columns if column.changed} == expected.columns
    for column in answer.columns:
        assert column.statistics_from is not None and column.statistics_to is not None
        for statistics, rows in ((column.statistics_from, before), (column.statistics_to, after)):
            found = {name: getattr(statistics, name) for name in ("rows", "nulls", "nans", "distinct", "min", "max")}
            assert found == oracle.statistics([row[column.name] for row in rows]), column.name
        changes = {(oracle.canonical(one.before), oracle.canonical(one.after)): one.rows for one in column.changes}
        assert changes == dict(expected.changes.get(column.name, {}))


@pytest.fixture(scope="module")
def orders(one_lake: SmallLake) -> SmallLake:
    """A table with a key: one row changed, one removed, two added since the tag v1."""
    one_lake.catalog.create_namespace_if_not_exists("s")
    schema = pa.schema([("id", pa.int64()), ("email", pa.string()), ("amount", pa.float64())])
    table = one_lake.catalog.create_table("s.orders", schema)
    table.append(pa.table({"id": [1, 2, 3], "email": ["a@x", "b@x", "c@x"], "amount": [1.0, 2.0, 3.0]}))
    one_lake.warden.version.tag("s.orders", "v1").apply()
    table = one_lake.catalog.load_table("s.orders")
    table.overwrite(
        pa.table({"id": [1, 2, 4, 5], "email": ["a@x", "b@x", "d@x", "e@x"], "amount": [1.0, 2.005, 4.0, 5.0]})
    )
    return one_lake


def run(lake: SmallLake, *arguments: str) -> Typed:
    return typed(lake, "compare", "data", "s.orders", "v1", *arguments)


def counts(answer: DataComparison) -> tuple[int | None, ...]:
    return answer.rows_added, answer.rows_removed, answer.rows_changed, answer.rows_unchanged


def test_with_a_key(orders: SmallLake) -> None:
    found = orders.warden.compare.data("s.orders", "v1", key="id")
    assert counts(found) == (2, 1, 1, 1)
    assert found.samples["changed"] == [{"key": {"id": 2}, "changes": {"amount": {"from": 2.0, "to": 2.005}}}]
    assert found.samples["removed"] == [{"id": 3, "email": "c@x", "amount": 3.0}]
    assert {column.name: column.changed for column in found.columns} == {"id": 0, "email": 0, "amount": 1}
    assert counts(orders.warden.compare.data("s.orders", "v1")) == (3, 2, 0, 1)


def test_tolerance_filter_and_ignored_columns(orders: SmallLake) -> None:
    compare = orders.warden.compare.data
    assert counts(compare("s.orders", "v1", key="id", tolerance=["amount=0.01"])) == (2, 1, 0, 2)
    assert counts(compare("s.orders", "v1", key="id", tolerance=["amount=0.001"])) == (2, 1, 1, 1)
    assert counts(compare("s.orders", "v1", key="id", ignore="amount")) == (2, 1, 0, 2)
    filtered = compare("s.orders", "v1", key="id", ignore="amount", where="amount >= 2 AND id < 5")
    assert counts(filtered) == (1, 1, 0, 1)
    assert (filtered.rows_from, filtered.rows_to) == (2, 2)


def test_another_table(orders: SmallLake) -> None:
    schema = pa.schema([("amount", pa.float32()), ("id", pa.int32()), ("extra", pa.string())])
    rows = [{"id": 1, "amount": 1.0}, {"id": 3, "amount": 3.5}]
    orders.catalog.create_table("s.other", schema).append(pa.Table.from_pylist(rows, schema=schema))
    found = orders.warden.compare.data("s.orders", "v1", other="s.other", key="id")
    assert counts(found) == (0, 1, 1, 1)
    assert found.not_compared == {"extra": "only in TO", "email": "only in FROM"}


def test_keys_are_checked(orders: SmallLake) -> None:
    found = orders.warden.compare.data("s.orders", "v1", key="email", check_keys=True)
    assert (found.duplicate_keys_from, found.duplicate_keys_to) == (0, 0)
    table = orders.catalog.create_table("s.twice", pa.schema([("id", pa.int64()), ("n", pa.int64())]))
    table.append(pa.table({"id": [1, 1, 2, None, None], "n": [1, 2, 3, 4, 5]}))
    found = orders.warden.compare.data("s.twice", "main", key="id", check_keys=True)
    assert (found.duplicate_keys_from, found.duplicate_keys_to) == (1, 1)


def test_an_estimate_reads_no_row(orders: SmallLake) -> None:
    found = orders.warden.compare.data("s.orders", "v1", key="id", estimate=True)
    assert not found.exact
    exact = orders.warden.compare.data("s.orders", "v1", key="id")
    for name, (least, most) in found.ranges.items():
        assert getattr(found, name) is None
        assert least <= getattr(exact, name) <= most
    assert (found.rows_from, found.rows_to) == (3, 4)
    assert (found.bytes_read, found.samples) == (0, {})


def test_what_is_written(orders: SmallLake, tmp_path: Path) -> None:
    rows = tmp_path / "rows.parquet"
    assert run(orders, "--key", "id", "--out", str(rows)).exit_code == 0
    written = sorted(pq.read_table(rows).to_pylist(), key=lambda row: row["id"])
    assert [(row["kind"], row["id"]) for row in written] == [
        ("changed", 2),
        ("removed", 3),
        ("added", 4),
        ("added", 5),
    ]
    assert (written[0]["amount_from"], written[0]["amount_to"]) == (2.0, 2.005)
    assert (written[1]["email_from"], written[1]["email_to"]) == ("c@x", None)
    assert run(orders, "--key", "id", "--out", str(tmp_path / "rows.csv")).exit_code == 0
    assert len((tmp_path / "rows.csv").read_text().splitlines()) == 5
    page = tmp_path / "report.html"
    assert run(orders, "--key", "id", "--out", str(page)).exit_code == 0
    html = page.read_text()
    assert "<script" not in html and "http" not in html and "<svg" in html and "2.005" in html
    again = run(orders, "--key", "id", "--out", str(page))
    assert again.exit_code == 2 and page.read_text() == html


@pytest.mark.parametrize(
    "arguments",
    [
        ["--key", "nope"],
        ["--ignore", "nope"],
        ["--ignore", "id,email,amount"],
        ["--tolerance", "amount=0.01"],
        ["--tolerance", "amount", "--key", "id"],
        ["--tolerance", "amount=x", "--key", "id"],
        ["--tolerance", "amount=-1", "--key", "id"],
        ["--tolerance", "nope=1", "--key", "id"],
        ["--where", "nope > 1"],
        ["--fail-if", "rows_from >"],
        ["--fail-if", "psi(nope) > 1"],
        ["--out", "report.txt"],
        ["--check-keys"],
        ["--sample-size", "-1"],
        ["nope"],
    ],
    ids=" ".join,
)
def test_wrong_use(orders: SmallLake, arguments: list[str]) -> None:
    found = run(orders, *arguments)
    assert found.exit_code == 2, found.output
    assert "Traceback" not in found.output


def test_rules(orders: SmallLake) -> None:
    failed = run(orders, "--key", "id", "--fail-if", "changed(amount) > 0", "--fail-if", "rows_from > 99")
    assert failed.exit_code == 3
    assert "FAILED: changed(amount) > 0" in failed.output and "rows_from > 99" not in failed.output


def test_hidden_rows_are_nowhere(one_lake: SmallLake, tmp_path: Path) -> None:
    """With an open erasure request, a person's values are in no answer, sample, statistic or file."""
    one_lake.catalog.create_namespace_if_not_exists("s")
    schema = pa.schema([("id", pa.int64()), ("email", pa.string()), ("amount", pa.float64())])
    table = one_lake.catalog.create_table("s.people", schema)
    secret = "zz-secret@example.org"
    table.append(pa.table({"id": [1, 2], "email": ["a@x", secret], "amount": [1.0, 987654.0]}))
    table.append(pa.table({"id": [7, 8], "email": ["h@x", secret], "amount": [1.0, 987654.0]}))
    one_lake.warden.version.tag("s.people", "v1").apply()
    one_lake.catalog.load_table("s.people").append(
        pa.table({"id": [3, 4], "email": [secret, "d@x"], "amount": [987655.0, 4.0]})
    )
    one_lake.warden.erasure.request("s.people", key="email", value=[secret])
    compare = one_lake.warden.compare.data
    found = compare("s.people", "v1", key="id")
    assert (found.rows_from, found.rows_to, *counts(found)) == (2, 3, 1, 0, 0, 2)
    page, rows = tmp_path / "p.html", tmp_path / "r.csv"
    compare("s.people", "v1", key="id", out=page)
    compare("s.people", "v1", key="id", out=rows)
    estimate = compare("s.people", "v1", key="id", estimate=True)
    assert estimate.ranges["rows_from"][0] <= 2
    for text in (repr(found), found.__rich__(), page.read_text(), rows.read_text(), repr(estimate)):
        assert secret not in text and "98765" not in text


def test_no_jvm_is_started(orders: SmallLake, monkeypatch: pytest.MonkeyPatch) -> None:
    def started(*_: object) -> None:
        raise AssertionError("Spark was asked for")

    monkeypatch.setattr("lakewarden.engine.spark.session.Spark.session", started)
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert counts(orders.warden.compare.data("s.orders", "v1", key="id", check_keys=True)) == (2, 1, 1, 1)


def test_spills_and_stays_exact(one_lake: SmallLake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many buckets, and exchanges that wait on disk."""
    monkeypatch.setattr("lakewarden.engine.comparison.in_process._ROWS_A_BUCKET", 100)
    monkeypatch.setattr("lakewarden.engine.comparison.in_process._BYTES_A_BUCKET", 1_000)
    monkeypatch.setattr("lakewarden.engine.comparison.exchange._IN_MEMORY", 2_000)
    spilled: list[Exchange] = []
    spill = Exchange._spill

    def noted(exchange: Exchange) -> None:
        spilled.append(exchange)
        spill(exchange)

    monkeypatch.setattr(Exchange, "_spill", noted)
    one_lake.catalog.create_namespace_if_not_exists("s")
    table = one_lake.catalog.create_table("s.many", pa.schema([("id", pa.int64()), ("v", pa.string())]))
    table.append(pa.table({"id": range(3_000), "v": [f"value {n}" for n in range(3_000)]}))
    one_lake.warden.version.tag("s.many", "v1").apply()
    changed = [f"value {n if n % 3 else -n}" for n in range(1_000, 4_000)]
    one_lake.catalog.load_table("s.many").overwrite(pa.table({"id": range(1_000, 4_000), "v": changed}))
    found = one_lake.warden.compare.data("s.many", "v1", key="id")
    different = sum(1 for n in range(1_000, 3_000) if n % 3 == 0)
    assert counts(found) == (1_000, 1_000, different, 2_000 - different)
    assert spilled


def test_files_without_field_ids_are_read_whole(one_lake: SmallLake) -> None:
    one_lake.catalog.create_namespace_if_not_exists("s")
    table = one_lake.catalog.create_table("s.mapped", pa.schema([("id", pa.int64()), ("v", pa.string())]))
    table.append(pa.table({"id": [1, 2], "v": ["a", "b"]}))
    one_lake.warden.version.tag("s.mapped", "v1").apply()
    path = f"{table.location()}/data/foreign.parquet"
    pq.write_table(pa.table({"id": [3], "v": ["c"]}), path.removeprefix("file://"))
    table = one_lake.catalog.load_table("s.mapped")
    table.add_files([path])
    found = one_lake.warden.compare.data("s.mapped", "v1", key="id", check_keys=True)
    assert counts(found) == (1, 0, 0, 2)
    assert "without field ids" in found.method
    assert found.duplicate_keys_to == 0
