"""A real MariaDB for tests: Debian's, started once a run on a free port, and ended by its pid.

The fixture `mariadb` gives `new_database()`, a fresh and empty database each time it is called: a `Shop`, which knows
how to be reached in both ways and runs statements as an outside writer would.
"""

from __future__ import annotations

import getpass
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pymysql
import pytest

PASSWORD = "s3cret@/:%#correct horse"
"""With everything in it that an URL must encode."""


@dataclass
class Shop:
    """One database of the server."""

    server: MariaDb
    name: str

    @property
    def dburl(self) -> str:
        return f"sql://warden:{quote(PASSWORD, safe='')}@127.0.0.1:{self.server.port}/{self.name}"

    @property
    def client(self) -> str:
        """A command line client that knows the way to this database, as operators keep one."""
        script, options = self.server.folder / f"{self.name}.sh", self.server.folder / f"{self.name}.cnf"
        if not script.exists():
            options.write_text(
                f'[client]\nprotocol=tcp\nhost=127.0.0.1\nport={self.server.port}\nuser=warden\npassword="{PASSWORD}"\n'
            )
            options.chmod(0o600)
            script.write_text(f'#!/bin/sh\nexec mariadb --defaults-file={options} "$@" {self.name}\n')
            script.chmod(0o755)
        return str(script)

    def connect(self) -> Any:
        """A connection of an outside writer, to be closed."""
        return closing(self.server.connect(self.name))

    def run(self, *statements: str) -> list[Any]:
        """Run statements; answers with the rows of the last."""
        rows: list[Any] = []
        with self.connect() as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
                rows = list(cursor.fetchall())
        return rows

    @contextmanager
    def listening(self) -> Iterator[list[tuple[int, str]]]:
        """What the server was sent during the block: statements, each with the number of its session."""
        sent: list[tuple[int, str]] = []
        self.run("SET GLOBAL log_output = 'TABLE'", "TRUNCATE mysql.general_log", "SET GLOBAL general_log = 1")
        try:
            yield sent
        finally:
            self.run("SET GLOBAL general_log = 0")
            kept = (
                "SELECT thread_id, CONVERT(argument USING utf8mb4) FROM mysql.general_log WHERE command_type = 'Query'"
            )
            sent += [(int(session), str(text)) for session, text in self.run(kept)]


@dataclass
class MariaDb:
    """A running server."""

    port: int
    folder: Path
    process: subprocess.Popen[bytes]
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def new_database(self) -> Shop:
        name = f"shop_{next(self._numbers)}"
        with closing(self.connect("mysql")) as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {name}")
        return Shop(self, name)

    def connect(self, database: str) -> Any:
        address: dict[str, Any] = {"host": "127.0.0.1", "port": self.port, "user": "warden", "password": PASSWORD}
        return pymysql.connect(**address, database=database, autocommit=True)


@pytest.fixture(scope="session")
def mariadb() -> Iterator[MariaDb]:
    """A MariaDB server that lives as long as the test run."""
    with started() as server:
        yield server


@contextmanager
def started() -> Iterator[MariaDb]:
    """A server that lives as long as the block."""
    program = shutil.which("mariadbd", path="/usr/sbin:/usr/local/sbin:/usr/bin")
    if program is None:
        pytest.fail("MariaDB is not installed: these tests need it. On Debian: apt-get install mariadb-server")
    folder = Path(tempfile.mkdtemp(prefix="lakewarden-mariadb-"))
    try:
        data, user = folder / "data", getpass.getuser()
        command = ["mariadb-install-db", "--no-defaults", f"--datadir={data}", f"--user={user}", "--skip-test-db"]
        command.append("--auth-root-authentication-method=normal")
        made = subprocess.run(command, capture_output=True, check=False, text=True)
        if made.returncode:
            pytest.fail(f"mariadb-install-db failed: {made.stdout}{made.stderr}")
        yield from _served(program, folder, user)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _served(program: str, folder: Path, user: str) -> Iterator[MariaDb]:
    port = _free_port()
    settings = {
        "user": user,
        "datadir": folder / "data",
        "socket": folder / "s.sock",
        "pid-file": folder / "m.pid",
        "port": port,
        "bind-address": "127.0.0.1",
        "log-error": folder / "log",
        "default-time-zone": "+05:45",  # far from UTC, so that nothing comes out right by chance
        "innodb-flush-log-at-trx-commit": 0,
        "innodb-flush-method": "nosync",
        "sync-frm": 0,
        "innodb-buffer-pool-size": "64M",
    }
    options = [f"--{name}={value}" for name, value in settings.items()]
    process = subprocess.Popen([program, "--no-defaults", *options], stdout=subprocess.DEVNULL)
    try:
        _wait_until_it_answers(folder, process)
        yield MariaDb(port, folder, process)
    finally:
        process.kill()  # at once: nobody needs its databases any more
        process.wait()


def _wait_until_it_answers(folder: Path, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 30
    account = f"GRANT ALL ON *.* TO warden@'%' IDENTIFIED BY '{PASSWORD}' WITH GRANT OPTION"
    while True:
        try:
            root: dict[str, Any] = {"user": "root", "unix_socket": str(folder / "s.sock")}
            with closing(pymysql.connect(**root)) as connection, connection.cursor() as cursor:
                cursor.execute(account)
            return
        except pymysql.err.OperationalError:
            if process.poll() is not None or time.monotonic() > deadline:
                pytest.fail(f"MariaDB did not start: {(folder / 'log').read_text()[-2000:]}")
            time.sleep(0.05)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
