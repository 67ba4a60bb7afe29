"""Erasure requests: their keys and values, what is due, what actions recorded for them, and how they are shown."""
