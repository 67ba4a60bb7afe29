"""Interfaces that users of other tools know: thin modules that only call the Warden."""
