"""The tables of the control database, and how they store times and documents.

Queries use these definitions, and so does the search for erased values (`forgetting.py`). The revisions in
`migrations/` create the tables, and a test compares the two.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    Column,
    DateTime,
    Dialect,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    TypeDecorator,
)
from sqlalchemy.types import TypeEngine


class UtcTime(TypeDecorator[datetime]):
    """A moment in UTC, to the microsecond; on SQLite a text of fixed width, which sorts by time."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return dialect.type_descriptor(Text() if dialect.name == "sqlite" else DateTime(timezone=True))

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"{value} has no time zone")
        moment = value.astimezone(UTC)
        return moment.isoformat(timespec="microseconds") if dialect.name == "sqlite" else moment

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        moment: datetime = datetime.fromisoformat(value) if isinstance(value, str) else value
        return moment.astimezone(UTC)


class JsonText(TypeDecorator[Any]):
    """A JSON document as text; values that JSON cannot represent are stored as text."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:
        return None if value is None else json.dumps(value, default=str)

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any:
        return None if value is None else json.loads(value)


metadata = MetaData()

VALUES, NO_VALUES = {"may_hold_values": True}, {"may_hold_values": False}
"""Each text says whether it may quote values of rows: these are searched when an erasure request is closed."""

operations = Table(
    "operations",
    metadata,
    Column("number", Integer, primary_key=True),  # orders operations of the same moment
    Column("id", Text, nullable=False, unique=True, info=NO_VALUES),
    Column("plan_id", Text, nullable=False, info=NO_VALUES),
    Column("kind", Text, nullable=False, info=NO_VALUES),
    Column("target", Text, nullable=False, info=NO_VALUES),
    Column("state", Text, nullable=False, info=NO_VALUES),
    Column("actor", Text, nullable=False, info=VALUES),
    Column("created_at", UtcTime, nullable=False),
    Column("started_at", UtcTime),
    Column("finished_at", UtcTime),
    Column("request", Text, nullable=False, info=VALUES),
    Column("plan", Text, nullable=False, info=VALUES),
    Column("findings", JsonText, nullable=False, info=VALUES),
    Column("error", JsonText, info=VALUES),
    Column("result", JsonText, info=VALUES),
    Column("stop_requested", Text, info=NO_VALUES),
    Column("applied_by", Text, nullable=False, info=VALUES),
    Index("operations_by_plan", "plan_id"),
    Index("operations_by_time", "created_at"),
    Index("operations_by_state", "state", "created_at"),
    Index("operations_by_kind", "kind", "created_at"),
)
"""One row per operation that was ever planned."""

steps = Table(
    "steps",
    metadata,
    Column("operation", Text, ForeignKey("operations.id", ondelete="CASCADE"), primary_key=True, info=NO_VALUES),
    Column("position", Integer, primary_key=True),
    Column("action", Text, nullable=False, info=NO_VALUES),
    Column("subject", Text, nullable=False, info=NO_VALUES),
    Column("says", Text, nullable=False, info=VALUES),
    Column("progress", Text, nullable=False, info=NO_VALUES),
    Column("facts", JsonText, nullable=False, info=VALUES),
    Column("error", JsonText, info=VALUES),
    Column("at", UtcTime),
    Index("steps_by_subject", "subject", "operation"),
)
"""One row per action of an operation, in plan order."""

action_files = Table(
    "action_files",
    metadata,
    Column("operation", Text, ForeignKey("operations.id", ondelete="CASCADE"), primary_key=True, info=NO_VALUES),
    Column("action", Text, primary_key=True, info=NO_VALUES),
    Column("packed", LargeBinary, nullable=False, info=VALUES),
)
"""One row per action with files: all of them, compressed. The plan has their number, size and digest."""

leases = Table(
    "leases",
    metadata,
    Column("key", Text, primary_key=True, info=NO_VALUES),
    Column("label", Text, nullable=False, info=VALUES),
    Column("operation", Text, nullable=False, info=NO_VALUES),
    Column("holder", Text, nullable=False, info=NO_VALUES),
    Column("epoch", Integer, nullable=False),
    Column("expires_at", UtcTime, nullable=False),
)
"""One row per key that was ever leased. Rows stay, because epochs only grow."""

erasure_requests = Table(
    "erasure_requests",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("id", Text, nullable=False, unique=True, info=NO_VALUES),
    Column("created_at", UtcTime, nullable=False),
    Column("requester", Text, nullable=False, info=VALUES),
    Column("reason", Text, nullable=False, info=VALUES),
    Column("subject", Text, nullable=False, info=VALUES),
    Column("deadline", UtcTime),
    Column("grace_until", UtcTime, nullable=False),
    Column("values", Integer, nullable=False),
    Column("state", Text, nullable=False, info=NO_VALUES),
    Column("closed_at", UtcTime),
    Column("folding", Text, nullable=False, info=NO_VALUES),
    Index("erasure_requests_by_state", "state", "created_at"),
)
"""One row per erasure request."""

erasure_keys = Table(
    "erasure_keys",
    metadata,
    Column("request", Text, ForeignKey("erasure_requests.id", ondelete="CASCADE"), primary_key=True, info=NO_VALUES),
    Column("position", Integer, primary_key=True),
    Column("table", Text, nullable=False, info=NO_VALUES),
    Column("uuid", Text, nullable=False, info=NO_VALUES),
    Column("path", Text, nullable=False, info=NO_VALUES),
    Column("field_id", Integer, nullable=False),
    Column("kind", Text, nullable=False, info=NO_VALUES),
    Index("erasure_keys_by_table", "uuid", "request"),
)
"""One row per key column of each table of a request."""

tombstones = Table(
    "tombstones",
    metadata,
    Column("request", Text, ForeignKey("erasure_requests.id", ondelete="CASCADE"), primary_key=True, info=NO_VALUES),
    Column("position", Integer, primary_key=True),
    Column("chunk", Integer, primary_key=True),
    Column("packed", LargeBinary, info=NO_VALUES),
    Column("digests", LargeBinary, nullable=False, info=NO_VALUES),
)
"""The values of a key, compressed, thousands per row. They are deleted when the request is closed; digests stay."""

erasure_evidence = Table(
    "erasure_evidence",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("kind", Text, nullable=False, info=NO_VALUES),
    Column("table", Text, nullable=False, info=NO_VALUES),
    Column("uuid", Text, nullable=False, info=NO_VALUES),
    Column("operation", Text, nullable=False, info=NO_VALUES),
    Column("action", Text, nullable=False, info=NO_VALUES),
    Column("at", UtcTime, nullable=False),
    Column("packed", LargeBinary, nullable=False, info=VALUES),
    Index("erasure_evidence_by_action", "operation", "action", "kind", unique=True),
    Index("erasure_evidence_by_table", "uuid", "kind"),
)
"""One row per record of what an action did or found for requests in a table, with a compressed document."""

erasure_evidence_requests = Table(
    "erasure_evidence_requests",
    metadata,
    Column("evidence", Integer, ForeignKey("erasure_evidence.number", ondelete="CASCADE"), primary_key=True),
    Column("request", Text, ForeignKey("erasure_requests.id", ondelete="CASCADE"), primary_key=True, info=NO_VALUES),
    Index("erasure_evidence_of_requests", "request"),
)
"""The requests that evidence is about."""

secrets = Table(
    "secrets",
    metadata,
    Column("name", Text, primary_key=True, info=NO_VALUES),
    Column("value", LargeBinary, nullable=False, info=NO_VALUES),
)
"""Secrets of this installation, such as the key for digests of erased values."""

sequence_positions = Table(
    "sequence_positions",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("table", Text, nullable=False, info=NO_VALUES),
    Column("at", UtcTime, nullable=False),
    Column("position", JsonText, nullable=False, info=NO_VALUES),
    Index("sequence_positions_by_table", "table", "at"),
)
