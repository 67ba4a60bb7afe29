"""Files that no version of a table needs: found, put away, brought back, deleted."""

VERBS = ("find", "quarantine", "list", "restore", "delete")
