"""SQL from callers: one SELECT over tables and lists, with functions that run operations."""
