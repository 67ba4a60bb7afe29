"""What a purge is planned from, what it intends, what it rewrites, and what it records."""
