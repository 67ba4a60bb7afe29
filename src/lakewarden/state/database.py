"""Opens the control database: SQLite beside the configuration, or PostgreSQL for several hosts.

It is opened on first use, and its schema is migrated then. Readers get a consistent read-only view; writers get a
transaction, and other writers wait. `failures.py` translates errors; `journal.py` and `leases.py` define the contents.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from threading import RLock, local
from typing import Any, Literal
from urllib.parse import quote, quote_plus

from sqlalchemy import URL, Connection, Engine, create_engine, event, func, make_url, select
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from lakewarden.errors import StateUnavailable
from lakewarden.lifecycle.basics import Clock
from lakewarden.state.failures import explain
from lakewarden.state.migration import is_current, migrate
from lakewarden.state.tables import UtcTime

log = logging.getLogger(__name__)

PATIENCE = 15.0
"""Seconds to wait for other writers before giving up."""

_FORMS = "Write it as sqlite:///lakewarden.db or postgresql+psycopg://user:password@host/database."
_WRITES = "lakewarden_writes"


def host_clock() -> datetime:
    return datetime.now(UTC)


class Database:
    """One control database, shared by all threads of a process."""

    def __init__(self, url: str, clock: Clock = host_clock) -> None:
        self._url = _parsed(url)
        self.host_clock = clock
        self.kind: Literal["sqlite", "postgresql"] = "sqlite" if self._url.drivername == "sqlite" else "postgresql"
        self.file = Path(self._url.database or "").absolute() if self.kind == "sqlite" else None
        self.place = f"control database {self.file or _server(self._url)}"
        self._engine: Engine | None = None
        self._ready = False
        self._lock = RLock()
        self._open = local()  # the write transaction of each thread

    @contextmanager
    def connect(self) -> Iterator[Connection]:
        """A consistent read-only view."""
        self._prepare()
        with self.peek() as connection:
            yield connection

    @contextmanager
    def begin(self) -> Iterator[Connection]:
        """A transaction, rolled back if the body raises; nested in another of this thread, it is part of that one."""
        outer: Connection | None = getattr(self._open, "connection", None)
        if outer is not None:
            yield outer
            return
        self._prepare()
        with self._writing() as connection:
            self._open.connection = connection
            try:
                yield connection
            finally:
                del self._open.connection

    @contextmanager
    def peek(self) -> Iterator[Connection]:
        """A read-only view without migrating the schema first."""
        with self._translating(), self._opened().connect() as connection:
            if self.kind == "postgresql":
                connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
            with connection.begin():
                yield connection

    def now(self, connection: Connection) -> datetime:
        """The time that all users of this database agree on: the server's, or with SQLite the host's."""
        if self.kind == "sqlite":
            return self.host_clock()
        return connection.execute(select(func.clock_timestamp(type_=UtcTime()))).scalar_one()

    def exists(self) -> bool:
        """Whether the database exists: an SQLite file is created on first use, if its folder exists."""
        if self.file is None:
            return True
        if not self.file.parent.is_dir():
            raise StateUnavailable(
                f"{self.place} cannot be created: there is no folder {self.file.parent}",
                hint="Create the folder, or set `state` in lakewarden.yaml to another one.",
            )
        return self.file.exists()

    def wipe(self, *tables: str) -> None:
        """Remove deleted rows from the disk too, as far as the database allows.

        SQLite has overwritten them in its file; its write-ahead log is truncated here, after waiting for readers.
        PostgreSQL keeps old rows until they are vacuumed.
        """
        try:
            with self._translating(), self._opened().connect() as connection:
                if self.kind == "sqlite":
                    left = _cut_log(connection)
                else:
                    connection.execution_options(isolation_level="AUTOCOMMIT")
                    connection.exec_driver_sql(f"VACUUM {', '.join(tables)}")
                    left = False
        except StateUnavailable as error:
            log.warning("deleted values may still be on disk: %s", error.message)
        else:
            if left:
                log.warning("deleted values are still in the log of %s: another process reads it", self.place)

    def close(self) -> None:
        """Close all connections; the next use reopens them."""
        with self._lock:
            if self._engine is not None:
                self._engine.dispose()

    def _prepare(self) -> None:
        with self._lock:
            if self._ready:
                return
            with self.peek() as connection:
                current = is_current(connection, self.place)
            if not current:
                with self._writing() as connection:
                    migrate(connection, self.place)
            self._ready = True

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        with self._translating(), self._opened().connect() as connection:
            connection.execution_options(**{_WRITES: True})
            with connection.begin():
                yield connection

    def _opened(self) -> Engine:
        with self._lock:
            if self._engine is None:
                self.exists()
                self._engine = _sqlite(self._url) if self.kind == "sqlite" else _postgresql(self._url)
            return self._engine

    @contextmanager
    def _translating(self) -> Iterator[None]:
        try:
            yield
        except DBAPIError as error:
            raise explain(error, self.place, _secrets(self._url)) from error
        except PoolTimeout as error:
            raise StateUnavailable(
                f"{self.place} is in use by too many threads of this process", hint="Run fewer operations at once."
            ) from error


def _parsed(text: str) -> URL:
    """The parsed URL. An invalid one is not shown, since it may contain a password."""
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        url = None
    if url is None or (
        url.drivername != "sqlite" and text.count("@") > 1
    ):  # an @ in a password would be shown as part of the host
        raise StateUnavailable(
            "the URL of the control database is invalid",
            hint=f"{_FORMS} Encode special characters in a password as %XX.",
        )
    if url.drivername == "postgresql":
        url = url.set(drivername="postgresql+psycopg")
    if url.drivername == "sqlite" and url.database in (None, "", ":memory:"):
        raise StateUnavailable("the control database must be persistent, so it needs a file", hint=_FORMS)
    if url.drivername not in ("sqlite", "postgresql+psycopg"):
        raise StateUnavailable(f"{url.drivername} is not supported as a control database", hint=_FORMS)
    return url


def _server(url: URL) -> str:
    host = url.host or url.query.get("host") or "the local socket"
    return f"{url.database or url.username} on {host}{f':{url.port}' if url.port else ''}"


def _secrets(url: URL) -> set[str]:
    given = [value for name, value in url.query.items() if "password" in name]
    plain = {str(url.password or ""), *(str(value) for value in given)} - {""}
    return {form for secret in plain for form in (secret, quote(secret, safe=""), quote_plus(secret))}


def _sqlite(url: URL) -> Engine:
    engine = create_engine(url, hide_parameters=True, connect_args={"timeout": PATIENCE})

    @event.listens_for(engine, "connect")
    def configure(connection: sqlite3.Connection, _: Any) -> None:
        connection.isolation_level = None  # the driver begins too late; see below
        _use_wal(connection)
        connection.execute("PRAGMA secure_delete = ON")  # overwrite deleted values in the file
        connection.execute("PRAGMA foreign_keys = ON")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get(_WRITES)
        connection.exec_driver_sql(f"PRAGMA query_only = {'OFF' if writes else 'ON'}")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _cut_log(connection: Connection) -> bool:
    """Truncate the write-ahead log; returns whether readers prevented it."""
    raw = connection.connection.driver_connection
    assert raw is not None
    raw.execute("PRAGMA query_only = OFF")
    return bool(raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0])


def _use_wal(connection: sqlite3.Connection) -> None:
    """Enable write-ahead logging, once per file. SQLite does not wait for other processes here, so this does."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
                connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if not error.sqlite_errorname.startswith("SQLITE_BUSY") or time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def _postgresql(url: URL) -> Engine:
    timeout = {} if "connect_timeout" in url.query else {"connect_timeout": 10}
    try:
        engine = create_engine(url, hide_parameters=True, pool_pre_ping=True, connect_args=timeout)
    except ModuleNotFoundError as error:
        raise StateUnavailable(
            "a control database on PostgreSQL needs the package psycopg, which is not installed",
            hint="pip install 'lakewarden[postgres]'",
        ) from error

    @event.listens_for(engine, "connect")
    def configure(connection: Any, _: Any) -> None:
        # a hanging process must not block the others
        connection.execute(f"SET lock_timeout = '{PATIENCE:.0f}s'")
        connection.execute("SET idle_in_transaction_session_timeout = '60s'")
        connection.commit()

    return engine
