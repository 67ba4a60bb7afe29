"""Run by Alembic: upgrades over the connection and transaction that `migration.py` passes in."""

from __future__ import annotations

from alembic import context

from lakewarden.state.tables import metadata

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=metadata, render_as_batch=connection.dialect.name == "sqlite")
with context.begin_transaction():
    context.run_migrations()
