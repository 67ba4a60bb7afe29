"""Look at tables."""

VERBS = ("list", "show", "health")
