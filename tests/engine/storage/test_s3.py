"""A lake whose files are on a real S3 server."""

from __future__ import annotations

import json

import pytest

from lakewarden import Warden
from lakewarden.errors import StorageUnavailable
from tests.services.s3 import S3
from tests.small_lake import SmallLake

pytestmark = [pytest.mark.spark, pytest.mark.own_processes]  # the server is Java too


def test_versions_on_s3(on_s3: SmallLake) -> None:
    on_s3.create()
    oldest = on_s3.warden.version.list("sales.orders")[-1].snapshot_id

    on_s3.warden.version.tag("sales.orders", "v1", note="on S3").apply()
    on_s3.warden.version.rollback(f"sales.orders@{oldest}").apply()

    assert on_s3.ids() == [0, 1]
    assert len(on_s3.warden.version.read("sales.orders@v1")) == 6
    assert on_s3.warden.table.show("sales.orders").location.startswith("s3://lake-")


def test_the_doctor_writes_reads_lists_and_deletes_an_object_there(on_s3: SmallLake, s3: S3) -> None:
    on_s3.create()
    before = sorted(path for path in s3.folder.rglob("*") if path.is_file())

    checks = {check.part: check for check in on_s3.warden.lake.doctor(skip_spark=True)}

    assert checks["main: storage"].state == "ok"
    assert [check.state for check in checks.values() if "several hosts" in check.found + check.advice] == ["warning"]
    assert sorted(path for path in s3.folder.rglob("*") if path.is_file()) == before


def test_a_wrong_key_is_told(on_s3: SmallLake) -> None:
    on_s3.create()
    config = on_s3.folder / "lakewarden.yaml"
    config.write_text(config.read_text().replace("test-secret", "wrong"))
    with Warden.open(on_s3.folder) as warden:
        storage = next(check for check in warden.lake.doctor(skip_spark=True) if check.part == "main: storage")
        assert storage.state == "failed"
        assert "wrong" not in storage.found
        with pytest.raises(StorageUnavailable, match="main.sales.orders"):
            warden.version.list("sales.orders")


@pytest.mark.slow
@pytest.mark.soak
def test_format_v3_on_s3_through_spark(on_s3: SmallLake) -> None:
    """In processes of their own: only there does Spark have the jar for S3."""
    on_s3.sql_elsewhere(
        "CREATE NAMESPACE main.web",
        "CREATE TABLE main.web.events (id BIGINT) USING iceberg TBLPROPERTIES ('format-version' = '3')",
        "INSERT INTO main.web.events VALUES (1), (2)",
    )

    done = on_s3.run("version", "tag", "web.events", "v1", "--json")

    assert json.loads(done.stdout)["operation"]["state"] == "done"
    assert set(on_s3.refs("web.events")) == {"main", "v1"}
    assert on_s3.ids("web.events") == [1, 2]
