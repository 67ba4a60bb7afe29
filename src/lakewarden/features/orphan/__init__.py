"""Files that no version of a table needs: find them, move them to quarantine, restore or delete them."""

VERBS = ("find", "quarantine", "list", "restore", "delete")
