"""Which files a table has: manifests, live files, what is reachable, and their metrics."""
