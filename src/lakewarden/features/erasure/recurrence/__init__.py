"""Erased values that come back with new data."""
