"""`sequence maintain` on a real server, each promise from a defect of the tool that operators use today.

Covers `features/sequence/survey.py`, `features/sequence/dates.py`, `features/sequence/reorganizing.py`.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from lakewarden import Warden
from lakewarden.doors.cli.main import run
from lakewarden.errors import Barred, LakewardenError, SomeFailed, StalePlan, UnfitDatabase
from lakewarden.features.sequence import connection
from lakewarden.features.sequence.connection import Reading
from lakewarden.features.sequence.partitions import read_table
from lakewarden.features.sequence.target import database_lease
from tests.features.sequence import history
from tests.features.sequence.history import NOW, RATE, create, fill, partitions
from tests.services.mariadb import PASSWORD, Shop

QUERY = "SELECT UNIX_TIMESTAMP(created) FROM orders WHERE id > ? ORDER BY id ASC LIMIT 1;"


def at(warden: Warden, moment: datetime) -> Warden:
    warden.ground.clock = lambda: moment
    return warden


def plan(warden: Warden, moment: datetime = NOW, **options: Any) -> Any:
    return at(warden, moment).sequence.maintain(**options)


def rate_of(planned: Any) -> dict[str, float]:
    (table,) = planned.plan.details["tables"].values()
    (rate,) = table["per_day"]
    return dict(rate)


class TestTheStatements:
    def test_the_tail_is_split_until_there_are_enough_empty_partitions(self, shop: Shop, install: Any) -> None:
        create(shop, empty=1)
        before = partitions(shop)
        warden = install(num_empty=3)
        planned = plan(warden)
        assert plan(warden).plan.id == planned.plan.id
        (action,) = planned.plan.actions
        lower, tail = history.bounds()[-1], before[-1][0]
        first, second = lower + round(RATE * 30), lower + 2 * round(RATE * 30)
        assert action.says == (
            f"ALTER TABLE `{shop.name}`.`orders` WAIT 1 REORGANIZE PARTITION `{tail}` INTO ("
            f"PARTITION `p_20261201` VALUES LESS THAN ({first}), PARTITION `p_20261231` VALUES LESS THAN ({second}), "
            "PARTITION `p_20270130` VALUES LESS THAN MAXVALUE);"
        )
        planned.apply()
        assert partitions(shop)[:-3] == before[:-1]
        assert [name for name, _ in partitions(shop)[-3:]] == ["p_20261201", "p_20261231", "p_20270130"]

    def test_several_are_all_run_the_tail_first(self, shop: Shop, install: Any) -> None:
        """Through one connection, each as a statement of its own."""
        create(shop, empty=3, early=lambda number: 25 if number == 11 else 0)
        tail = partitions(shop)[-1][0]
        shop.run(
            f"ALTER TABLE orders REORGANIZE PARTITION {tail} INTO (PARTITION p_20280101 VALUES LESS THAN MAXVALUE)"
        )
        planned = plan(install(num_empty=3))
        assert [action.texts("partitions") for action in planned.plan.actions] == [("p_20280101",), ("p_20261106",)]
        report = planned.apply()
        assert (report.result["alters"], report.result["actions"]) == (2, 2)
        assert [name for name, _ in partitions(shop)[-3:]] == ["p_20261201", "p_20261231", "p_20270130"]

    def test_over_several_columns(self, shop: Shop, install: Any) -> None:
        shop.run(
            "CREATE TABLE orders (a INT, b INT, PRIMARY KEY (a, b)) PARTITION BY RANGE COLUMNS (a, b) ("
            "PARTITION p_20260918 VALUES LESS THAN (100, 1000), PARTITION p_20261018 VALUES LESS THAN (200, 2000), "
            "PARTITION p_20261117 VALUES LESS THAN (300, 3000), "
            "PARTITION p_later VALUES LESS THAN (MAXVALUE, MAXVALUE))",
            "INSERT INTO orders VALUES (1, 1), (100, 1000), (199, 1990)",
        )
        planned = plan(install(), NOW, days=30.0)
        (action,) = planned.plan.actions
        assert action.says.startswith(
            f"ALTER TABLE `{shop.name}`.`orders` WAIT 1 REORGANIZE PARTITION `p_later` INTO (PARTITION `p_2026"
        ) and action.says.endswith("VALUES LESS THAN (MAXVALUE, MAXVALUE));")
        planned.apply()
        assert plan(install(), NOW, days=30.0).is_empty


class TestTheRate:
    @pytest.mark.parametrize("start", [True, False], ids=["p_start", "no p_start"])
    @pytest.mark.parametrize(
        "early",
        [lambda n: 0, lambda n: 20 + n * 7 % 9, lambda n: 28 - 0.8 * n],
        ids=["true", "20 to 28 days early", "28 to 20 days early"],
    )
    def test_by_names(self, shop: Shop, install: Any, start: bool, early: Callable[[int], float]) -> None:
        create(shop, start=start, early=early, empty=1)
        rate = rate_of(plan(install()))
        assert rate["estimate"] == pytest.approx(RATE, rel=0.05)
        assert rate["low"] <= RATE <= rate["high"]

    @pytest.mark.parametrize("mark", ["?", "'?'"])
    def test_by_the_date_query(self, shop: Shop, install: Any, mark: str) -> None:
        """The names are all wrong; the server's time zone is far from UTC."""
        create(shop, early=lambda number: 300 - 25 * number, empty=1)
        planned = plan(install(tables={"orders": {"earliest_utc_timestamp_query": QUERY.replace("?", mark)}}))
        assert rate_of(planned)["estimate"] == pytest.approx(RATE, rel=0.01)

    def test_recorded_positions_outweigh_names(self, shop: Shop, install: Any) -> None:
        create(shop, early=lambda number: 300 - 25 * number, empty=2)
        warden = install()
        assert rate_of(plan(warden))["estimate"] < 20
        for days in range(4):
            fill(shop, NOW + timedelta(days=days))
            plan(warden, NOW + timedelta(days=days)).apply()
        found = rate_of(plan(warden, NOW + timedelta(days=3)))
        assert found["estimate"] == pytest.approx(RATE, rel=0.05)

    def test_unknown(self, shop: Shop, install: Any) -> None:
        """Enough empty partitions: the position is recorded. Too few: an error that says what helps."""
        shop.run(
            "CREATE TABLE orders (id INT PRIMARY KEY) PARTITION BY RANGE (id) (PARTITION a VALUES LESS THAN (100), "
            "PARTITION b VALUES LESS THAN (200), PARTITION c VALUES LESS THAN MAXVALUE)",
            "INSERT INTO orders VALUES (50)",
        )
        warden = install()
        planned = plan(warden)
        assert planned.is_empty and "not known to fill yet" in planned.plan.warnings[0]
        planned.apply()
        with pytest.raises(LakewardenError, match="not known how fast"):
            plan(install(num_empty=3)).apply()
        shop.run("INSERT INTO orders VALUES (60)")
        assert rate_of(plan(warden, NOW + timedelta(days=2)))["estimate"] == pytest.approx(5)


