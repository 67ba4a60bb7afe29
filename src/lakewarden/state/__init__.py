"""The control database: journal and leases that last, on SQLite or PostgreSQL."""
