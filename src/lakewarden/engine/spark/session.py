"""The Spark session, started on first use, once per process.

It may be local, on a cluster (`master`) or remote (`remote`, Spark Connect); code that uses the session must work with
all of them, so nothing uses `_jvm` or `sparkContext`.
"""

from __future__ import annotations

import logging
import os
import re
import socket
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import resources
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from lakewarden.config import Environment, Settings
from lakewarden.engine.base.faults import first_line
from lakewarden.engine.catalog.catalogs import spark_properties
from lakewarden.engine.spark import jars
from lakewarden.engine.spark.java import find as find_java
from lakewarden.errors import LakewardenError, SparkUnavailable

if TYPE_CHECKING:
    from pyspark.errors import PySparkException
    from pyspark.sql import DataFrame, SparkSession

_EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
_STATEMENTS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.variable.substitute": "false",  # else ${env:HOME} in a quoted name is substituted
    "spark.sql.parser.escapedStringLiterals": "false",  # needed by quoting.py
}
_CONNECT_PORT = 15002
_starting = threading.Lock()
log = logging.getLogger(__name__)


class Spark:
    """The session of one installation, configured with its lakes. The sessions of a process share one JVM."""

    def __init__(self, settings: Settings, environment: Environment) -> None:
        self._settings = settings
        self._environment = environment
        self._session: SparkSession | None = None

    @property
    def is_remote(self) -> bool:
        return self._settings.spark.remote is not None

    def session(self) -> SparkSession:
        """The running session; the first call in a process takes seconds.

        It is started in a separate thread. In the main thread, pyspark would install a SIGINT handler that loses
        signals while the JVM responds and turns them into errors. If the wait is interrupted, the start continues, and
        the next call waits for it.
        """
        if self._session is not None:
            return self._session
        started: Future[SparkSession] = Future()
        stderr = _Stderr(self._environment.logs / "spark.log")
        threading.Thread(target=self._open, args=(started, stderr), name="start of Spark", daemon=True).start()
        try:
            return started.result()
        finally:
            stderr.release()

    def _open(self, started: Future[SparkSession], stderr: _Stderr) -> None:
        try:
            with _starting:
                if self._session is None:
                    self._session = self._connect() if self.is_remote else self._start(stderr)
            started.set_result(self._session)
        except BaseException as error:  # noqa: BLE001 - raised again by result()
            started.set_exception(error)

    def sql(self, statement: str, **values: Any) -> DataFrame:
        """Run a statement; values are passed as `:name` parameters, never in the text."""
        with translating_spark():
            return self.session().sql(statement, args=values or None)

    def _start(self, stderr: _Stderr) -> SparkSession:
        java = find_java(self._environment.java_home)
        given = self._settings.spark
        paths = jars.resolve(
            jars.wanted(self._settings.uses_s3),
            self._environment.cache / "jars",
            java,
            given.conf.get("spark.jars.ivySettings"),
        )
        from pyspark import SparkContext
        from pyspark.sql import SparkSession

        if SparkContext._active_spark_context is None:
            log.info("starting Spark at %s", given.master)

        builder = SparkSession.builder.appName("lakewarden").master(given.master)
        for key, value in (self._engine_settings([str(p) for p in paths]) | given.conf).items():
            builder = builder.config(key, value)
        try:
            _choose_python(given.master, given.conf.get("spark.pyspark.python"))
            with stderr:
                session = builder.getOrCreate().newSession()
        except Exception as error:
            raise SparkUnavailable(
                f"Spark does not start with master {given.master}: {first_line(error)}",
                "Check the section spark of the configuration, or run lakewarden lake doctor.",
            ) from error
        self._configure(session)
        return session

    def _connect(self) -> SparkSession:
        given = self._settings.spark
        try:
            from pyspark.sql import SparkSession

            _check_listening(str(given.remote))
            session: SparkSession = SparkSession.builder.remote(str(given.remote)).create()
            for key, value in given.conf.items():
                session.conf.set(key, value)
            self._configure(session)
            return session
        except ImportError as error:
            raise SparkUnavailable(
                f"Spark Connect needs packages that are not installed: {first_line(error)}",
                "pip install 'lakewarden[connect]'",
            ) from None
        except Exception as error:
            raise SparkUnavailable(
                f"no Spark Connect server responds at {given.place}: {first_line(error)}",
                "Start one with start-connect-server.sh, or correct spark.remote.",
            ) from error

    def _configure(self, session: SparkSession) -> None:
        """Configure a new session with the lakes, and with the settings that Lakewarden's statements rely on."""
        from pyspark.logger import PySparkLogger

        for name in _QUOTING:
            PySparkLogger.getLogger(name).disabled = True  # errors are reported by `translating_spark`
        for lake, settings in self._settings.lakes.items():
            for key, value in spark_properties(lake, settings).items():
                session.conf.set(key, value)
        for key, value in _STATEMENTS.items():
            session.conf.set(key, value)

    def _engine_settings(self, jar_paths: list[str]) -> dict[str, str]:
        log4j = resources.files("lakewarden.engine.spark").joinpath("log4j2.properties")
        engine = {
            "spark.jars": ",".join(jar_paths),
            "spark.driver.memory": self._settings.spark.memory,
            "spark.driver.extraJavaOptions": f'"-Dlog4j2.configurationFile=file:{log4j}"',
            "spark.sql.extensions": _EXTENSIONS,
            "spark.sql.catalogImplementation": "in-memory",
            "spark.sql.execution.arrow.pyspark.enabled": "true",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
        }
        if self._settings.spark.master.startswith("local"):
            engine |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
        return engine


