"""Recorded positions of database tables.

Revision 0002. A released revision is never edited, so it defines its own column types.
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
        "sequence_positions",
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("table", sa.Text, nullable=False),
        sa.Column("at", moment, nullable=False),
        sa.Column("position", sa.Text, nullable=False),
    )
    op.create_index("sequence_positions_by_table", "sequence_positions", ["table", "at"])
