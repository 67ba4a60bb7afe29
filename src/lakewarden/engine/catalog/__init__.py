"""Catalogs, tables and their snapshots, as PyIceberg reads them."""
