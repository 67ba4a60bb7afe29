"""The control database: a persistent journal, leases and records, on SQLite or PostgreSQL."""
