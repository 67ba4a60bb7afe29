"""List tables, show one, and report table health."""

VERBS = ("list", "show", "health")
