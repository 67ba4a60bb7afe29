"""Tests of the ways to heal partitions."""
