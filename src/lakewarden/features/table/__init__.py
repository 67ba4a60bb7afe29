"""List tables, show one, and report table health and files of older schemas."""

VERBS = ("list", "show", "health", "incompatible")
