"""The journal of operations with their steps and files, and the leases.

Revision 0001. A revision is never edited once it was released: it keeps its own column types.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

moment = sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite")


def upgrade() -> None:
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
        sa.Column("cancel_requested", sa.Boolean, nullable=False),
        sa.Column("applied_by", sa.Text, nullable=False),
    )
    op.create_index("operations_by_plan", "operations", ["plan_id"])
    op.create_index("operations_by_time", "operations", ["created_at"])
    op.create_index("operations_by_state", "operations", ["state", "created_at"])
    op.create_index("operations_by_kind", "operations", ["kind", "created_at"])
    op.create_table(
        "steps",
        sa.Column("operation", sa.Text, sa.ForeignKey("operations.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("position", sa.Integer, primary_key=True),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("table", sa.Text, nullable=False),
        sa.Column("says", sa.Text, nullable=False),
        sa.Column("progress", sa.Text, nullable=False),
        sa.Column("facts", sa.Text, nullable=False),
        sa.Column("error", sa.Text),
        sa.Column("at", moment),
    )
    op.create_index("steps_by_table", "steps", ["table", "operation"])
    op.create_table(
        "action_files",
        sa.Column("operation", sa.Text, sa.ForeignKey("operations.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("action", sa.Text, primary_key=True),
        sa.Column("packed", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "leases",
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("label", sa.Text, nullable=False),
        sa.Column("operation", sa.Text, nullable=False),
        sa.Column("holder", sa.Text, nullable=False),
        sa.Column("epoch", sa.Integer, nullable=False),
        sa.Column("expires_at", moment, nullable=False),
    )


def downgrade() -> None:
    op.drop_table("leases")
    op.drop_table("action_files")
    op.drop_table("steps")
    op.drop_table("operations")
