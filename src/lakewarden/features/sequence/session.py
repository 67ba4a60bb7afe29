"""A session with a MariaDB server: by the driver PyMySQL, or by the command line client.

Both return every value as text, so that nothing else depends on how the server is reached.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Protocol
from xml.etree import ElementTree

from lakewarden.config import DatabaseAddress

Row = Mapping[str, str | None]

_CONNECT_SECONDS = 10
_LOST = 2013
_MALFORMED = 2027
_NIL = "{http://www.w3.org/2001/XMLSchema-instance}nil"
_ERROR = re.compile(r"^ERROR (\d+)(?: \(\w+\))?(?: at line \d+)?: (.*)", re.MULTILINE)
_HEAD = '<?xml version="1.0"?>'
_END = "</resultset>"


class SqlError(Exception):
    """An error of the server or of the way to it, by MariaDB's number."""

    def __init__(self, number: int, text: str) -> None:
        super().__init__(number, text)
        self.number = number
        self.text = text


class Session(Protocol):
    """One connection."""

    @property
    def is_over(self) -> bool:
        """Whether it cannot be used any more."""
        ...

    def rows(self, sql: str) -> list[Row]:
        """Run one statement; raises SqlError."""
        ...

    def close(self) -> None: ...


class DriverSession:
    """By PyMySQL."""

    def __init__(self, address: DatabaseAddress) -> None:
        import pymysql

        self._errors = (pymysql.Error, OSError)
        try:
            self._connection = pymysql.connect(
                host=address.host,
                port=address.port,
                user=address.user,
                password=address.password,
                database=address.database,
                charset="utf8mb4",
                autocommit=True,
                connect_timeout=_CONNECT_SECONDS,
                conv={},
            )
        except self._errors as error:
            raise _sql_error(error) from None

    @property
    def is_over(self) -> bool:
        return not self._connection.open

    def rows(self, sql: str) -> list[Row]:
        try:
            with self._connection.cursor() as cursor:
                cursor.execute(sql)
                names = [column[0] for column in cursor.description or ()]
                return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
        except self._errors as error:
            raise _sql_error(error) from None

    def close(self) -> None:
        with suppress(*self._errors):
            self._connection.close()


class ClientSession:
    """By the command line client, in one process that is sent statements. It ends at the first error."""

    def __init__(self, program: str) -> None:
        self._stderr = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115 - until closed
        try:
            self._process = subprocess.Popen(
                [program, "-X", "-n", "--default-character-set=utf8mb4"],  # else it depends on the locale
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                encoding="utf-8",
                errors="replace",
                start_new_session=True,  # Ctrl-C ends a run between two statements, not a statement
            )
        except OSError as error:
            self._stderr.close()
            raise SqlError(_LOST, f"{program} cannot be started: {error.strerror}") from None

    @property
    def is_over(self) -> bool:
        return self._process.poll() is not None

    def rows(self, sql: str) -> list[Row]:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{sql.rstrip().removesuffix(';')};\nSELECT 1 AS lakewarden_end;\n")
            self._process.stdin.flush()
        except OSError:
            raise self._failure() from None
        results = list(self._results())
        return results[0] if len(results) > 1 else []

    def close(self) -> None:
        with suppress(OSError):
            self._process.communicate()
        self._stderr.close()

    def _results(self) -> Iterator[list[Row]]:
        """The result sets of what was sent, up to and including the one that marks the end."""
        assert self._process.stdout is not None
        lines: list[str] = []
        for line in self._process.stdout:
            lines.append(line)
            if line.rstrip().endswith(_END):
                try:
                    found = ElementTree.fromstring("".join(lines).partition(_HEAD)[2])
                except ElementTree.ParseError:
                    self._process.kill()
                    self._process.wait()
                    raise SqlError(_MALFORMED, "a value has a character that the client's XML cannot carry") from None
                yield [{str(field.get("name")): _text(field) for field in row} for row in found]
                if str(found.get("statement")) == "SELECT 1 AS lakewarden_end":
                    return
                lines = []
        raise self._failure()

    def _failure(self) -> SqlError:
        self._process.wait()
        self._stderr.seek(0)
        said = self._stderr.read()
        found = _ERROR.search(said)
        if found is None:
            last = said.strip().splitlines()[-1:] or [f"it ended with exit code {self._process.returncode}"]
            return SqlError(_LOST, last[0])
        return SqlError(int(found[1]), found[2])


def _text(field: ElementTree.Element) -> str | None:
    return None if field.get(_NIL) == "true" else field.text or ""


def _sql_error(error: Exception) -> SqlError:
    match error.args:
        case (int(number), text, *_):
            return SqlError(number or _LOST, str(text) or "the connection is closed")
    return SqlError(_LOST, str(error) or type(error).__name__)
