"""The files of a table: manifests, live files, reachable files, and column metrics."""
