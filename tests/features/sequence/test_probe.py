"""What the doctor says about the operational database."""

from __future__ import annotations

from typing import Any

from tests.features.sequence.history import create
from tests.services.mariadb import Shop


def checks(warden: Any) -> list[tuple[str, str, str]]:
    found = [check for probe in warden.ground.probes if not probe.starts_spark for check in probe.look()]
    return [(check.part, check.state, check.found) for check in found if check.part.startswith("database")]


def test_the_server_and_its_tables(shop: Shop, install: Any) -> None:
    create(shop)
    shop.run("CREATE TABLE plain (id INT)")
    assert checks(install()) == [("database", "ok", f"{shop.name}, 1 tables can be maintained")]
    assert checks(install(tables={"orders": {}, "plain": {}})) == [
        ("database", "ok", f"{shop.name}, 1 tables can be maintained"),
        ("database table plain", "failed", f"{shop.name}.plain is not partitioned"),
    ]
    ((part, state, found),) = checks(install(dburl=shop.dburl.replace(str(shop.server.port), "1")))
    assert (part, state) == ("database", "failed") and "does not answer" in found and "s3cret" not in found


def test_a_replica(shop: Shop, install: Any) -> None:
    create(shop)
    shop.run("SET GLOBAL read_only = 1")
    try:
        assert checks(install())[0][:2] == ("database", "warning")
    finally:
        shop.run("SET GLOBAL read_only = 0")
