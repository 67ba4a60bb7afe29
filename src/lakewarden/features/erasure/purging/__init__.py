"""The steps of a purge: planning, intent, rewriting, stray copies, and the record."""
