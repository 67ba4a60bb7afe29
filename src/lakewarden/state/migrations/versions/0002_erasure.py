"""Requests for erasure, their keys and tombstones, and the installation's own secrets.

Revision 0002. A revision is never edited once it was released: it keeps its own column types.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

moment = sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite")


def upgrade() -> None:
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
    )
    op.create_index("erasure_requests_by_state", "erasure_requests", ["state", "created_at"])
    request = sa.ForeignKey("erasure_requests.id", ondelete="CASCADE")
    op.create_table(
        "erasure_keys",
        sa.Column("request", sa.Text, request, primary_key=True),
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
        sa.Column("request", sa.Text, sa.ForeignKey("erasure_requests.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("position", sa.Integer, primary_key=True),
        sa.Column("chunk", sa.Integer, primary_key=True),
        sa.Column("packed", sa.LargeBinary),
        sa.Column("digests", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "secrets",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("value", sa.LargeBinary, nullable=False),
    )


def downgrade() -> None:
    for table in ("secrets", "tombstones", "erasure_keys", "erasure_requests"):
        op.drop_table(table)
