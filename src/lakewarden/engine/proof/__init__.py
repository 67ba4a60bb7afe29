"""Searches everything stored of a table for values. Shares no code with what erases."""
