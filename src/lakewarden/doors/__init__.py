"""The interfaces: command line, REST, and classes compatible with other tools. They make no domain decisions."""
