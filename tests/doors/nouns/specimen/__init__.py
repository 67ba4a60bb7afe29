"""A noun for tests only: what declarations can do that no noun uses yet."""

VERBS = ("define", "forget", "list", "preview")
ALIASES = {"declare": "define"}
