"""The policies of tables, and the upkeep that they require."""

VERBS = ("show", "run")
