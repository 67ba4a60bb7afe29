"""The command `partition-manager`, as operators' scripts call it. Covers `doors/compat/partition_drops.py`."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from lakewarden.doors.compat.partition_manager import main
from tests.features.sequence import history
from tests.features.sequence.history import create, partitions
from tests.services.mariadb import MariaDb, Shop

Say = Callable[..., tuple[int, str, str]]


@pytest.fixture
def shop(mariadb: MariaDb) -> Shop:
    shop = mariadb.new_database()
    create(shop, empty=1)
    return shop


@pytest.fixture
def say(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> Say:
    """Run the command in a folder of its own; answers with its code, stdout, and stderr with the log."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("LAKEWARDEN_CONFIG", raising=False)

    def said(*arguments: str) -> tuple[int, str, str]:
        caplog.clear()
        code = main(arguments)
        out, err = capsys.readouterr()
        return code, out, err + caplog.text

    return said


def file(tmp_path: Path, **settings: Any) -> str:
    (tmp_path / "partman.yaml").write_text(yaml.safe_dump({"partitionmanager": {"tables": {"orders": {}}, **settings}}))
    return str(tmp_path / "partman.yaml")


def test_maintain(shop: Shop, say: Say, tmp_path: Path) -> None:
    config = file(tmp_path, dburl=shop.dburl)
    tail, before = partitions(shop)[-1][0], partitions(shop)
    statement = rf"ALTER TABLE `{shop.name}`\.`orders` WAIT 1 REORGANIZE PARTITION `{tail}` INTO \(PARTITION .*\);"
    code, out, _ = say("--config", config, "maintain", "--noop")
    assert code == 0 and re.fullmatch(rf"orders:\n sql: {statement}\n noop: True\n", out)
    assert partitions(shop) == before
    code, out, _ = say("-c", config, "add")
    assert code == 0 and re.fullmatch(rf"orders:\n sql: {statement}\n output: \[\]\n", out)
    assert len(partitions(shop)) == len(before) + 1
    assert say("-c", config, "maintain") == (0, "", "")
    assert (tmp_path / "state" / "lakewarden" / "partition-manager.db").exists()


def test_noop_of_the_file_wins(shop: Shop, say: Say, tmp_path: Path) -> None:
    before = partitions(shop)
    code, out, _ = say("-c", file(tmp_path, dburl=shop.dburl, noop=True), "maintain", "-t", "orders")
    assert code == 0 and out.endswith(" noop: True\n")
    assert partitions(shop) == before


def test_without_a_file(shop: Shop, say: Say, tmp_path: Path) -> None:
    code, out, _ = say("--mariadb", shop.client, "maintain", "-n", "-d", "15", "-t", "orders")
    assert code == 0 and out.startswith("orders:\n sql: ALTER TABLE ")
    metrics = tmp_path / "x.prom"
    code, _, _ = say("--dburl", shop.dburl, "--prometheus-stats", str(metrics), "maintain", "-d", "15", "-t", "orders")
    assert code == 0 and 'partition_alter_time_seconds{table="orders"}' in metrics.read_text()


def test_stats(shop: Shop, say: Say, tmp_path: Path) -> None:
    code, out, _ = say("-c", file(tmp_path, dburl=shop.dburl), "stats")
    keys = ["partitions", "time_since_newest_partition", "time_since_oldest_partition"]
    assert code == 0 and out.startswith("orders:\n partitions: 13\n time_since_newest_partition: ")
    assert [line.split(":")[0].strip() for line in out.splitlines()[1:]] == [
        *keys,
        "mean_partition_delta",
        "max_partition_delta",
    ]


def test_stats_of_all_tables_if_none_is_configured(shop: Shop, say: Say) -> None:
    shop.run("CREATE TABLE plain (id INT)")
    code, out, err = say("--mariadb", shop.client, "stats")
    assert code == 0 and out.startswith("orders:\n partitions: 13\n") and "plain" not in out and "ERROR" not in err


