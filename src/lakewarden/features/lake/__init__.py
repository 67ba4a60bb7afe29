"""Set up a lake and check everything it depends on."""

VERBS = ("init", "key", "doctor")
