"""Replaces files in all versions of a table at once."""
