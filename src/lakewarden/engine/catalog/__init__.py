"""Catalogs, tables and snapshots, as PyIceberg reads them."""
