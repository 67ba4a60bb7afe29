"""What was done and found about requests for erasure.

Revision 0003. A revision is never edited once it was released: it keeps its own column types.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

moment = sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite")


def upgrade() -> None:
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
    evidence = sa.ForeignKey("erasure_evidence.number", ondelete="CASCADE")
    request = sa.ForeignKey("erasure_requests.id", ondelete="CASCADE")
    op.create_table(
        "erasure_evidence_requests",
        sa.Column("evidence", sa.Integer, evidence, primary_key=True),
        sa.Column("request", sa.Text, request, primary_key=True),
    )
    op.create_index("erasure_evidence_of_requests", "erasure_evidence_requests", ["request"])


def downgrade() -> None:
    for table in ("erasure_evidence_requests", "erasure_evidence"):
        op.drop_table(table)
