"""Rewrite small files into larger ones and physically remove deleted rows."""

VERBS = ("analyze", "compact", "manifests")
ALIASES = {"analyse": "analyze"}
