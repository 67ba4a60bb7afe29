"""Which differences in spelling a request ignores; and how many values it asked for, each counted once.

Revision 0004. A revision is never edited once it was released: it keeps its own column types.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_DIGEST = 32  # bytes
_requests = sa.table("erasure_requests", sa.column("id"), sa.column("values"))
_values = sa.table("tombstones", sa.column("request"), sa.column("position"), sa.column("digests"))


def upgrade() -> None:
    op.add_column("erasure_requests", sa.Column("folding", sa.Text, nullable=False, server_default=""))
    connection = op.get_bind()
    of_keys = sa.select(_values.c.request, sa.func.sum(sa.func.length(_values.c.digests)).label("bytes"))
    largest: dict[str, int] = {}  # a value that is in several keys had been counted in each
    for row in connection.execute(of_keys.group_by(_values.c.request, _values.c.position)).all():
        largest[row.request] = max(int(row.bytes) // _DIGEST, largest.get(row.request, 0))
    for request, values in largest.items():
        connection.execute(sa.update(_requests).where(_requests.c.id == request).values({"values": values}))


def downgrade() -> None:
    op.drop_column("erasure_requests", "folding")
