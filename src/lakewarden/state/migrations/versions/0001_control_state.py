"""The journal with steps and files, the leases, the secrets, and the records of erasure.

Revision 0001. A released revision is never edited, so it defines its own column types.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

moment = sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite")


def upgrade() -> None:
    _journal()
    _leases_and_secrets()
    _erasure_requests()
    _erasure_evidence()


def _journal() -> None:
    op.create_table(
        "operations",
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("id", sa.Text, nullable=False, unique=True),
        sa.Column("plan_id", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("target", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("created_at", moment, nullable=False),
        sa.Column("started_at", moment),
        sa.Column("finished_at", moment),
        sa.Column("request", sa.Text, nullable=False),
        sa.Column("plan", sa.Text, nullable=False),
        sa.Column("findings", sa.Text, nullable=False),
        sa.Column("error", sa.Text),
        sa.Column("result", sa.Text),
        sa.Column("stop_requested", sa.Text),
        sa.Column("applied_by", sa.Text, nullable=False),
    )
    op.create_index("operations_by_plan", "operations", ["plan_id"])
    op.create_index("operations_by_time", "operations", ["created_at"])
    op.create_index("operations_by_state", "operations", ["state", "created_at"])
    op.create_index("operations_by_kind", "operations", ["kind", "created_at"])
    op.create_table(
        "steps",
        _key_to("operation", "operations.id"),
        sa.Column("position", sa.Integer, primary_key=True),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("says", sa.Text, nullable=False),
        sa.Column("progress", sa.Text, nullable=False),
        sa.Column("facts", sa.Text, nullable=False),
        sa.Column("error", sa.Text),
        sa.Column("at", moment),
    )
    op.create_index("steps_by_subject", "steps", ["subject", "operation"])
    op.create_table(
        "action_files",
        _key_to("operation", "operations.id"),
        sa.Column("action", sa.Text, primary_key=True),
        sa.Column("packed", sa.LargeBinary, nullable=False),
    )


def _leases_and_secrets() -> None:
    op.create_table(
        "leases",
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("label", sa.Text, nullable=False),
        sa.Column("operation", sa.Text, nullable=False),
        sa.Column("holder", sa.Text, nullable=False),
        sa.Column("epoch", sa.Integer, nullable=False),
        sa.Column("expires_at", moment, nullable=False),
    )
    op.create_table(
        "secrets",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("value", sa.LargeBinary, nullable=False),
    )


def _erasure_requests() -> None:
    op.create_table(
        "erasure_requests",
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("id", sa.Text, nullable=False, unique=True),
        sa.Column("created_at", moment, nullable=False),
        sa.Column("requester", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("deadline", moment),
        sa.Column("grace_until", moment, nullable=False),
        sa.Column("values", sa.Integer, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("closed_at", moment),
        sa.Column("folding", sa.Text, nullable=False),
    )
    op.create_index("erasure_requests_by_state", "erasure_requests", ["state", "created_at"])
    op.create_table(
        "erasure_keys",
        _key_to("request", "erasure_requests.id"),
        sa.Column("position", sa.Integer, primary_key=True),
        sa.Column("table", sa.Text, nullable=False),
        sa.Column("uuid", sa.Text, nullable=False),
        sa.Column("path", sa.Text, nullable=False),
        sa.Column("field_id", sa.Integer, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
    )
    op.create_index("erasure_keys_by_table", "erasure_keys", ["uuid", "request"])
    op.create_table(
        "tombstones",
        _key_to("request", "erasure_requests.id"),
        sa.Column("position", sa.Integer, primary_key=True),
        sa.Column("chunk", sa.Integer, primary_key=True),
        sa.Column("packed", sa.LargeBinary),
        sa.Column("digests", sa.LargeBinary, nullable=False),
    )


def _erasure_evidence() -> None:
    op.create_table(
        "erasure_evidence",
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("table", sa.Text, nullable=False),
        sa.Column("uuid", sa.Text, nullable=False),
        sa.Column("operation", sa.Text, nullable=False),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("at", moment, nullable=False),
        sa.Column("packed", sa.LargeBinary, nullable=False),
    )
    op.create_index("erasure_evidence_by_action", "erasure_evidence", ["operation", "action", "kind"], unique=True)
    op.create_index("erasure_evidence_by_table", "erasure_evidence", ["uuid", "kind"])
    op.create_table(
        "erasure_evidence_requests",
        _key_to("evidence", "erasure_evidence.number", sa.Integer),
        _key_to("request", "erasure_requests.id"),
    )
    op.create_index("erasure_evidence_of_requests", "erasure_evidence_requests", ["request"])


def _key_to(name: str, target: str, kind: type[sa.Text] | type[sa.Integer] = sa.Text) -> sa.Column[Any]:
    """A part of a primary key that references a row of another table, and is deleted with it."""
    return sa.Column(name, kind, sa.ForeignKey(target, ondelete="CASCADE"), primary_key=True)


def downgrade() -> None:
    for table in ("erasure_evidence_requests", "erasure_evidence", "tombstones", "erasure_keys", "erasure_requests"):
        op.drop_table(table)
    for table in ("secrets", "leases", "action_files", "steps", "operations"):
        op.drop_table(table)
