"""Tests of SQL from callers."""