class TestASecondRun:
    @pytest.mark.parametrize("noise", [0.0, 0.2, 0.45], ids=["steady", "noisy", "very noisy"])
    @pytest.mark.parametrize("early", [lambda n: 0, lambda n: 20 + n * 7 % 9], ids=["true", "early"])
    def test_plans_nothing_nor_do_those_of_the_following_days(
        self, shop: Shop, install: Any, early: Callable[[int], float], noise: float
    ) -> None:
        """Rows come up to so many days earlier or later than at a steady rate."""
        create(shop, early=early, empty=1)
        warden, chance = install(), random.Random(20261116)
        plan(warden).apply()
        assert plan(warden).is_empty
        after = partitions(shop)
        for days in (1, 2, 3, 5, 8, 11, 14):
            fill(shop, NOW + timedelta(days=days + chance.uniform(-noise, noise)))
            planned = plan(warden, NOW + timedelta(days=days))
            assert planned.is_empty, f"day {days}: {planned!r}"
            planned.apply()
        assert partitions(shop) == after
        fill(shop, NOW + timedelta(days=16))  # the next partition is active now, so one more is needed
        (action,) = plan(warden, NOW + timedelta(days=16)).plan.actions
        assert action.texts("partitions") == (after[-1][0],)


class TestEmptiness:
    def test_the_greatest_id_is_a_bound(self, shop: Shop, install: Any) -> None:
        """The partition above the bound holds that row: it is active, and not reorganised."""
        create(shop, empty=2, rows=False)
        bound = history.bounds()[-1]
        shop.run(f"INSERT INTO orders VALUES ({bound}, NOW())")
        planned = plan(install(), NOW + timedelta(days=15))
        (lists,) = planned.plan.details["tables"].values()
        assert lists["non_empty"][-1] == {"name": partitions(shop)[-2][0], "less_than": f"({bound + int(RATE * 30)})"}
        assert [each["name"] for each in lists["empty"]] == [partitions(shop)[-1][0]]
        assert all(action.texts("partitions") == (partitions(shop)[-1][0],) for action in planned.plan.actions)
        planned.apply()
        assert shop.run("SELECT COUNT(*) FROM orders") == [(1,)]

    def test_is_proved_again_before_the_statement(self, shop: Shop, install: Any) -> None:
        create(shop, empty=1)
        planned = plan(install())
        shop.run(f"INSERT INTO orders VALUES ({history.bounds()[-1] + 5}, NOW())")
        before = partitions(shop)
        with pytest.raises(UnfitDatabase, match="rows have reached partition"):
            planned.apply()
        assert partitions(shop) == before

    def test_no_empty_partition_is_an_error(self, shop: Shop, install: Any) -> None:
        create(shop, empty=1)
        shop.run(f"INSERT INTO orders VALUES ({history.bounds()[-1] + 5}, NOW())")
        with pytest.raises(SomeFailed, match="no empty partition is left"):
            plan(install()).apply()

    def test_partitions_that_changed_make_a_plan_stale(self, shop: Shop, install: Any) -> None:
        create(shop, empty=1)
        warden = install()
        planned = plan(warden)
        plan(install(num_empty=3)).apply()
        with pytest.raises(StalePlan, match="no longer has the partitions"):
            planned.apply()

    def test_a_table_without_rows(self, shop: Shop, install: Any) -> None:
        create(shop, rows=False)
        planned = plan(install())
        assert planned.is_empty and "has no rows yet" in planned.plan.warnings[0]
        planned.apply()


