"""Replacing files in every version of a table at once."""
