"""The doctor's checks of the engine: Python, Java, Spark, executors, catalogs and storage."""

from __future__ import annotations

import logging
import platform
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from lakewarden.config import Environment, Settings
from lakewarden.engine.base.faults import first_line, translating
from lakewarden.engine.base.quoting import identifier
from lakewarden.engine.catalog.catalogs import Catalogs
from lakewarden.engine.catalog.contents import describe, other_catalogs
from lakewarden.engine.kernel import executor_functions
from lakewarden.engine.spark import jars
from lakewarden.engine.spark.java import find as find_java
from lakewarden.engine.spark.session import Spark, send_by_value, translating_spark
from lakewarden.engine.storage.storage import Storage, Stores
from lakewarden.errors import LakewardenError
from lakewarden.lifecycle.basics import Check, Probe

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


log = logging.getLogger(__name__)


def engine_probes(settings: Settings, environment: Environment, catalogs: Catalogs, spark: Spark) -> list[Probe]:
    """Cheap checks first; those that start Spark last."""
    lakes = [Probe(_guarded(f"lake {lake}", partial(_lake, lake, settings, catalogs))) for lake in settings.lakes]
    local = [] if spark.is_remote else [Probe(_guarded("java", lambda: _java(environment, settings)))]
    return [
        Probe(_guarded("python", _python)),
        *local,
        *lakes,
        Probe(_guarded("spark", lambda: _spark(settings, spark)), starts_spark=True),
    ]


def _python() -> Iterator[Check]:
    libraries = ", ".join(f"{name} {version(name)}" for name in ("pyiceberg", "pyarrow", "pyspark"))
    yield Check("python", "ok", f"{platform.python_version()} with {libraries}")


def _java(environment: Environment, settings: Settings) -> Iterator[Check]:
    java = find_java(environment.java_home)
    yield Check("java", "ok", f"version {java.version} at {java.command}")
    wanted, cache = jars.wanted(settings.uses_s3), environment.cache / "jars"
    absent = jars.missing(wanted, cache)
    if absent:
        names = ", ".join(jar.file_name for jar in absent)
        yield Check("jars", "warning", f"not cached yet: {names}", "They are fetched when Spark first starts.")
    else:
        yield Check("jars", "ok", f"{len(wanted)} in {cache}, checksums correct")


def _lake(lake: str, settings: Settings, catalogs: Catalogs) -> Iterator[Check]:
    lake_settings = settings.lakes[lake]
    try:
        namespaces = catalogs.namespaces(lake)
        found = f"type {lake_settings.type}, {len(namespaces)} namespaces"
        others = {} if namespaces else other_catalogs(catalogs.get(lake))
        if others:
            advice = f"Rename the lake to one of them in the configuration, unless {lake} is a new catalog."
            yield Check(f"{lake}: catalog", "warning", f"{found}; {describe(others)}", advice)
        else:
            yield Check(f"{lake}: catalog", "ok", found)
    except LakewardenError as error:
        yield Check(f"{lake}: catalog", "failed", error.message, error.hint)
    storage, warehouse = Storage(Stores(lake_settings)), lake_settings.warehouse
    if lake_settings.has_named_warehouse:
        yield Check(f"{lake}: storage", "ok", f"the catalog resolves the location of {warehouse}")
    elif lake_settings.is_local and not Path(warehouse.removeprefix("file://")).is_dir():  # a write would create it
        yield Check(
            f"{lake}: storage",
            "failed",
            f"there is no folder {warehouse}",
            "Create or mount it, or correct the warehouse.",
        )
    else:
        yield _storage(lake, storage, warehouse)


def _storage(lake: str, storage: Storage, warehouse: str) -> Check:
    """Write, read, list and delete a small object."""
    name = f"lakewarden-probe-{uuid.uuid4().hex[:12]}"
    place, content, step = f"{warehouse}/{name}", name.encode(), "write"
    try:
        with translating(f"{warehouse}"):
            storage.write(place, content)
            step = "read"
            same = storage.read(place) == content
            step = "list"
            listed = name in storage.list(warehouse)
            step = "delete"
            storage.delete(place)
    except Exception as error:  # noqa: BLE001 - any error is reported
        if step in ("read", "list"):
            with suppress(Exception):
                storage.delete(place)
        return Check(f"{lake}: storage", "failed", f"cannot {step}: {first_line(error)}", f"Check {warehouse}.")
    if not same or not listed:
        lost = "read back" if not same else "listed"
        return Check(f"{lake}: storage", "failed", f"the written object could not be {lost}", f"Check {warehouse}.")
    return Check(f"{lake}: storage", "ok", f"wrote, read, listed and deleted an object in {warehouse}")


def _spark(settings: Settings, spark: Spark) -> Iterator[Check]:
    session = spark.session()
    yield Check("spark", "ok", f"version {session.version} at {settings.spark.place}")
    yield _executors(session)
    for lake in settings.lakes:
        try:
            with translating_spark():
                namespaces = len(spark.sql(f"SHOW NAMESPACES IN {identifier(lake)}").collect())
            yield Check(f"{lake}: in Spark SQL", "ok", f"{namespaces} namespaces")
        except LakewardenError as error:
            yield Check(f"{lake}: in Spark SQL", "failed", error.message, error.hint)


def _executors(session: SparkSession) -> Check:
    """Run a task where rows would be rewritten."""
    send_by_value(executor_functions)
    try:
        seen = (
            session.range(1)
            .mapInArrow(executor_functions.introduce, "host string, python string, arrow string")
            .collect()[0]
        )
    except Exception as error:  # noqa: BLE001 - any error is reported
        advice = "They need this Python minor version and pyarrow; otherwise Iceberg's procedures rewrite files."
        return Check("executors", "failed", f"a task cannot run there: {first_line(error)}", advice)
    return Check("executors", "ok", f"a task ran on {seen['host']}: Python {seen['python']}, pyarrow {seen['arrow']}")


def _guarded(part: str, look: Callable[[], Iterator[Check]]) -> Callable[[], Sequence[Check]]:
    """A probe that reports an error as one more check, after those that succeeded."""

    def guarded() -> Sequence[Check]:
        checks: list[Check] = []
        try:
            checks.extend(look())
        except LakewardenError as error:
            checks.append(Check(part, "failed", error.message, error.hint))
        except Exception as error:
            log.exception("checking %s failed unexpectedly", part)
            checks.append(Check(part, "failed", first_line(error), "See the log for details."))
        return checks

    return guarded