def test_drop_only_prints(shop: Shop, say: Say, tmp_path: Path) -> None:
    """What the youngest row of a partition itself says counts; one without a date is kept."""
    before = partitions(shop)
    query = "SELECT UNIX_TIMESTAMP(created) FROM orders WHERE id > ? ORDER BY id ASC LIMIT 1;"
    shop.run("UPDATE orders SET created = '1970-01-01 05:45:01' WHERE id <= 1000")
    days = (datetime.now(UTC) - history.NOW).days
    settings = {"retention": {"days": days + 250}, "earliest_utc_timestamp_query": query}
    code, out, _ = say("-c", file(tmp_path, dburl=shop.dburl, tables={"orders": settings}), "drop")
    assert code == 0 and partitions(shop) == before
    head, *lines, last = out.splitlines()
    assert head == "orders:" and [line.split(":")[0].strip() for line in lines] == [name for name, _ in before[:4]]
    found = ast.literal_eval(lines[1].partition(": ")[2])
    assert list(found) == [
        "oldest_time",
        "youngest_time",
        "oldest_position",
        "youngest_position",
        "oldest_age",
        "youngest_age",
        "approx_size",
    ]
    assert found["approx_size"] == 873
    names = ",".join(f"`{name}`" for name, _ in before[:4])
    assert last == f" drop_query: ALTER TABLE `{shop.name}`.`orders` WAIT 1 DROP PARTITION IF EXISTS {names};"
    code, out, err = say("-c", file(tmp_path, dburl=shop.dburl), "drop")
    assert (code, out) == (0, "") and "drop needs retention" in err


def test_migrate(shop: Shop, say: Say, tmp_path: Path) -> None:
    config = file(tmp_path, dburl=shop.dburl)
    assert say("-c", config, "migrate", "--out", "state.yaml")[:2] == (0, "")
    top = shop.run("SELECT MAX(id) FROM orders")[0][0]
    shop.run(f"INSERT INTO orders VALUES ({top + 5}, NOW())")
    code, out, _ = say("-c", config, "migrate", "-i", "state.yaml", "-t", "orders")
    assert code == 0 and re.match(r"orders:\n - ALTER TABLE .* REORGANIZE PARTITION .*;\n", out)


def test_a_table_that_fails_is_logged_and_the_others_are_done(shop: Shop, say: Say, tmp_path: Path) -> None:
    config = file(tmp_path, dburl=shop.dburl, tables={"gone": {}, "orders": {}})
    code, out, err = say("-c", config, "maintain")
    assert code == 1 and out.startswith("orders:\n sql: ") and "no table" in err
    assert say("-c", config, "stats")[0] == 1


def test_wrong_use(say: Say, tmp_path: Path) -> None:
    code, _, err = say("--dburl", "sql://u:s3cret/@h/d", "stats")
    assert code == 2 and "sql://user:password@host:port/database" in err and "s3cret" not in err
    assert say("-c", file(tmp_path, num_emty=1), "stats")[0] == 2
    (tmp_path / "lakewarden.yaml").write_text("nonsense: 1")
    assert say("-c", file(tmp_path), "stats")[0] == 2
    with pytest.raises(SystemExit):
        main(["--log-level", "loud", "stats"])
    assert say()[0] == 0


def test_the_password_leaves_the_process_list(shop: Shop, tmp_path: Path) -> None:
    """It is given as an argument, so it is there until the command has read it."""
    wait = tmp_path / "waits"
    command = [sys.executable, "-m", "lakewarden.doors.compat.partition_manager", "--dburl", shop.dburl]
    environment = os.environ | {
        "LAKEWARDEN_FAILPOINTS": f"wait@sequence.altering:{wait}",
        "XDG_STATE_HOME": str(tmp_path),
        "PYTHONPATH": str(Path.cwd()),
    }
    process = subprocess.Popen(
        [*command, "maintain", "-t", "orders"], env=environment, cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )
    while not wait.exists() and process.poll() is None:
        pass
    listed = Path(f"/proc/{process.pid}/cmdline").read_bytes()
    wait.unlink()
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0 and "s3cret" not in out and " output: []" in out
    assert b"maintain" in listed and b"s3cret" not in listed and b"xxxx" in listed
