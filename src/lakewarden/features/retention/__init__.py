"""Let old versions go, and the files that only they need."""

VERBS = ("expire",)
