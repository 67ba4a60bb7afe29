"""Translates errors of SQLAlchemy and the drivers into `StateUnavailable`, without passwords."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError

from lakewarden.errors import StateUnavailable

_SQLITE = {
    "SQLITE_BUSY": (
        "is locked by another process",
        "Try again when that process is done; PostgreSQL handles many writers better.",
    ),
    "SQLITE_READONLY": (
        "cannot be written",
        "Grant this user write access to the file and its folder.",
    ),
    "SQLITE_CANTOPEN": (
        "cannot be opened or created",
        "Grant this user write access to the file and its folder, and check that it is a file.",
    ),
    "SQLITE_NOTADB": (
        "is not an SQLite database",
        "Set `state` in lakewarden.yaml to another file.",
    ),
    "SQLITE_FULL": (
        "cannot grow: the disk is full",
        "Free some space on that disk.",
    ),
    "SQLITE_CORRUPT": (
        "is damaged",
        "Move it away: a new one is created on next use. It holds no table data, but the journal.",
    ),
}
"""What SQLite's error codes mean here, and what to do."""

_NO_ANSWER = "Check that PostgreSQL runs there, and that host, database, user and password in `state` are correct."
_LOOK = "Run lakewarden lake doctor to check the control database."


def explain(error: DBAPIError, place: str, secrets: Iterable[str]) -> StateUnavailable:
    """The error to raise instead of a driver's."""
    if isinstance(error.orig, sqlite3.Error):
        name = getattr(error.orig, "sqlite_errorname", "")
        for kind, (what, hint) in _SQLITE.items():
            if name.startswith(kind):
                return StateUnavailable(f"{place} {what}", hint=hint)
    message = _redacted(_first_words(error), secrets)
    if isinstance(error, OperationalError | InterfaceError) and _found_no_server(error):
        return StateUnavailable(f"{place} does not respond: {message}", hint=_NO_ANSWER)
    return StateUnavailable(f"{place} refused: {message}", hint=_LOOK)


def _found_no_server(error: DBAPIError) -> bool:
    """Whether there was no connection, rather than a statement that failed."""
    return error.connection_invalidated or getattr(error.orig, "sqlstate", None) is None


def _first_words(error: DBAPIError) -> str:
    """The first line of the driver's message. The rest may quote rows, which must not appear in an error."""
    primary = getattr(getattr(error.orig, "diag", None), "message_primary", None)
    lines = str(primary or error.orig).strip().splitlines()
    return lines[0].strip() if lines else type(error.orig).__name__


def _redacted(text: str, secrets: Iterable[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, "***")
    return text
