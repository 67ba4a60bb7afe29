"""The versions of a table: list, read, tag, branch, roll back, and see what keeps their files."""

VERBS = ("list", "show", "read", "tag", "untag", "branch", "rollback", "held")
