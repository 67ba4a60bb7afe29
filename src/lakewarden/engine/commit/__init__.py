"""Commits changes of tables: the changes as values, new snapshots, and the routes to publish them."""
