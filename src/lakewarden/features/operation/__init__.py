"""The journal of operations: look, apply a plan, pause, resume, cancel."""

VERBS = ("list", "show", "apply", "pause", "resume", "cancel")
