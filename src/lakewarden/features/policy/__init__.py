"""What is declared about tables, and keeping them so."""

VERBS = ("show", "run")
