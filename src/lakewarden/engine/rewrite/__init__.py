"""Rewrites data files, in Spark tasks or in this process."""
