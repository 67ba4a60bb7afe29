"""What requests ask for: which keys and values, what is due, what actions did for them, and how they are shown."""
