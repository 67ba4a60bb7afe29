"""What several nouns use, itself no noun: which tables are meant, planning for each of them, and a table's settings."""
