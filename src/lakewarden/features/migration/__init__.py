"""Migrations: schema changes in files, each applied once to a database."""

VERBS = ("list", "apply")
