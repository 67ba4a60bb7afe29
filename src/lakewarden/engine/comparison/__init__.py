"""Compares two versions of tables: which columns match, which files must be read, and how rows are compared."""
