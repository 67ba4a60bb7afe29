"""Shared by all other packages of the engine: table names, locations, error translation, parallel work."""
