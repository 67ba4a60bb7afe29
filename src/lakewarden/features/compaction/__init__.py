"""Make few large files of many small ones, and drop for good the rows that are deleted already."""

VERBS = ("analyze", "compact", "manifests")
ALIASES = {"analyse": "analyze"}
