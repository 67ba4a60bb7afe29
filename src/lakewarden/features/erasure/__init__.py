"""Forget people: hide their rows at once, and keep count of who is to be erased."""

VERBS = ("request", "list", "show", "hide", "withdraw", "prove", "certificate", "check-certificate", "watch")
