"""People who come back with new data after they were erased."""
