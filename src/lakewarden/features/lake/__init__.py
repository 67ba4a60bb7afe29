"""Set up a lake, and see whether everything around it is well."""

VERBS = ("init", "key", "doctor")
