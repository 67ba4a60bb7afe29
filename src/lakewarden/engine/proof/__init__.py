"""Searching everything stored of a table for values. It shares no code with what erases."""
