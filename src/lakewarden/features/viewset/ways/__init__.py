"""How `viewset heal` makes incompatible partitions current: which ways are possible, what they cost, and doing it."""
