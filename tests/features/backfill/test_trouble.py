"""Batches that fail: out of memory, out of time, for a moment, or for good. On real Spark."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException

from lakewarden.doors.logs import RedactingFormatter, frames
from lakewarden.engine.spark.session import translating_spark, without_values
from lakewarden.engine.spark.time_limit import TookTooLong
from lakewarden.engine.sql.batches import Batches
from lakewarden.errors import BadValue, LakewardenError, SparkUnavailable, StalePlan
from lakewarden.features.backfill import trouble as troubles
from lakewarden.features.backfill.trouble import Trouble, trouble
from lakewarden.lifecycle import failpoints
from tests.features.backfill.shop import SQL, Shop


def caused(text: str) -> SparkUnavailable:
    error = SparkUnavailable("Spark refused")
    error.__cause__ = RuntimeError(text)
    return error


@pytest.mark.parametrize(
    ("error", "found"),
    [
        (caused("java.lang.OutOfMemoryError: Java heap space"), Trouble.TOO_MUCH),
        (caused("Container killed with exit code 137"), Trouble.TOO_MUCH),
        (TookTooLong("Spark took longer than 1 s"), Trouble.TOO_MUCH),
        (caused("[CAST_INVALID_INPUT] … SQLSTATE: 22018"), Trouble.DATA),
        (caused("[UNRESOLVED_COLUMN] … SQLSTATE: 42703"), Trouble.LASTING),
        (BadValue("the SQL selects 2 columns"), Trouble.LASTING),
        (StalePlan("moved"), Trouble.LASTING),
        (caused("Connection reset"), Trouble.PASSING),
    ],
)
def test_errors_by_their_cause(error: SparkUnavailable, found: Trouble) -> None:
    assert trouble(error) is found


def failing_once(shop: Shop, mark: Path, fail: Callable[[], None]) -> None:
    """Have the SQL call a function that fails in a task, the first time only."""

    def touch(id: int) -> int:
        if not mark.exists():
            mark.touch()
            fail()
        return id

    shop.warden.ground.spark.session().udf.register("touch", touch, "bigint")
    shop.register(SQL.replace("SELECT id", "SELECT touch(id)"), batch_size=4, timeout_seconds=20)


def out_of_memory() -> None:
    raise MemoryError


def sleep() -> None:
    time.sleep(60)


def refuse() -> None:
    raise ConnectionError("for a moment")


@pytest.mark.spark
def test_out_of_memory_halves_what_is_written_at_once(shop: Shop, tmp_path: Path) -> None:
    shop.order(*range(8))
    failing_once(shop, tmp_path / "mark", out_of_memory)
    (tmp_path / "mark").touch()
    shop.run(max_batches=1)
    (tmp_path / "mark").unlink()
    shop.run()  # batch 2 alone is left: it becomes two halves
    assert [(stamp["batch"], stamp["rows"], stamp["size"]) for stamp in shop.stamps()] == [
        (1, 4, 4),
        (1, 6, 3),
        (2, 8, 4),
    ]
    assert shop.ids() == list(range(8))


@pytest.mark.spark
def test_what_is_written_at_once_grows_back(shop: Shop, tmp_path: Path) -> None:
    marks = [tmp_path / "first", tmp_path / "second"]

    def touch(id: int) -> int:
        for mark in marks:
            if not mark.exists():
                mark.touch()
                raise MemoryError
        return id

    shop.order(*range(100))
    shop.warden.ground.spark.session().udf.register("touch", touch, "bigint")
    shop.register(SQL.replace("SELECT id", "SELECT touch(id)"), batch_size=100)
    shop.run()  # 100 rows fail, and 50; 25 do not, and then a fifth more each time
    snapshots = shop.lake.catalog.load_table("shop.totals").snapshots()
    assert [int(one.summary["added-records"]) for one in snapshots] == [25, 30, 36, 9]
    assert shop.ids() == list(range(100))


@pytest.mark.spark
def test_an_error_that_lasts_fails_at_once(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    session = shop.warden.ground.spark.session()
    session.udf.register("gone", lambda id: id, "bigint")
    shop.order(*range(4))
    shop.register(SQL.replace("SELECT id", "SELECT gone(id)"))
    planned = shop.warden.backfill.run(database="shop", version="3")
    session.sql("DROP TEMPORARY FUNCTION gone")
    attempts: list[str] = []
    asked = Batches.numbered_rows

    def counted(*given: Any) -> Any:
        attempts.append("")
        return asked(*given)

    monkeypatch.setattr(Batches, "numbered_rows", counted)
    waits = failpoints.when("backfill.waiting", lambda: None)
    with pytest.raises(LakewardenError):
        planned.apply()
    assert (len(attempts), len(waits), shop.ids(), shop.status().status) == (1, 0, [], "failed")


@pytest.mark.spark
def test_equal_checkpoints_that_are_too_much_at_once_fail(shop: Shop) -> None:
    def touch(id: int) -> int:
        raise MemoryError

    shop.order(*range(4))
    shop.warden.ground.spark.session().udf.register("touch", touch, "bigint")
    sql = "INSERT INTO {db}.totals SELECT touch(id), region, 1 FROM {db}.orders"
    shop.register(sql, checkpoint_columns=["region"], batch_size=2)
    with pytest.raises(LakewardenError, match="4 rows with equal checkpoints are too much") as error:
        shop.run()
    assert "Add a column to checkpoint_columns" in error.value.hint
    shop.write(sql.replace("touch(id)", "id"), checkpoint_columns=["region"], batch_size=2)
    shop.run()
    assert shop.ids() == list(range(4))


@pytest.mark.spark
def test_a_batch_that_takes_too_long_is_interrupted_and_halved(shop: Shop, tmp_path: Path) -> None:
    shop.order(*range(4))
    failing_once(shop, tmp_path / "mark", sleep)
    shop.write(SQL.replace("SELECT id", "SELECT touch(id)"), batch_size=4, timeout_seconds=15)
    shop.run()  # not interrupted, it would be one batch
    assert len(shop.stamps()) == 2 and shop.ids() == list(range(4))


@pytest.mark.spark
def test_what_passes_is_tried_again(shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakewarden.features.backfill.job.pause_before", lambda attempt: 0.0)
    shop.order(*range(4))
    failing_once(shop, tmp_path / "mark", refuse)
    shop.run()
    assert shop.ids() == list(range(4))
    assert 0.5 <= troubles.pause_before(1) <= 1.5 and troubles.pause_before(100) <= 90


def test_the_kind_of_an_error_is_named_before_words_in_its_message() -> None:
    """While rows are hidden: a value may read like another error."""

    class Refused(PySparkException):
        __module__ = "pyspark.errors"

        def getCondition(self) -> str:
            return "CAST_INVALID_INPUT"

        def getSqlState(self) -> str:
            return "22018"

    with pytest.raises(SparkUnavailable) as error, without_values(True), translating_spark():
        raise Refused("the value 'MemoryError: No module named 'secret'' cannot be cast")
    assert "secret" not in str(error.value) and trouble(error.value) is Trouble.DATA
    with pytest.raises(SparkUnavailable) as error, without_values(True), translating_spark():
        raise PySparkException("ModuleNotFoundError: No module named 'pyarrow'")
    assert "No module named 'pyarrow'" in error.value.message


def test_spark_s_text_is_neither_recorded_nor_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Also while no rows are hidden: a person may be erased later."""

    class Refused(PySparkException):
        __module__ = "pyspark.errors"

        def getCondition(self) -> str:
            return "CAST_INVALID_INPUT"

        def getSqlState(self) -> str:
            return "22018"

    with pytest.raises(SparkUnavailable) as error, caplog.at_level("DEBUG"), translating_spark():
        raise Refused("[CAST_INVALID_INPUT] The value 'anna@example.org' cannot be cast. SQLSTATE: 22018")
    assert error.value.message == "Spark refused: [CAST_INVALID_INPUT] SQLSTATE: 22018"
    logged = "\n".join(RedactingFormatter().format(record) for record in caplog.records)
    assert "CAST_INVALID_INPUT" in logged and "anna" not in f"{error.value.document()} {logged}"
    assert trouble(error.value) is Trouble.DATA and "anna" in str(error.value.__cause__)
    with pytest.raises(SparkUnavailable) as error, translating_spark():
        raise PySparkException("Job aborted: [DIVIDE_BY_ZERO] Division by anna\nb. SQLSTATE: 22012")
    assert error.value.message == "Spark refused: [DIVIDE_BY_ZERO] SQLSTATE: 22012"


def test_a_logged_traceback_has_no_messages() -> None:
    try:
        try:
            int("anna@example.org")
        except ValueError as error:
            raise RuntimeError("anna@example.org is no number") from error
    except RuntimeError as error:
        told = frames(error)
    assert "anna" not in told.replace('int("anna', "").replace('RuntimeError("anna', "") and "test_trouble.py" in told
    assert "builtins.ValueError" in told and told.endswith("builtins.RuntimeError")