class TestNoop:
    def test_wins_over_everything(self, shop: Shop, install: Any, tmp_path: Path, capsys: Any) -> None:
        create(shop, empty=1)
        before = partitions(shop)
        warden = install()
        planned = at(warden, NOW).sequence.maintain(noop=True)
        with pytest.raises(Barred, match="--noop was given"):
            planned.apply()
        stored = at(warden, NOW).sequence.maintain().store()
        configured = install(noop=True)
        with pytest.raises(Barred, match="noop: true is configured"):
            configured.operation.apply(stored)
        with pytest.raises(Barred):
            plan(configured, noop=False).apply()
        for options in (["--apply"], ["--noop", "--apply"], []):
            assert run(["--config", str(tmp_path), "sequence", "maintain", *options]) == 0
            assert "cannot be applied" in capsys.readouterr().out
        install()
        assert run(["--config", str(tmp_path), "sequence", "maintain", "--noop", "--apply", "--json"]) == 0
        document = json.loads(capsys.readouterr().out)
        assert set(next(iter(document["plan"]["details"]["tables"].values()))) >= {"non_empty", "empty", "intended"}
        assert partitions(shop) == before


class TestManyTables:
    def test_a_malformed_one_fails_alone(self, shop: Shop, install: Any, tmp_path: Path, capsys: Any) -> None:
        create(shop, empty=1)
        tail = "(PARTITION p VALUES LESS THAN MAXVALUE)"
        shop.run(
            "CREATE TABLE plain (id INT)",
            f"CREATE TABLE named (name VARCHAR(9)) PARTITION BY RANGE COLUMNS (name) {tail}",
            "INSERT INTO named VALUES ('abc')",
            f"CREATE TABLE nulls (id INT) PARTITION BY RANGE (id) {tail}",
            "INSERT INTO nulls VALUES (NULL)",
            f"CREATE TABLE blank (id INT NOT NULL) PARTITION BY RANGE (id) {tail}",
        )
        odd: dict[str, Any] = {name: {} for name in ("plain", "named", "nulls", "gone")}
        odd["blank"] = {"earliest_utc_timestamp_query": "SELECT 1 FROM nowhere WHERE 1 > ?;"}
        metrics = tmp_path / "x.prom"
        warden = install(tables={**odd, "orders": {}}, prometheus_stats=str(metrics))
        assert run(["--config", str(tmp_path), "sequence", "maintain"]) == 1
        said = capsys.readouterr().err
        assert "plain is not partitioned" in said and "no table" in said
        assert "is varchar" in said and "is int and may be NULL" in said
        assert len(partitions(shop)) == 14
        assert 'partition_total{table="orders"} 14' in metrics.read_text()
        with Reading(warden.ground.settings.sequences) as db:
            key = database_lease(read_table(db, "orders"))
        assert len(warden.ground.state.sequence.positions(key)) == 1
        assert len(warden.sequence.drop().plan.refused) == len(warden.sequence.restore().plan.refused) == 4

    def test_one_that_stays_locked_fails_alone(
        self, shop: Shop, install: Any, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(connection, "PATIENCE_SECONDS", 1)
        create(shop, empty=1)
        create(shop, "others", empty=1)
        install(tables={"orders": {}, "others": {}})
        with shop.connect() as writer:
            writer.begin()
            writer.cursor().execute("SELECT * FROM orders LIMIT 1")
            assert run(["--config", str(tmp_path), "sequence", "maintain"]) == 1
        assert "locked for 1 seconds" in capsys.readouterr().err
        assert (len(partitions(shop)), len(partitions(shop, "others"))) == (13, 14)

    def test_a_read_only_server_is_refused(self, shop: Shop, install: Any) -> None:
        create(shop, empty=1)
        shop.run("SET GLOBAL read_only = 1")
        try:
            with pytest.raises(UnfitDatabase, match="read-only"):
                plan(install())
        finally:
            shop.run("SET GLOBAL read_only = 0")


def test_by_a_file_and_by_the_client(shop: Shop, tmp_path: Path, capsys: Any) -> None:
    """In both ways, and the password is nowhere: not in output, nor in the journal, nor in errors."""
    create(shop, empty=1)
    file = tmp_path / "partman.yaml"
    (tmp_path / "lakewarden.yaml").write_text("sequences: {}")
    for settings in ({"mariadb": shop.client}, {"dburl": shop.dburl}):
        file.write_text(yaml.safe_dump({"partitionmanager": {**settings, "tables": {"orders": None}}}))
        command = ["--config", str(tmp_path), "sequence", "maintain", "--file", str(file)]
        assert run([*command, "--plan", "--json"]) == 0
        assert run([*command, "--json"]) == 0
    said = "".join(capsys.readouterr())
    assert "REORGANIZE" in said and "s3cret" not in said and PASSWORD not in said
    stored = (tmp_path / "lakewarden.db").read_bytes()
    assert b"REORGANIZE" in stored and b"s3cret" not in stored and shop.dburl.encode() not in stored
