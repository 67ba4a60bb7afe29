"""The journal of operations: look, apply a plan, resume, cancel."""

VERBS = ("list", "show", "apply", "resume", "cancel")
