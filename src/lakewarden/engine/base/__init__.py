"""What every other package of the engine uses: names of tables and places, faults of services, work in parallel."""
