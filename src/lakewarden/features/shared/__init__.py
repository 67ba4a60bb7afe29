"""Used by several nouns: selecting tables, planning for each of them, and a table's settings."""
