"""The section `sequences`: the operational database, and the tables whose partitions are maintained.

A `partitionmanager:` file of the tool that many operators use has the same keys, and is read unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import unquote, urlsplit

from pydantic import BeforeValidator, Field, SecretStr, field_validator, model_validator

from lakewarden.config.section import Section
from lakewarden.quantities import Duration, parse_duration

_MARIADB_PORT = 3306
_MORE_THAN_READS = re.compile(r"\b(into|for\s+update|in\s+share\s+mode)\b", re.IGNORECASE)
"""What a read-only session would still allow."""
_URL = "a dburl is sql://user:password@host:port/database, with %40 for @, %2F for / and %25 for % in the password"


def _period(given: Any) -> timedelta:
    """`{days: 30}`, or `30d` as everywhere else."""
    if isinstance(given, Mapping):
        if set(given) != {"days"} or isinstance(given["days"], bool) or not isinstance(given["days"], int | float):
            raise ValueError("write a period as {days: 30} or 30d")
        given = timedelta(days=given["days"])
    period = parse_duration(given)
    if period < timedelta(hours=1):
        raise ValueError("a period is at least an hour")
    return period


Period = Annotated[timedelta, BeforeValidator(_period)]


@dataclass(frozen=True)
class DatabaseAddress:
    """Where a database is, and how to log in."""

    host: str
    port: int
    user: str
    database: str
    password: str = field(repr=False)

    @staticmethod
    def parse(url: str) -> DatabaseAddress:
        """Parse a dburl. Errors never quote it: it has a password."""
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port or _MARIADB_PORT
        except ValueError:
            raise ValueError(_URL) from None
        database = unquote(parts.path.removeprefix("/"))
        if parts.scheme != "sql" or not host or not parts.username or not database or parts.query or parts.fragment:
            raise ValueError(_URL)
        return DatabaseAddress(host, port, unquote(parts.username), database, unquote(parts.password or ""))


class ArchiveSettings(Section):
    table: str | None = None
    """The Iceberg table; by default `archive.TABLE` in the first lake."""


class SequenceTable(Section):
    """One table of the database; what is not set comes from the section."""

    partition_period: Period | None = None
    retention: Period | None = None
    retention_period: Period | None = Field(None, repr=False)
    earliest_utc_timestamp_query: str | None = None
    archive: ArchiveSettings = ArchiveSettings()
    grace: Duration | None = None

    @field_validator("earliest_utc_timestamp_query")
    @classmethod
    def _one_select(cls, query: str | None) -> str | None:
        if query is None:
            return None
        text = query.strip()
        if not re.match(r"select\s", text, re.IGNORECASE) or _MORE_THAN_READS.search(text):
            raise ValueError("must be one SELECT that neither writes nor locks")
        if not text.endswith(";") or text.count(";") != 1:
            raise ValueError("must be one statement, ended by a semicolon")
        if text.count("?") != 1:
            raise ValueError("must have exactly one ?, which stands for an id")
        return text

    @model_validator(mode="after")
    def _one_retention(self) -> SequenceTable:
        if self.retention is not None and self.retention_period not in (None, self.retention):
            raise ValueError("retention and retention_period differ: they mean the same")
        return self

    @property
    def kept_for(self) -> timedelta | None:
        """How long rows stay in the database; None if for ever."""
        return self.retention or self.retention_period


class SequenceSettings(Section):
    dburl: SecretStr | None = None
    mariadb: str | None = None
    """The command line client, which knows by its own option files where the server is."""
    partition_period: Period = timedelta(days=30)
    num_empty: int = Field(2, ge=1)
    noop: bool = False
    prometheus_stats: Path | None = None
    grace: Duration = timedelta(days=7)
    tables: dict[str, SequenceTable] = Field(default_factory=dict)

    @field_validator("dburl")
    @classmethod
    def _parses(cls, dburl: SecretStr | None) -> SecretStr | None:
        if dburl is not None:
            DatabaseAddress.parse(dburl.get_secret_value())
        return dburl

    @field_validator("tables", mode="before")
    @classmethod
    def _without_settings(cls, tables: Any) -> Any:
        """A table may have no settings at all: `orders:`."""
        if not isinstance(tables, Mapping):
            return tables
        return {name: {} if settings is None else settings for name, settings in tables.items()}

    @model_validator(mode="after")
    def _one_connection(self) -> SequenceSettings:
        if self.dburl is not None and self.mariadb is not None:
            raise ValueError("give dburl or mariadb, not both")
        return self

    @property
    def address(self) -> DatabaseAddress | None:
        return None if self.dburl is None else DatabaseAddress.parse(self.dburl.get_secret_value())

    def table(self, name: str) -> SequenceTable:
        return self.tables.get(name, SequenceTable())

    def period(self, name: str) -> timedelta:
        """How long one partition of a table should take to fill."""
        return self.table(name).partition_period or self.partition_period

    def grace_of(self, name: str) -> timedelta:
        """How long detached rows of a table can be restored."""
        own = self.table(name).grace
        return self.grace if own is None else own
