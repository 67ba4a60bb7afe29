"""Sequences: partitions of database tables over a growing id, kept ahead of the writers, archived and dropped."""

VERBS = ("maintain", "stats", "forecast", "archive", "drop", "restore", "read", "record", "convert")
