"""Expire old versions and remove the files that only they need."""

VERBS = ("expire",)
