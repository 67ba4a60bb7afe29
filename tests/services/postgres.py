"""A real PostgreSQL for tests: Debian's, started once a run on a free port, and ended by its pid.

The fixture `postgres` gives `new_database()`, the URL of a fresh and empty database each time it is called, and
`migrated_database()`, one with the tables of a control database.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest

from lakewarden.state.database import Database

PASSWORD = "correct-horse-battery"


@dataclass
class Postgres:
    """A running server."""

    port: int
    process: subprocess.Popen[bytes]
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))
    _migrated: list[str] = field(default_factory=list)

    def new_database(self, template: str = "template1") -> str:
        """The URL of a database that nothing is in but what its template has."""
        name = f"lakewarden_{next(self._numbers)}"
        with psycopg.connect(self.conninfo("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        return f"postgresql+psycopg://warden:{PASSWORD}@127.0.0.1:{self.port}/{name}"

    def migrated_database(self) -> str:
        """The URL of a control database that is up to date and has no rows: a copy of one that is made once."""
        if not self._migrated:
            url = self.new_database()
            with closing(Database(url)) as database, database.connect():
                pass
            self._migrated.append(url.rpartition("/")[2])
        return self.new_database(template=self._migrated[0])

    def conninfo(self, name: str) -> str:
        return f"host=127.0.0.1 port={self.port} user=warden password={PASSWORD} dbname={name} connect_timeout=5"


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A PostgreSQL server that lives as long as the test run."""
    programs = _programs()
    folder = Path(tempfile.mkdtemp(prefix="lakewarden-postgres-"))
    account = _account(folder)
    try:
        (folder / "password").write_text(PASSWORD)
        (folder / "password").chmod(0o644)
        command: list[str | Path] = [
            programs / "initdb",
            "--pgdata",
            folder / "data",
            "--username",
            "warden",
            "--no-sync",
        ]
        command += ["--auth", "scram-sha-256", "--pwfile", folder / "password", "--encoding", "UTF8", "--locale", "C"]
        made = subprocess.run(command, capture_output=True, check=False, text=True, cwd=folder, **account)
        if made.returncode:
            pytest.fail(f"initdb failed: {made.stderr}")
        yield from _served(programs, folder, account)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _served(programs: Path, folder: Path, account: dict[str, Any]) -> Iterator[Postgres]:
    port = _free_port()
    settings = {
        "listen_addresses": "127.0.0.1",
        "port": port,
        "unix_socket_directories": folder,
        "fsync": "off",
        "synchronous_commit": "off",
        "full_page_writes": "off",
        "max_connections": 60,
        "timezone": "Asia/Kathmandu",  # far from UTC and from any whole hour, so that nothing comes out right by chance
    }
    options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [programs / "postgres", "-D", folder / "data", *options], stdout=log, stderr=log, cwd=folder, **account
        )
    try:
        server = Postgres(port, process)
        _wait_until_it_answers(server, folder / "log")
        yield server
    finally:
        process.send_signal(signal.SIGQUIT)  # at once: nobody needs the hundreds of databases on disk any more
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _programs() -> Path:
    """The folder of the newest PostgreSQL that Debian installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: float(path.parts[4]))
    if not found:
        pytest.fail("PostgreSQL is not installed: these tests need it. On Debian: apt-get install postgresql")
    return found[-1].parent


def _account(folder: Path) -> dict[str, Any]:
    """Who runs the server: it refuses to be root, so then it is postgres, or else nobody."""
    if os.geteuid() != 0:
        return {}
    names = {entry.pw_name for entry in pwd.getpwall()}
    user = pwd.getpwnam("postgres" if "postgres" in names else "nobody")
    os.chown(folder, user.pw_uid, user.pw_gid)
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_until_it_answers(server: Postgres, log: Path) -> None:
    deadline = time.monotonic() + 30
    while True:
        try:
            psycopg.connect(server.conninfo("postgres")).close()
            return
        except psycopg.OperationalError:
            if server.process.poll() is not None or time.monotonic() > deadline:
                pytest.fail(f"PostgreSQL did not start: {log.read_text()[-2000:]}")
            time.sleep(0.05)
