"""Connections to the operational database: a read-only one for questions and plans, and one that alters a table.

No statement waits for a lock longer than a second, because writers queue behind a statement that waits. It is retried
after a pause, until a limit. Whoever alters a table holds a lock of the server on the same connection: an ALTER
continues after its client was killed, and until it ends nobody else starts one.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Sequence
from typing import Self, TypeVar

from lakewarden.config import SequenceSettings
from lakewarden.errors import ConfigProblem, DatabaseBusy, DatabaseUnavailable, StatementFailed, UnfitDatabase
from lakewarden.features.sequence.session import ClientSession, DriverSession, Row, Session, SqlError
from lakewarden.lifecycle.basics import Fence

LOCK_SECONDS = 1
SESSION_VARIABLES = f"lock_wait_timeout={LOCK_SECONDS},innodb_lock_wait_timeout={LOCK_SECONDS},max_statement_time=0"
ALTER_SECONDS = 0.5
"""For one attempt to alter a table that others use. One that is given up may wait for another lock, to clean up: an
insert behind it waits for both."""
PATIENCE_SECONDS = 60
_FIRST_PAUSE, _LONGEST_PAUSE = 0.25, 5.0
_OLDEST = (10, 11)
LOCKED = 1205
_TOO_LONG = 1969  # by a limit of ours: the server's own limits are lifted
_LOCKED = {LOCKED, 1213, _TOO_LONG}
_NO_ACCESS = {1044, 1045, 1049, 1130, 1142, 1698, 2002, 2003, 2005, 2006, 2013}
_LONGEST_LOCK_NAME = 64
_ABOUT = """
SELECT DATABASE() AS name, @@read_only AS is_read_only, @@hostname AS host, @@port AS port, @@server_id AS id,
(SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_VARIABLES WHERE VARIABLE_NAME = 'SERVER_UID') AS uid
"""

Got = TypeVar("Got")


def text_literal(text: str) -> str:
    """A text for a statement, right in every SQL mode."""
    return f"_utf8mb4 X'{text.encode().hex()}'"


class Reading:
    """A read-only connection."""

    _READ_ONLY = True

    def __init__(self, settings: SequenceSettings, sleep: Callable[[float], None] = time.sleep) -> None:
        self._settings = settings
        self._sleep = sleep
        self._session: Session | None = None
        self.server, self.database = "", ""
        self.is_read_only_server = False

    def __enter__(self) -> Self:
        self._patiently(self._live)
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def rows(self, sql: str) -> list[Row]:
        return self._patiently(lambda: self._live().rows(sql))

    def check_writable(self) -> None:
        """Refuse a read-only server, such as a replica."""
        if self.is_read_only_server:
            raise UnfitDatabase("the server is read-only", "Connect to the primary: a replica's tables follow it.")

    def _live(self) -> Session:
        """The session; a new one after an error that ended it."""
        if self._session is None or self._session.is_over:
            self._close()
            session = _opened(self._settings)
            try:
                self._prepare(session)
            except BaseException:
                session.close()
                raise
            self._session = session
        return self._session

    def _close(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None

    def _prepare(self, session: Session) -> None:
        (about,) = session.rows("SELECT VERSION() AS version")
        _check_version(str(about["version"]))
        session.rows(f"SET SESSION {SESSION_VARIABLES}")
        if self._READ_ONLY:
            session.rows("SET SESSION TRANSACTION READ ONLY")
        (about,) = session.rows(_ABOUT)
        if about["name"] is None:
            raise ConfigProblem(
                "the mariadb client connects to no database", "Name one in its option file: [client] database=…"
            )
        self.server, self.database = server_of(about), str(about["name"])
        self.is_read_only_server = str(about["is_read_only"]).upper() not in ("0", "OFF")

    def _patiently(self, work: Callable[[], Got]) -> Got:
        return patiently(work, self._sleep)


def patiently(work: Callable[[], Got], sleep: Callable[[float], None] = time.sleep) -> Got:
    """Do something that may meet a lock, again and again until the limit."""
    deadline, pause = time.monotonic() + PATIENCE_SECONDS, _FIRST_PAUSE
    while True:
        try:
            return work()
        except SqlError as error:
            if error.number not in _LOCKED:
                raise _failure(error) from None
            if time.monotonic() + pause > deadline:
                met = "no attempt to run a statement ended in time" if error.number == _TOO_LONG else error.text
                raise DatabaseBusy(
                    f"locked for {PATIENCE_SECONDS} seconds: {met}",
                    "SHOW PROCESSLIST on the server shows who holds the lock. Nothing was changed; run it again.",
                ) from None
        sleep(pause)
        pause = min(pause * 2, _LONGEST_PAUSE)


class Altering(Reading):
    """A connection that may alter one table, behind the fence of an action."""

    _READ_ONLY = False

    def __init__(
        self, settings: SequenceSettings, table: str, fence: Fence, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        super().__init__(settings, sleep)
        self._table = table
        self._fence = fence

    def alter(
        self, sql: str, prove: Callable[[Reading], None] = lambda _: None, most_seconds: float | None = None
    ) -> float:
        """Run one statement, each time right after a proof; returns the seconds that it took.

        An ALTER waits for several locks in turn while writers wait behind it: `most_seconds` limits it as a whole.
        """
        limited = f"SET STATEMENT max_statement_time = {most_seconds} FOR {sql}" if most_seconds else sql

        def attempt() -> float:
            self._live()
            prove(self)
            self._fence()
            began = time.monotonic()
            self._live().rows(limited)
            return time.monotonic() - began

        return self._patiently(attempt)

    def alter_locked(self, tables: Sequence[str], sql: str, prove: Callable[[Reading], None]) -> None:
        """Run one statement if a proof still holds while nobody else can write to these tables, named as in SQL."""
        locks = ", ".join(f"{table} WRITE" for table in tables)

        def attempt() -> None:
            session = self._live()
            self._fence()  # if the control database does not answer, nobody waits for it
            session.rows(f"LOCK TABLES {locks} WAIT {LOCK_SECONDS}")
            try:
                prove(self)
                self._fence()
                if self._live() is not session:  # a new one has no locks
                    raise SqlError(LOCKED, "the connection was lost while tables were locked")
                session.rows(sql)
            finally:
                if not session.is_over:
                    session.rows("UNLOCK TABLES")

        self._patiently(attempt)

    def _prepare(self, session: Session) -> None:
        super()._prepare(session)
        self.check_writable()
        name = lock_name(self.database, self._table)
        (got,) = session.rows(f"SELECT GET_LOCK({text_literal(name)}, {LOCK_SECONDS}) AS got")
        if got["got"] != "1":
            raise SqlError(LOCKED, f"another Lakewarden alters {self.database}.{self._table}")


def lock_name(database: str, table: str) -> str:
    """The name of the lock on the server that covers alterations of a table."""
    name = f"lakewarden {database}.{table}"
    return name if len(name) <= _LONGEST_LOCK_NAME else f"lakewarden {hashlib.sha1(name.encode()).hexdigest()}"


def server_of(about: Row) -> str:
    """The id of a server, however it is reached; before 10.11.9 it has none, and is known by its own name."""
    return str(about["uid"] or f"{about['host']}:{about['port']}/{about['id']}")


def _opened(settings: SequenceSettings) -> Session:
    address = settings.address
    if address is not None:
        return DriverSession(address)
    if settings.mariadb is not None:
        return ClientSession(settings.mariadb)
    raise ConfigProblem("no database is configured", "Set dburl: or mariadb: under sequences: or in --file.")


def _check_version(version: str) -> None:
    if "mariadb" not in version.lower():
        raise UnfitDatabase(
            f"the server is not MariaDB: its version is {version}",
            "MySQL has neither ALTER TABLE … WAIT nor CONVERT PARTITION.",
        )
    number = re.search(r"(?:5\.5\.5-)?(\d+)\.(\d+)", version)  # a prefix that old replicas need
    if number is None or (int(number[1]), int(number[2])) < _OLDEST:
        raise UnfitDatabase(f"the server is MariaDB {version}", "MariaDB 10.11 and newer are supported.")


def _failure(error: SqlError) -> Exception:
    if error.number in _NO_ACCESS:
        return DatabaseUnavailable(
            f"the database does not answer or denies access: {error.text}", "Check dburl or mariadb, and the account."
        )
    return StatementFailed(f"the database refused a statement: {error.text}", "The statement is in the plan.")