def _choose_python(master: str, given: object) -> None:
    """Set the Python for Spark's workers in the environment: the configured one, or locally this one."""
    if given:
        os.environ["PYSPARK_PYTHON"] = str(given)
    elif master.startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


class _Stderr:
    """Redirects this process's stderr to a log file while a JVM starts, which inherits it."""

    def __init__(self, log_file: Path) -> None:
        self._log_file = log_file
        self._terminal: int | None = None
        self._is_over = False
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        with self._lock:
            if self._is_over:
                return
            try:
                self._log_file.parent.mkdir(parents=True, exist_ok=True)
                file = self._log_file.open("a")
            except OSError:  # no log file: the JVM writes to the terminal
                return
            with file:
                sys.stderr.flush()
                self._terminal = os.dup(2)
                os.dup2(file.fileno(), 2)

    def __exit__(self, *_: object) -> None:
        self.release()

    def release(self) -> None:
        """Restore stderr: the JVM has started, or the wait for it has ended."""
        with self._lock:
            self._is_over = True
            if self._terminal is not None:
                sys.stderr.flush()
                os.dup2(self._terminal, 2)
                os.close(self._terminal)
                self._terminal = None


def _check_listening(remote: str) -> None:
    """Check that the server listens: the client itself would retry for many minutes."""
    address = urlsplit(remote)
    if address.scheme == "sc" and address.hostname:
        socket.create_connection((address.hostname, address.port or _CONNECT_PORT), timeout=10).close()


def send_by_value(module: ModuleType) -> None:
    """Pickle a module's functions by value for executors, which do not have Lakewarden."""
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]


_QUOTING = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")
"""Loggers of pyspark that print errors with values of rows, hidden ones too."""
OUT_OF_MEMORY = re.compile(
    r"OutOfMemory(?:Error|Exception)|OversizedAllocationException|Java heap space|GC overhead limit|MemoryError"
    r"|malloc of size \d+ failed|Cannot allocate memory|exit code:? 137"
)
MISSING_MODULE = re.compile(r"No module named '(\w+)'")
_redacts: ContextVar[bool] = ContextVar("redacts", default=False)


_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_.]+)\].*?SQLSTATE: (\w{5})", re.DOTALL)
_JAVA = re.compile(r"\b(?:org|java|javax|scala)\.[\w.$]+\.(\w+(?:Exception|Error))\b")
_NAMES = ("objectName", "proposal", "relationName", "tableName", "fieldName", "columnName", "routineName", "viewName")
"""Parameters of an error in the SQL itself that name tables, columns and functions."""
_NOT_KEPT = "Spark's own text is neither shown nor logged, since it may quote rows."


@contextmanager
def without_values(hides: bool) -> Iterator[None]:
    """Leave Spark's error out of ours if rows are hidden: Spark may compute with them and quote them."""
    before = _redacts.set(hides or _redacts.get())
    try:
        yield
    finally:
        _redacts.reset(before)


@contextmanager
def translating_spark() -> Iterator[None]:
    """Translate Spark's errors into a one-line error without its text: that may quote rows, and is never logged.

    Unless rows are hidden, the error has Spark's own as its cause, for Python callers and for decisions on it.
    """
    try:
        yield
    except LakewardenError:
        raise
    except Exception as error:
        if type(error).__module__.split(".")[0] not in ("pyspark", "py4j", "grpc"):
            raise
        what, hides = _condition(error), _redacts.get()
        log.warning("Spark refused: %s", what)
        hint = _NOT_KEPT if hides else f"{_NOT_KEPT} In Python, the error's __cause__ has it."
        raise SparkUnavailable(f"Spark refused: {what}", hint) from (None if hides else error)


def _condition(error: Exception) -> str:
    """The kind of an error, such as [CAST_INVALID_INPUT] SQLSTATE: 22018, without its message."""
    from pyspark.errors import PySparkException

    if isinstance(error, PySparkException) and error.getCondition():
        state = error.getSqlState() or "unknown"
        return f"[{error.getCondition()}] SQLSTATE: {state}{_names(error) if state.startswith('42') else ''}"
    text = str(error)
    known = OUT_OF_MEMORY.search(text) or MISSING_MODULE.search(text)
    if known:
        return known[0]
    if found := _CONDITION.search(text):
        return f"[{found[1]}] SQLSTATE: {found[2]}"
    raised = _JAVA.search(text)
    return f"{type(error).__name__}: {raised[1]}" if raised else type(error).__name__


def _names(error: PySparkException) -> str:
    """What a statement names that does not exist or does not fit."""
    given = error.getMessageParameters() or {}
    named = [f"{name} {given[name]}" for name in _NAMES if given.get(name)]
    return f" ({', '.join(named)})" if named else ""
