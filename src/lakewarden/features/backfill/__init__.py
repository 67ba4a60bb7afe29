"""Backfills: rows of a source written to a table batch by batch, each batch exactly once."""

VERBS = ("list", "status", "register", "run", "pause", "resume", "cancel", "clear", "undo", "locate")
SIDE_TABLES = {"__bad_rows": "checkpoint"}
