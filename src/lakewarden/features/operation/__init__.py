"""The journal of operations: list, show, apply a stored plan, pause, resume, cancel."""

VERBS = ("list", "show", "apply", "pause", "resume", "cancel")
