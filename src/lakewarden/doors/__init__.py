"""The ways in: command line, REST, and classes that look like other tools'. Derived; no domain decisions."""
