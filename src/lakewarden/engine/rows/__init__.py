"""Rows of tables: reading them, finding them by key, hiding them."""
