"""Erase people's data: hide rows immediately, erase them from every version, and prove it."""

VERBS = (
    "request",
    "list",
    "show",
    "hide",
    "withdraw",
    "purge",
    "prove",
    "certificate",
    "check-certificate",
    "recognise",
    "watch",
)
ALIASES = {"recognize": "recognise"}
