"""The Spark session, its jars, and statements on tables."""
