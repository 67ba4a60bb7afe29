"""Comparisons of two versions of a table: their schemas, and their rows."""

VERBS = ("schema", "data")
