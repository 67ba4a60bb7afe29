"""The versions of a table: list, read, tag, branch, roll back."""

VERBS = ("list", "show", "read", "tag", "untag", "branch", "rollback")
